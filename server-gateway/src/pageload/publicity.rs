//! Publicity: the decision which parts of one device's page load may be used for other devices.
//!
//! A URL that was requested without cookies and credentials, and whose response no field marks as personal,
//! reveals nothing about its user unless the URL itself does. Storability in a shared cache would be too
//! strict a condition: most responses to scripts have no freshness lifetime.
use http::{HeaderMap, StatusCode, header};
use longhaul_http::{
    request_context::Navigation,
    vary::{self, Vary},
};
use longhaul_page::learn;
use longhaul_types::UnixTime;
use longhaul_webcache::RequesterIdentity;
use url::Url;

/// Audience of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publicity {
    /// Every device would have sent the same request and received the same response.
    Public,
    /// Only the device itself may use the exchange.
    Personal,
}

impl Publicity {
    /// Classifies an exchange by the request that the origin received, and its response.
    pub(crate) fn of(request: &HeaderMap, status: StatusCode, response: &HeaderMap) -> Self {
        let is_anonymous = request.keys().all(|name| {
            let is_credential =
                [header::COOKIE, header::AUTHORIZATION, header::PROXY_AUTHORIZATION].contains(name);
            // Scripts send their keys in fields of their own.
            let is_own = name.as_str().starts_with("x-") && name.as_str() != "x-requested-with";
            !is_credential && !is_own
        });
        if is_anonymous && status == StatusCode::OK && is_impersonal(response) {
            Self::Public
        } else {
            Self::Personal
        }
    }

    /// Classifies the visit of a page: a frame's document reveals the embedding page, and a request with
    /// credentials belongs to a user.
    pub(crate) fn of_visit(identity: &RequesterIdentity) -> Self {
        let context = identity.context();
        if context.navigation() == Navigation::TopLevel && context.credentials().is_none() {
            Self::Public
        } else {
            Self::Personal
        }
    }

    /// Classifies a URL. A URL is personal if a query name denotes a person, a session or a permission, if a
    /// value could be a secret, or if the URL differs in every visit.
    pub(crate) fn of_url(url: &Url, now: UnixTime) -> Self {
        let is_plain = url.username().is_empty() && url.password().is_none();
        let is_public = is_plain
            && !learn::is_volatile(url, now)
            && url
                .query_pairs()
                .all(|(name, value)| !is_personal_name(&name) && !is_secret_value(&name, &value))
            && url
                .path_segments()
                .is_none_or(|mut segments| !segments.any(has_personal_parameter));
        if is_public { Self::Public } else { Self::Personal }
    }

    pub(crate) fn is_public(self) -> bool {
        self == Self::Public
    }

    /// Returns `Public` if both are public.
    pub(crate) fn and(self, other: Self) -> Self {
        if self == Self::Public { other } else { self }
    }
}

/// Returns true if no field marks the response as one user's.
fn is_impersonal(response: &HeaderMap) -> bool {
    let controls = response.get_all(header::CACHE_CONTROL).iter();
    let is_private = controls.filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|member| {
            // Also with an argument: then some fields are private, and the form is rare otherwise.
            let name = member.split_once('=').map_or(member, |(name, _)| name).trim();
            name.eq_ignore_ascii_case("private") || name.eq_ignore_ascii_case("no-store")
        })
    });
    !is_private && !response.contains_key(header::SET_COOKIE) && vary::of(response) != Vary::Any
}

/// Returns true if a query name denotes a person, a session or a permission.
fn is_personal_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // Long words may be part of a name, as in `access_token` or `PHPSESSID`; short words must be whole.
    let is_part = PERSONAL_PARTS.iter().any(|part| name.contains(part));
    is_part
        || name
            .split(|char: char| !char.is_ascii_alphanumeric())
            .any(|word| PERSONAL_WORDS.contains(&word))
}

/// Returns true if a query value could be a secret or identify a person: an e-mail address, or a long random
/// word, unless the name denotes a file version.
fn is_secret_value(name: &str, value: &str) -> bool {
    if value.contains('@') {
        return true;
    }
    let name = name.to_ascii_lowercase();
    !VERSIONS.contains(&name.as_str()) && has_random_word(value)
}

/// Returns true if a word of the text is long and mixes letters and digits.
fn has_random_word(text: &str) -> bool {
    text.split(|char: char| !char.is_ascii_alphanumeric())
        .any(|word| {
            word.len() >= MIN_SECRET
                && word.bytes().any(|byte| byte.is_ascii_digit())
                && word.bytes().any(|byte| byte.is_ascii_alphabetic())
        })
}

/// Path parameters such as `/page;jsessionid=…`.
fn has_personal_parameter(segment: &str) -> bool {
    segment
        .split(';')
        .skip(1)
        .any(|parameter| is_personal_name(parameter.split_once('=').map_or(parameter, |(name, _)| name)))
}

/// Shorter values are too easily guessed to be secrets.
const MIN_SECRET: usize = 16;
const PERSONAL_PARTS: [&str; 17] = [
    "token",
    "session",
    "sess",
    "secret",
    "passw",
    "auth",
    "signature",
    "credential",
    "jwt",
    "apikey",
    "csrf",
    "xsrf",
    "email",
    "userid",
    "username",
    "visitor",
    "nonce",
];
const PERSONAL_WORDS: [&str; 17] = [
    "key", "sid", "sig", "uid", "cid", "pid", "user", "login", "mail", "pass", "pwd", "code", "state", "otp",
    "ticket", "hmac", "policy",
];
const VERSIONS: [&str; 8] = ["v", "ver", "version", "rev", "h", "hash", "build", "digest"];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderName;

    use super::*;

    fn fields(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn exchanges_without_personal_data_are_public() {
        let of = |request: &[_], status, response: &[_]| {
            let status = StatusCode::from_u16(status).unwrap();
            Publicity::of(&fields(request), status, &fields(response))
        };
        assert_eq!(of(&[("accept", "*/*")], 200, &[]), Publicity::Public);
        let control = |value| of(&[], 200, &[("cache-control", value)]);
        assert_eq!(control("max-age=60, public"), Publicity::Public);
        assert_eq!(control("no-cache"), Publicity::Public);
        assert_eq!(control("max-age=60, Private"), Publicity::Personal);
        assert_eq!(control("private=\"x-user\""), Publicity::Personal);
        assert_eq!(control("no-store"), Publicity::Personal);
        assert_eq!(of(&[("cookie", "a=1")], 200, &[]), Publicity::Personal);
        assert_eq!(of(&[("authorization", "x")], 200, &[]), Publicity::Personal);
        assert_eq!(of(&[("x-api-key", "x")], 200, &[]), Publicity::Personal);
        assert_eq!(of(&[("x-requested-with", "x")], 200, &[]), Publicity::Public);
        assert_eq!(of(&[], 200, &[("set-cookie", "a=1")]), Publicity::Personal);
        assert_eq!(of(&[], 200, &[("vary", "*")]), Publicity::Personal);
        assert_eq!(of(&[], 404, &[]), Publicity::Personal);
    }

    #[test]
    fn urls_with_personal_parts_are_personal() {
        let now = UnixTime::new(Duration::from_secs(1_760_000_000));
        let of =
            |url: &str| Publicity::of_url(&Url::parse("http://a.test/").unwrap().join(url).unwrap(), now);
        for url in [
            "/x.json",
            "/x?lang=en&page=3",
            "/x.js?v=9f86d081884c7d659a2feaa0c55ad015",
            "/x.js?9f86d081884c7d659a2feaa0c55ad015",
            "/app.9f86d081884c7d659a2feaa0.js",
            "/x?keyword=monkey",
            "/x?family=Roboto:400,700|OpenSansCondensed",
            "/a;v=1/x",
        ] {
            assert_eq!(of(url), Publicity::Public, "{url}");
        }
        for url in [
            "http://me@a.test/x",
            "http://me:secret@a.test/x",
            "/x?access_token=1",
            "/x?PHPSESSID=1",
            "/x?api-key=1",
            "/x?a=1&sid=2",
            "/x?X-Amz-Signature=0",
            "/x?to=me%40b.test",
            "/x?q=9f86d081884c7d659a2feaa0c55ad015",
            "/x?_=1760000000123",
            "/page;jsessionid=5",
        ] {
            assert_eq!(of(url), Publicity::Personal, "{url}");
        }
    }
}
