//! Publicity: the decision which parts of one device's page load may be used for other devices.
//!
//! The page's *request* decides whether a visit teaches others at all: without cookies and credentials, everything that
//! the gateway fetches for the page is what any visitor gets. Then each URL is judged on its own. Names are told, never
//! responses, cookies or sizes.
use http::{HeaderMap, StatusCode, header};
use longhaul_gateway_core::admin::page_load_refusal::Refusal;
use longhaul_http::{
    request_context::{Navigation, is_own_field},
    vary::{self, Vary},
};
use longhaul_page::learn;
use longhaul_types::UnixTime;
use longhaul_webcache::RequesterIdentity;
use url::Url;

/// Audience of a page's visit, or of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publicity {
    /// It contains nothing of the device's user.
    Public,
    /// Only the device itself may use it.
    Personal,
}

impl Publicity {
    /// Classifies the visit of a page by its request, with the fields that the origin received: a request with
    /// credentials belongs to a user, and a frame's document reveals the embedding page.
    pub(crate) fn of_visit(
        identity: &RequesterIdentity,
        url: &Url,
        request: &HeaderMap,
        now: UnixTime,
    ) -> Self {
        let context = identity.context();
        let is_top_level = context.navigation() == Navigation::TopLevel;
        if is_top_level && context.credentials().is_none() && !has_credentials(request) {
            Self::of_url(url, now)
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

/// What must be known before other devices may be told that a page requests a URL, by its request and response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disclosure {
    /// Public documents of the page contain the words of the URL, or two devices asked for it.
    PublicWords,
    /// Two devices asked for it.
    TwoDevices,
    /// Other devices are never told.
    Never(Refusal),
}

impl Disclosure {
    /// Classifies a request, as the origin received it, by its response.
    pub(crate) fn of(request: &HeaderMap, status: StatusCode, response: &HeaderMap) -> Self {
        if request.contains_key(header::AUTHORIZATION) || request.contains_key(header::PROXY_AUTHORIZATION) {
            return Self::Never(Refusal::Credentials);
        }
        // Scripts send their keys in fields of their own, and no plan predicts them.
        if request.iter().any(|(name, value)| is_own_field(name, value)) {
            return Self::Never(Refusal::Fields);
        }
        if status.is_server_error() || DENIALS.contains(&status) {
            return Self::Never(Refusal::Status);
        }
        if is_impersonal(response) {
            Self::PublicWords
        } else {
            Self::TwoDevices
        }
    }

    /// The stricter of two.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never(_), _) | (Self::TwoDevices, Self::PublicWords) => self,
            (Self::PublicWords | Self::TwoDevices, _) => other,
        }
    }
}

/// Returns true if a request carries credentials, also those of visit counters.
fn has_credentials(request: &HeaderMap) -> bool {
    [header::COOKIE, header::AUTHORIZATION, header::PROXY_AUTHORIZATION]
        .iter()
        .any(|name| request.contains_key(name))
        || request.iter().any(|(name, value)| is_own_field(name, value))
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

/// Returns true if a word could be a secret or identify a person: if it is long and random.
pub(super) fn is_identifying(word: &[u8]) -> bool {
    let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
    digits >= MIN_NUMBER || word.len() >= MIN_IDENTIFIER && digits > 0 && digits < word.len()
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
    // A name of a list, such as that of a module, may contain a number. Words between spaces are what a user wrote.
    let members = value.split([',', '|', ';']).count();
    let changes = if members >= MIN_LIST { 2 } else { 0 };
    !VERSIONS.contains(&name.as_str()) && has_random_word(value, changes)
}

/// Returns true if a word of the text is long and changes between letters and digits more often.
fn has_random_word(text: &str, most_changes: usize) -> bool {
    text.split(|char: char| !char.is_ascii_alphanumeric())
        .any(|word| {
            let kinds = word.as_bytes().windows(2);
            let changes = kinds.filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit());
            word.len() >= MIN_SECRET && changes.count() > most_changes
        })
}

/// Path parameters such as `/page;jsessionid=…`.
fn has_personal_parameter(segment: &str) -> bool {
    segment
        .split(';')
        .skip(1)
        .any(|parameter| is_personal_name(parameter.split_once('=').map_or(parameter, |(name, _)| name)))
}

/// Statuses that depend on who asks.
const DENIALS: [StatusCode; 3] = [
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::PROXY_AUTHENTICATION_REQUIRED,
];
/// Numbers with as many digits may be those of users.
const MIN_NUMBER: usize = 5;
/// Words of letters and digits with this length may be those of sessions.
const MIN_IDENTIFIER: usize = 8;
/// Shorter values are too easily guessed to be secrets.
const MIN_SECRET: usize = 16;
/// Values with as many parts are lists.
const MIN_LIST: usize = 3;
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
    fn requests_and_responses_decide_who_is_told() {
        let of = |request: &[_], status, response: &[_]| {
            let status = StatusCode::from_u16(status).unwrap();
            Disclosure::of(&fields(request), status, &fields(response))
        };
        assert_eq!(of(&[("accept", "*/*")], 200, &[]), Disclosure::PublicWords);
        let control = |value| of(&[], 200, &[("cache-control", value)]);
        assert_eq!(control("max-age=60, public"), Disclosure::PublicWords);
        assert_eq!(control("no-cache"), Disclosure::PublicWords);
        assert_eq!(control("max-age=60, Private"), Disclosure::TwoDevices);
        assert_eq!(control("private=\"x-user\""), Disclosure::TwoDevices);
        assert_eq!(control("no-store"), Disclosure::TwoDevices);
        assert_eq!(of(&[], 200, &[("set-cookie", "a=1")]), Disclosure::TwoDevices);
        assert_eq!(of(&[], 200, &[("vary", "*")]), Disclosure::TwoDevices);
        assert_eq!(
            of(&[("x-requested-with", "x")], 200, &[]),
            Disclosure::PublicWords
        );
        for status in [204, 302, 404] {
            assert_eq!(of(&[], status, &[]), Disclosure::PublicWords, "{status}");
        }
        for status in [401, 403, 407, 500, 503] {
            assert_eq!(
                of(&[], status, &[]),
                Disclosure::Never(Refusal::Status),
                "{status}"
            );
        }
        let credentials = Disclosure::Never(Refusal::Credentials);
        assert_eq!(of(&[("authorization", "x")], 200, &[]), credentials);
        for name in ["x-api-key", "private-token", "apikey", "auth-token"] {
            let disclosure = of(&[(name, "x")], 200, &[]);
            assert_eq!(disclosure, Disclosure::Never(Refusal::Fields), "{name}");
        }
        assert_eq!(credentials.and(Disclosure::PublicWords), credentials);
        assert_eq!(
            Disclosure::PublicWords.and(Disclosure::TwoDevices),
            Disclosure::TwoDevices
        );
        assert_eq!(Disclosure::TwoDevices.and(credentials), credentials);
        assert_eq!(
            Disclosure::TwoDevices.and(Disclosure::PublicWords),
            Disclosure::TwoDevices
        );
    }

    #[test]
    fn long_numbers_and_mixed_words_are_identifying() {
        for word in ["12345", "9f86d081", "user12345", "a1b2c3d4e5"] {
            assert!(is_identifying(word.as_bytes()), "{word}");
        }
        for word in ["app", "OpenSansCondensed", "2026", "v2", "md5", "h264"] {
            assert!(!is_identifying(word.as_bytes()), "{word}");
        }
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
            "/load.php?modules=jquery.ui|ext.gadget.ReferenceTooltips2Mobile|site",
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
            "/x?q=ReferenceTooltips2Mobile",
            "/x?q=one+two+ReferenceTooltips2Mobile",
            "/x?list=a,b,9f86d081884c7d659a2feaa0c55ad015",
            "/x?_=1760000000123",
            "/page;jsessionid=5",
        ] {
            assert_eq!(of(url), Publicity::Personal, "{url}");
        }
    }
}
