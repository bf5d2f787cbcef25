//! The `Cookie` field of requests (RFC 6265 section 5.4, RFC 9113 section 8.2.3).
use http::{HeaderMap, header};

/// Returns the cookie string of a request: all `Cookie` fields (HTTP/2 may split them) joined by `"; "`, byte
/// for byte. None without such a field.
pub fn joined(request: &HeaderMap) -> Option<Vec<u8>> {
    let mut fields = request.get_all(header::COOKIE).iter();
    let mut whole = fields.next()?.as_bytes().to_vec();
    for field in fields {
        whole.extend_from_slice(b"; ");
        whole.extend_from_slice(field.as_bytes());
    }
    Some(whole)
}

/// Returns true if both requests have the same cookies (the same bytes in the same order), or both have none.
pub fn same(one: &HeaderMap, other: &HeaderMap) -> bool {
    joined(one) == joined(other)
}

/// Returns the pairs of a cookie string in order. A part without `=` is a value with an empty name, as in
/// browsers.
pub fn pairs(cookie_string: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    cookie_string
        .split(|byte| *byte == b';')
        .map(<[u8]>::trim_ascii)
        .filter(|pair| !pair.is_empty())
        .map(|pair| match pair.iter().position(|byte| *byte == b'=') {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (&pair[..0], pair),
        })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn request(fields: &[&'static str]) -> HeaderMap {
        let fields = fields
            .iter()
            .map(|value| (header::COOKIE, HeaderValue::from_static(value)));
        fields.collect()
    }

    #[test]
    fn split_fields_are_one_cookie_string() {
        assert_eq!(joined(&request(&[])), None);
        assert_eq!(joined(&request(&["a=1", "b=2"])).unwrap(), b"a=1; b=2");
        assert!(same(&request(&["a=1; b=2"]), &request(&["a=1", "b=2"])));
        assert!(!same(&request(&["a=1; b=2"]), &request(&["b=2; a=1"])));
        assert!(!same(&request(&["a=1;b=2"]), &request(&["a=1; b=2"])));
        assert!(!same(&request(&[""]), &request(&[])));
    }

    #[test]
    fn pairs_of_a_cookie_string() {
        let all: Vec<_> = pairs(b"a=1; b=x=y;;flag; =v").collect();
        let expected: [(&[u8], &[u8]); 4] = [(b"a", b"1"), (b"b", b"x=y"), (b"", b"flag"), (b"", b"v")];
        assert_eq!(all, expected);
    }
}
