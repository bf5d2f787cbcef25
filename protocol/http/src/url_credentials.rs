//! User name and password in URLs (RFC 3986 section 3.2.1): they belong to the origin's `Authorization`, and to nothing else.
//!
//! Programs that have a proxy send the URL that they were given: `GET http://user:password@repo.test/`. Without a proxy they
//! send `Authorization` themselves.
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderValue, Uri, header, uri::Authority};
use percent_encoding::percent_decode_str;

/// Moves the user name and password of a requested URL to `Authorization`, unless the request has that field, and removes
/// those of `Referer`.
pub fn move_to_fields(uri: &Uri, headers: &mut HeaderMap) {
    if let (Some(value), false) = (authorization(uri), headers.contains_key(header::AUTHORIZATION)) {
        headers.insert(header::AUTHORIZATION, value);
    }
    let referrer = headers.get(header::REFERER).and_then(|value| value.to_str().ok());
    if let Some(Ok(value)) = referrer.and_then(without).map(HeaderValue::try_from) {
        headers.insert(header::REFERER, value);
    }
}

/// The user name and password of a URL as a value of `Authorization` (RFC 7617). Nothing before the `@` is no user name.
fn authorization(uri: &Uri) -> Option<HeaderValue> {
    let (userinfo, _) = split(uri.authority()?);
    let (user, password) = match userinfo?.split_once(':') {
        Some((user, password)) => (user, password),
        None => (userinfo?, ""),
    };
    if user.is_empty() && password.is_empty() {
        return None;
    }
    let mut pair: Vec<u8> = percent_decode_str(user).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(password));
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Splits an authority into the part before the last `@`, and host and port.
pub(crate) fn split(authority: &Authority) -> (Option<&str>, &str) {
    let text = authority.as_str();
    match text.rsplit_once('@') {
        Some((userinfo, host_and_port)) => (Some(userinfo), host_and_port),
        None => (None, text),
    }
}

/// A URL without its user name and password, if it has any.
fn without(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (_, host_and_port) = rest[..end].rsplit_once('@')?;
    Some(format!("{scheme}://{host_and_port}{}", &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(url: &str, fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        move_to_fields(&url.parse().unwrap(), &mut headers);
        headers
    }

    #[test]
    fn a_user_in_the_url_becomes_authorization() {
        for (url, expected) in [
            ("http://u:p@a.test/", Some("u:p")),
            ("http://u@a.test/", Some("u:")),
            ("http://u:@a.test/", Some("u:")),
            ("http://:p@a.test/", Some(":p")),
            ("http://u:p:q@a.test/", Some("u:p:q")),
            ("http://a%40b:c%3Ad%2f@a.test:81/x?y@z", Some("a@b:c:d/")),
            ("http://a@b:c@a.test/", Some("a@b:c")),
            ("http://%C3%BC:p%C3%A4@a.test/", Some("\u{fc}:p\u{e4}")),
            ("http://%zz:c@a.test/", Some("%zz:c")),
            ("http://u%0d%0a:c@a.test/", Some("u\r\n:c")),
            ("http://@a.test/", None),
            ("http://:@a.test/", None),
            ("http://a.test/u:p@b", None),
        ] {
            let expected = expected.map(|pair| format!("Basic {}", BASE64_STANDARD.encode(pair)));
            let headers = moved(url, &[]);
            let value = headers.get(header::AUTHORIZATION);
            assert_eq!(
                value.map(|value| value.to_str().unwrap()),
                expected.as_deref(),
                "{url}"
            );
        }
        let own = moved("http://u:p@a.test/", &[("authorization", "Bearer x")]);
        assert_eq!(own[header::AUTHORIZATION], "Bearer x");
        assert_eq!(own.len(), 1);
    }

    #[test]
    fn a_user_in_the_referrer_goes_nowhere() {
        for (referrer, expected) in [
            ("http://u:p@a.test/x?y", "http://a.test/x?y"),
            ("https://a@b@a.test", "https://a.test"),
            ("http://a.test/x@y", "http://a.test/x@y"),
            ("http://a.test?x@y", "http://a.test?x@y"),
            ("about:client", "about:client"),
        ] {
            let headers = moved("http://a.test/", &[("referer", referrer)]);
            assert_eq!(headers[header::REFERER], expected);
        }
    }
}
