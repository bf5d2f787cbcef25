//! Parsing of `Set-Cookie` (RFC 6265 section 5.2 and its successor draft).
use longhaul_types::UnixTime;

use super::date;

/// A parsed `Set-Cookie` field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetCookie<'a> {
    pub(super) name: &'a [u8],
    pub(super) value: &'a [u8],
    /// Lower case, without the leading dot; `None` if absent or empty.
    pub(super) domain: Option<String>,
    /// `None`: the default path.
    pub(super) path: Option<&'a [u8]>,
    pub(super) expiry: Expiry,
    pub(super) secure: bool,
    pub(super) same_site: SameSite,
}

/// End of a cookie's lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// The end of the browser's session.
    Session,
    /// At this time.
    At(UnixTime),
    /// This number of seconds after receipt; negative values count as zero.
    After(u64),
}

/// Cross-site requests that carry a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SameSite {
    /// `Lax`, or the default: navigations of the window, but not subresources.
    Lax,
    /// `Strict`: none.
    Strict,
    /// `None`: all.
    None,
}

/// Parses a field; `None` if browsers ignore it.
pub(super) fn parse(field: &[u8]) -> Option<SetCookie<'_>> {
    // Control characters except the tab make browsers ignore the whole field.
    if field.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        return None;
    }
    let mut parts = field.split(|byte| *byte == b';');
    let pair = parts.next().unwrap_or_default();
    let (name, value) = match pair.iter().position(|byte| *byte == b'=') {
        Some(at) => (pair[..at].trim_ascii(), pair[at + 1..].trim_ascii()),
        None => (&pair[..0], pair.trim_ascii()),
    };
    if name.is_empty() && value.is_empty() || name.len() + value.len() > MAX_PAIR {
        return None;
    }
    let mut cookie = SetCookie {
        name,
        value,
        domain: None,
        path: None,
        expiry: Expiry::Session,
        secure: false,
        same_site: SameSite::Lax,
    };
    let mut max_age = None;
    for part in parts {
        let (name, value) = match part.iter().position(|byte| *byte == b'=') {
            Some(at) => (part[..at].trim_ascii(), part[at + 1..].trim_ascii()),
            None => (part.trim_ascii(), &part[..0]),
        };
        if value.len() <= MAX_ATTRIBUTE {
            cookie.attribute(name, value, &mut max_age);
        }
    }
    if let Some(seconds) = max_age {
        cookie.expiry = Expiry::After(seconds);
    }
    Some(cookie)
}

impl<'a> SetCookie<'a> {
    fn attribute(&mut self, name: &[u8], value: &'a [u8], max_age: &mut Option<u64>) {
        match name.to_ascii_lowercase().as_slice() {
            b"domain" => {
                let domain = value.strip_prefix(b".").unwrap_or(value);
                let domain = String::from_utf8_lossy(domain).to_ascii_lowercase();
                self.domain = Some(domain).filter(|domain| !domain.is_empty());
            }
            b"path" => self.path = value.starts_with(b"/").then_some(value),
            b"expires" => {
                if let Some(time) = date::parse(value) {
                    self.expiry = Expiry::At(time);
                }
            }
            b"max-age" => {
                if let Some(seconds) = seconds(value) {
                    *max_age = Some(seconds);
                }
            }
            b"secure" => self.secure = true,
            b"samesite" => {
                self.same_site = match value.to_ascii_lowercase().as_slice() {
                    b"none" => SameSite::None,
                    b"strict" => SameSite::Strict,
                    _ => SameSite::Lax,
                };
            }
            _ => {}
        }
    }
}

/// Parses a number; negative numbers become zero.
fn seconds(value: &[u8]) -> Option<u64> {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    if digits.len() < value.len() {
        return Some(0);
    }
    let text = std::str::from_utf8(digits).ok()?;
    Some(text.parse().unwrap_or(u64::MAX))
}

/// Maximum length of name and value together, as in browsers.
const MAX_PAIR: usize = 4096;
/// Maximum length of an attribute, as in browsers; longer ones are ignored.
const MAX_ATTRIBUTE: usize = 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn pair(field: &str) -> Option<(&str, &str)> {
        let cookie = parse(field.as_bytes())?;
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        Some((text(cookie.name), text(cookie.value)))
    }

    #[test]
    fn cookie_names_and_values_are_parsed() {
        for (field, expected) in [
            ("a=1", Some(("a", "1"))),
            (" a = 1 ; Path=/", Some(("a", "1"))),
            ("a=b=c", Some(("a", "b=c"))),
            ("a=\"x y\"", Some(("a", "\"x y\""))),
            ("a=", Some(("a", ""))),
            ("alone", Some(("", "alone"))),
            ("=v", Some(("", "v"))),
            ("", None),
            ("=", None),
            (";a=1", None),
            ("a=1\u{7}", None),
        ] {
            assert_eq!(pair(field), expected, "{field:?}");
        }
        assert!(parse(format!("a={}", "x".repeat(4095)).as_bytes()).is_some());
        assert!(parse(format!("a={}", "x".repeat(4096)).as_bytes()).is_none());
    }

    #[test]
    fn cookie_attributes_are_parsed() {
        let cookie = parse(b"a=1; DOMAIN=.A.test; path=/x; secure; HttpOnly; SameSite=none").unwrap();
        assert_eq!(cookie.domain.as_deref(), Some("a.test"));
        assert_eq!(cookie.path, Some(&b"/x"[..]));
        assert!(cookie.secure);
        assert_eq!(cookie.same_site, SameSite::None);
        let cookie = parse(b"a=1; Domain=; Path=x; SameSite=odd").unwrap();
        assert_eq!((cookie.domain, cookie.path), (None, None));
        assert_eq!(cookie.same_site, SameSite::Lax);
    }

    #[test]
    fn max_age_beats_expires() {
        let expiry = |field: &str| parse(field.as_bytes()).unwrap().expiry;
        let date = "Expires=Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(
            expiry(&format!("a=1; {date}")),
            Expiry::At(UnixTime::new(Duration::from_secs(784_111_777)))
        );
        assert_eq!(expiry(&format!("a=1; Max-Age=5; {date}")), Expiry::After(5));
        assert_eq!(expiry("a=1; Max-Age=-3"), Expiry::After(0));
        assert_eq!(expiry("a=1; Max-Age=x; Expires=0"), Expiry::Session);
        assert_eq!(
            expiry("a=1; Max-Age=99999999999999999999"),
            Expiry::After(u64::MAX)
        );
    }
}
