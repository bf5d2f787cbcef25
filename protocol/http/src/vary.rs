//! Request fields that select a response (`Vary`, RFC 9111 section 4.1), and keys of these fields.
//!
//! `Vary` decides nothing about `Accept-Encoding`. For clients that take decoded bodies it is never part of a key: bodies
//! are stored without content codings, and all requests to origins have the same value
//! ([`crate::coding::ORIGIN_ACCEPT_ENCODING`]). For all others it always is ([`crate::coding::own_negotiation`]), because
//! an origin may have another body, or another form of it, for them, also without a word in `Vary`.
use http::{HeaderMap, HeaderName, header};
use longhaul_types::ContentHash;

use crate::{coding, cookies, list::members, transcoded_image};

/// Contents of the `Vary` fields of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// No field: the response answers all requests.
    None,
    /// `*`, or too many fields to compare: the response answers no other request.
    Any,
    /// The names of the selecting request fields, sorted, without duplicates.
    Names(Vec<HeaderName>),
}

/// Parses the `Vary` fields of a response.
pub fn of(response: &HeaderMap) -> Vary {
    let mut names: Vec<HeaderName> = Vec::new();
    for value in response.get_all(header::VARY) {
        // An unreadable field prevents any comparison.
        if value.to_str().is_err() {
            return Vary::Any;
        }
    }
    for member in members(response, header::VARY) {
        let Ok(name) = member.parse::<HeaderName>() else {
            return Vary::Any;
        };
        if member == "*" || names.len() == MAX_NAMES {
            return Vary::Any;
        }
        if name != header::ACCEPT_ENCODING {
            names.push(name);
        }
    }
    names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    if names.is_empty() {
        Vary::None
    } else {
        Vary::Names(names)
    }
}

/// Returns a key of the request fields that select the response: with equal keys the response answers both requests. None
/// if no field does, and also for [`Vary::Any`], whose responses answer no second request: check [`of`] first.
///
/// Several fields of one name are joined, those of `Cookie` by `"; "`; an absent field differs from an empty
/// one.
pub fn key(response: &HeaderMap, request: &HeaderMap) -> Option<[u8; 8]> {
    let mut text = nominated_text(response, request);
    if let Some(own) = coding::own_negotiation(request) {
        text.extend_from_slice(b"=coding");
        text.extend_from_slice(&own);
    }
    (!text.is_empty()).then(|| short_hash(&text))
}

/// Returns true if two requests have equal fields where the response's `Vary` names them. The requests may consist of
/// these fields alone.
pub(crate) fn is_equal(response: &HeaderMap, one: &HeaderMap, other: &HeaderMap) -> bool {
    nominated_text(response, one) == nominated_text(response, other)
}

fn nominated_text(response: &HeaderMap, request: &HeaderMap) -> Vec<u8> {
    let mut text = Vec::new();
    let Vary::Names(names) = of(response) else {
        return text;
    };
    for name in names {
        text.extend_from_slice(name.as_str().as_bytes());
        if name == header::ACCEPT
            && transcoded_image::is_variant(response)
            && transcoded_image::may_answer(request)
        {
            // The response answers every such request, whatever its `Accept` value is otherwise.
            text.extend_from_slice(b"=display\n");
            continue;
        }
        match value(request, &name) {
            Some(value) => {
                text.push(b':');
                text.extend_from_slice(&value);
            }
            None => text.push(b'-'),
        }
        // No field value contains a line feed.
        text.push(b'\n');
    }
    text
}

/// Returns the request fields that the response's `Vary` names, as a cache stores them with the response.
pub fn nominated(response: &HeaderMap, request: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    if let Vary::Names(names) = of(response) {
        for name in names {
            for value in request.get_all(&name) {
                kept.append(name.clone(), value.clone());
            }
        }
    }
    kept
}

fn value(request: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    if name == header::COOKIE {
        return cookies::joined(request);
    }
    let mut values = request.get_all(name).iter();
    let mut whole = values.next()?.as_bytes().to_vec();
    for value in values {
        whole.extend_from_slice(b", ");
        whole.extend_from_slice(value.as_bytes());
    }
    Some(whole)
}

fn short_hash(text: &[u8]) -> [u8; 8] {
    let mut short = [0; 8];
    short.copy_from_slice(&ContentHash::of(text).as_bytes()[..8]);
    short
}

/// More names than this count as `*`, which keeps keys cheap.
const MAX_NAMES: usize = 32;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::test_fields::map;

    #[test]
    fn a_transcoded_image_ignores_the_accept_field_of_vary() {
        let map = |fields: &[(&'static str, &str)]| -> HeaderMap {
            fields
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
                .collect()
        };
        let variant = map(&[("vary", "accept"), ("x-longhaul", "image=low")]);
        let original = map(&[("vary", "accept")]);
        let (one, other) = (
            map(&[("accept", "image/webp,*/*")]),
            map(&[("accept", "image/avif,image/webp")]),
        );
        let script = map(&[("accept", "*/*")]);
        assert_eq!(key(&variant, &one), key(&variant, &other));
        assert_ne!(key(&variant, &one), key(&variant, &script));
        assert_ne!(key(&original, &one), key(&original, &other));
    }

    #[test]
    fn field_names_of_vary_are_parsed() {
        let vary = |value| of(&map(&[("vary", value)]));
        assert_eq!(of(&map(&[])), Vary::None);
        assert_eq!(vary(""), Vary::None);
        assert_eq!(vary("Accept-Encoding"), Vary::None);
        assert_eq!(vary("*"), Vary::Any);
        assert_eq!(vary("accept, *"), Vary::Any);
        assert_eq!(vary("not a name"), Vary::Any);
        let two = [("vary", "Cookie, accept-encoding"), ("vary", "Accept,COOKIE")];
        assert_eq!(of(&map(&two)), Vary::Names(vec![header::ACCEPT, header::COOKIE]));
        let mut unreadable = HeaderMap::new();
        unreadable.insert(header::VARY, HeaderValue::from_bytes(b"accept\xff").unwrap());
        assert_eq!(of(&unreadable), Vary::Any);
        let mut many = HeaderMap::new();
        for index in 0..MAX_NAMES {
            many.append(header::VARY, format!("x-{index}").parse().unwrap());
        }
        assert!(matches!(of(&many), Vary::Names(names) if names.len() == MAX_NAMES));
        many.append(header::VARY, HeaderValue::from_static("one-more"));
        assert_eq!(of(&many), Vary::Any);
    }

    #[test]
    fn variant_keys_depend_only_on_the_fields_named_in_vary() {
        let response = map(&[("vary", "Accept, Cookie, Accept-Encoding")]);
        let browser = ("accept-encoding", "gzip, deflate");
        let base = [
            ("accept", "image/webp"),
            ("cookie", "a=1"),
            ("user-agent", "Mozilla/5.0 x"),
            browser,
        ];
        let key_of = |fields: &[(&'static str, &'static str)]| key(&response, &map(fields)).unwrap();
        let same = [
            ("user-agent", "Mozilla/5.0 y"),
            ("accept-encoding", "deflate, gzip, br"),
            ("cookie", "a=1"),
            ("accept", "image/webp"),
        ];
        assert_eq!(key_of(&base), key_of(&same));
        for other in [
            &[("accept", "image/webp"), ("cookie", "a=2"), browser][..],
            &[("accept", "image/webp"), browser],
            &[("accept", "image/webp"), ("cookie", ""), browser],
            &[("cookie", "a=1"), ("accept", ""), browser],
            &[("cookie", "a=1"), browser],
            // A client that negotiates codings itself.
            &base[..3],
        ] {
            assert_ne!(key_of(&base), key_of(other), "{other:?}");
        }
        assert_eq!(key(&map(&[]), &map(&base)), None);
        assert_eq!(key(&map(&[("vary", "*")]), &map(&base)), None);
        // The order of the names does not matter.
        let reversed = map(&[("vary", "cookie"), ("vary", "accept")]);
        assert_eq!(key(&reversed, &map(&base)), Some(key_of(&base)));
    }

    #[test]
    fn nominated_fields_give_the_same_key() {
        let response = map(&[("vary", "Accept, Accept-Language")]);
        let request = map(&[("accept", "a"), ("accept", "b"), ("cookie", "c=1")]);
        let kept = nominated(&response, &request);
        assert_eq!(kept.len(), 2);
        assert_eq!(key(&response, &kept), key(&response, &request));
    }
}
