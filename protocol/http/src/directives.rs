//! The directives of `Cache-Control` (RFC 9111 section 5.2).
use std::time::Duration;

use http::{HeaderMap, header};

/// The directives of all `Cache-Control` fields of a message, in order, names in lower case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directives(Vec<(String, Option<String>)>);

impl Directives {
    /// Parses all `Cache-Control` fields.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut directives = Vec::new();
        for value in headers.get_all(header::CACHE_CONTROL) {
            // Lossy conversion: an invalid byte must not hide a `no-store`.
            let text = String::from_utf8_lossy(value.as_bytes());
            let members = split(&text);
            directives.extend(members.iter().filter_map(|member| directive(member)));
            directives.truncate(MAX_DIRECTIVES);
        }
        Self(directives)
    }

    /// Returns true if the directive is present, with or without an argument.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(other, _)| other == name)
    }

    /// Returns the argument in seconds of the first directive of this name (RFC 9111 section 4.2.1 permits
    /// use of the first occurrence); zero if it is not a number, at most [`MAX_DELTA`].
    pub(crate) fn seconds(&self, name: &str) -> Option<Duration> {
        let (_, argument) = self.0.iter().find(|(other, _)| other == name)?;
        Some(delta_seconds(argument.as_deref().unwrap_or_default()).unwrap_or_default())
    }
}

/// Parses a number of seconds (RFC 9111 section 1.2.2), at most [`MAX_DELTA`].
pub(crate) fn delta_seconds(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // A number that overflows exceeds any limit.
    let seconds = text.parse().unwrap_or(u64::MAX);
    Some(Duration::from_secs(seconds).min(MAX_DELTA))
}

fn directive(member: &str) -> Option<(String, Option<String>)> {
    let (name, argument) = match member.split_once('=') {
        Some((name, argument)) => (name, Some(unquoted(argument.trim()))),
        None => (member, None),
    };
    let name = name.trim().to_ascii_lowercase();
    (!name.is_empty()).then_some((name, argument))
}

/// Returns the content of a quoted string without its escapes, or the token itself.
fn unquoted(argument: &str) -> String {
    let inner = argument.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let Some(inner) = inner else {
        return argument.to_owned();
    };
    let mut text = String::with_capacity(inner.len());
    let mut escaped = false;
    for char in inner.chars() {
        if char == '\\' && !escaped {
            escaped = true;
        } else {
            text.push(char);
            escaped = false;
        }
    }
    text
}

/// Splits at commas outside of quoted strings. If a quoted string is not terminated, splits at all commas;
/// otherwise the rest of the field, and a `no-store` in it, would be lost.
fn split(text: &str) -> Vec<&str> {
    let mut members = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                members.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if quoted {
        return text.split(',').collect();
    }
    members.push(&text[start..]);
    members
}

/// RFC 9111 section 1.2.2: 2^31 represents every larger number.
pub(crate) const MAX_DELTA: Duration = Duration::from_secs(1 << 31);
/// More directives than any ordinary server sends; further ones are ignored.
const MAX_DIRECTIVES: usize = 64;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(values: &[&[u8]]) -> Directives {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::CACHE_CONTROL, HeaderValue::from_bytes(value).unwrap());
        }
        Directives::of(&headers)
    }

    #[test]
    fn names_ignore_case_and_arguments_may_be_quoted() {
        let directives = of(&[
            b"No-Store, MAX-AGE=\"60\" ,, private=\"Set-Cookie, X-A\"",
            b"immutable",
        ]);
        for name in ["no-store", "max-age", "private", "immutable"] {
            assert!(directives.has(name), "{name}");
        }
        assert!(!directives.has("x-a"));
        assert_eq!(directives.seconds("max-age"), Some(Duration::from_secs(60)));
    }

    #[test]
    fn unusual_syntax_does_not_hide_a_directive() {
        assert!(of(&[b"x=\"never closed, no-store"]).has("no-store"));
        assert!(of(&[b"x=\xe9, no-store"]).has("no-store"));
        assert!(of(&[b"x=\"a\\\"b, c\", no-store"]).has("no-store"));
    }

    #[test]
    fn a_quoted_string_contains_no_directive() {
        for value in [
            "private=\"a, no-store, b\"",
            "x=\"a\\\", no-store, b\"",
            "x=\\\", no-store, \"",
        ] {
            assert!(!of(&[value.as_bytes()]).has("no-store"), "{value}");
        }
        assert!(of(&[b"x=\"a\\\\\", no-store, y=\"\""]).has("no-store"));
        assert_eq!(
            of(&[b"max-age=\"6\\0\""]).seconds("max-age"),
            Some(Duration::from_secs(60))
        );
    }

    #[test]
    fn delta_seconds_are_parsed() {
        for (text, expected) in [
            ("max-age=0", 0),
            ("max-age = 5", 5),
            ("max-age=5, max-age=9", 5),
            ("max-age=-1", 0),
            ("max-age=1.5", 0),
            ("max-age=x", 0),
            ("max-age", 0),
            ("max-age=99999999999999999999999", 1 << 31),
        ] {
            let directives = of(&[text.as_bytes()]);
            assert_eq!(
                directives.seconds("max-age"),
                Some(Duration::from_secs(expected)),
                "{text}"
            );
        }
        assert_eq!(of(&[b"s-maxage=1"]).seconds("max-age"), None);
    }
}
