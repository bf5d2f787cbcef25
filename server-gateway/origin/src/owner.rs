//! Whose requests may use which connections.
//!
//! What travels over an HTTP/1.1 connection is only told apart by its order. An origin, or a reverse proxy before it, that
//! takes part of one request for the beginning of the next answers the next request with a response that somebody else
//! chose. So a connection serves one device at a time, and once it carried what could do this, or what is one user's,
//! it is never another device's again.
use std::hash::{BuildHasher, Hasher, RandomState};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{
        ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CACHE_CONTROL, COOKIE, DNT,
        IF_MODIFIED_SINCE, IF_NONE_MATCH, ORIGIN, PRAGMA, RANGE, REFERER, UPGRADE_INSECURE_REQUESTS,
        USER_AGENT, VIA,
    },
    request::Parts,
};
use longhaul_types::PublicKey;

use crate::target::Target;

/// Largest head of a request whose connection may serve other devices afterwards: what common servers accept at least
/// (Apache and nginx: 8 KiB), so that none of them loses its place in a head that it refuses.
const MAX_SHAREABLE_HEAD: usize = 8 * 1024;

/// Fields that every browser sends in a fixed form, and that say nothing about a message's length, its connection or its
/// user. A request with any other field is the device's own.
const CANONICAL_FIELDS: [HeaderName; 14] = [
    ACCEPT,
    ACCEPT_ENCODING,
    ACCEPT_LANGUAGE,
    CACHE_CONTROL,
    DNT,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    ORIGIN,
    PRAGMA,
    RANGE,
    REFERER,
    UPGRADE_INSECURE_REQUESTS,
    USER_AGENT,
    VIA,
];
/// The same for names that the library has no constant for.
const CANONICAL_NAMES: [&str; 5] = ["early-data", "priority", "save-data", "sec-gpc", "sec-purpose"];
/// The same for families of fields: client hints and Fetch Metadata.
const CANONICAL_PREFIXES: [&str; 2] = ["sec-ch-", "sec-fetch-"];

/// For whom a request is sent. Every fetch and tunnel names one: it decides which connections may be used and whose share
/// of the limits is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectionOwner {
    /// A device that the gateway serves.
    Device(PublicKey),
    /// The user of this machine: an agent that fetches without a gateway.
    Local,
}

/// What a request leaves on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trace {
    /// Nothing: the connection may serve other devices afterwards.
    None,
    /// Credentials or fields of its device.
    Private,
    /// Perhaps bytes that the origin takes for the next request.
    Body,
}

/// A request as the pool sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) owner: ConnectionOwner,
    /// Requests of one device with the same scope come from documents of the same origin with the same credentials.
    /// Browsers keep the connections of sites and profiles apart; behind a request with a body this does, too.
    scope: u64,
    /// Whether the document that asks is of the origin that is asked.
    is_same_origin: bool,
    trace: Trace,
}

impl Usage {
    /// `parts` are a request to `target`. `secret` keys the hashes of credentials.
    pub(crate) fn of(
        owner: ConnectionOwner,
        target: &Target,
        parts: &Parts,
        has_body: bool,
        secret: &RandomState,
    ) -> Self {
        Self {
            owner,
            scope: scope(&parts.headers, secret),
            is_same_origin: requester(&parts.headers) == target.origin().as_bytes(),
            trace: trace(parts, has_body),
        }
    }
}

/// To whom a connection belongs after what it has carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// It has carried nothing that matters.
    Unclaimed,
    /// It carried a device's credentials or own fields.
    Device(ConnectionOwner),
    /// It carried a body of the origin's own document over HTTP/1.1: requests of this device and scope only.
    Scope(ConnectionOwner, u64),
    /// It carried a body of somebody else's document over HTTP/1.1: the next response on it may be one that this document
    /// chose, so there is none.
    Nobody,
}

impl Ownership {
    /// The device whose it is.
    pub(crate) fn owner(self) -> Option<ConnectionOwner> {
        match self {
            Self::Unclaimed | Self::Nobody => None,
            Self::Device(owner) | Self::Scope(owner, _) => Some(owner),
        }
    }

    /// How well a connection suits a request, more is better; `None` if it must not carry it. A connection that is the
    /// device's own is preferred, so that those without owner are left to others.
    pub(crate) fn suits(self, usage: &Usage) -> Option<u8> {
        match self {
            Self::Unclaimed => Some(0),
            Self::Device(owner) => (owner == usage.owner).then_some(1),
            Self::Scope(owner, scope) => (owner == usage.owner && scope == usage.scope).then_some(2),
            Self::Nobody => None,
        }
    }

    /// The ownership after the request.
    pub(crate) fn after(self, usage: &Usage, protocol: Multiplexing) -> Self {
        match (usage.trace, self, protocol) {
            (Trace::None, ..)
            | (Trace::Private, Self::Device(_) | Self::Scope(..), _)
            | (_, Self::Nobody, _) => self,
            (Trace::Body, _, Multiplexing::No) if usage.is_same_origin => {
                Self::Scope(usage.owner, usage.scope)
            }
            (Trace::Body, _, Multiplexing::No) => Self::Nobody,
            // Streams of HTTP/2 are told apart by number. What may mix them up is a proxy behind, for which the device's
            // other streams are as good as those of another connection of the device.
            (Trace::Body, _, Multiplexing::Streams) | (Trace::Private, Self::Unclaimed, _) => {
                Self::Device(usage.owner)
            }
        }
    }
}

/// How a connection tells messages apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Multiplexing {
    /// HTTP/1.1: by their order.
    No,
    /// HTTP/2.
    Streams,
}

fn trace(parts: &Parts, has_body: bool) -> Trace {
    if has_body {
        return Trace::Body;
    }
    // An origin may answer HEAD with a body, and other methods in its own way.
    if parts.method != Method::GET {
        return Trace::Private;
    }
    let size: usize = parts
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len())
        .sum();
    let size = size + parts.uri.path_and_query().map_or(0, |path| path.as_str().len());
    let is_shareable = size <= MAX_SHAREABLE_HEAD
        && parts
            .headers
            .iter()
            .all(|(name, value)| is_canonical(name) && is_plain(value));
    if is_shareable { Trace::None } else { Trace::Private }
}

fn is_canonical(name: &HeaderName) -> bool {
    let text = name.as_str();
    CANONICAL_FIELDS.contains(name)
        || CANONICAL_NAMES.contains(&text)
        || CANONICAL_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

/// Whether a value has no bytes that servers understand differently.
fn is_plain(value: &HeaderValue) -> bool {
    value.as_bytes().iter().all(|byte| matches!(byte, b' '..=b'~'))
}

fn scope(headers: &HeaderMap, secret: &RandomState) -> u64 {
    let mut hasher = secret.build_hasher();
    for name in [COOKIE, AUTHORIZATION] {
        for value in headers.get_all(&name) {
            hasher.write_usize(value.len());
            hasher.write(value.as_bytes());
        }
        hasher.write_u8(0xff);
    }
    hasher.write(requester(headers));
    hasher.finish()
}

/// The origin of the document that asks, as far as the request says it.
fn requester(headers: &HeaderMap) -> &[u8] {
    if let Some(origin) = headers.get(ORIGIN) {
        return origin.as_bytes();
    }
    let referer = headers.get(REFERER).map_or(&[][..], HeaderValue::as_bytes);
    // Up to the third slash: `https://a.test/x` is of `https://a.test`.
    let slashes = referer.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let end = slashes.map(|(at, _)| at).nth(2).unwrap_or(referer.len());
    &referer[..end]
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const ANNA: ConnectionOwner = ConnectionOwner::Device(PublicKey::from_bytes([1; 32]));
    const BERT: ConnectionOwner = ConnectionOwner::Device(PublicKey::from_bytes([2; 32]));

    fn usage(secret: &RandomState, owner: ConnectionOwner, method: &str, fields: &[(&str, &str)]) -> Usage {
        let mut request = Request::builder().method(method).uri("http://site.test/");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let target = Target::of(&parts.uri).unwrap();
        Usage::of(owner, &target, &parts, method == "POST", secret)
    }

    #[test]
    fn plain_requests_leave_nothing() {
        let secret = RandomState::new();
        let browser = [
            ("accept", "*/*"),
            ("user-agent", "Browser/1.0 (X11)"),
            ("referer", "http://site.test/page"),
            ("sec-fetch-mode", "no-cors"),
            ("sec-ch-ua-platform", "\"Linux\""),
        ];
        let plain = usage(&secret, ANNA, "GET", &browser);
        assert_eq!(plain.trace, Trace::None);
        let after = Ownership::Unclaimed.after(&plain, Multiplexing::No);
        assert_eq!(after, Ownership::Unclaimed);
        assert!(
            after
                .suits(&usage(&secret, BERT, "GET", &[("cookie", "a=1")]))
                .is_some()
        );
    }

    #[test]
    fn credentials_and_own_fields_claim_a_connection() {
        let secret = RandomState::new();
        let long = "x".repeat(MAX_SHAREABLE_HEAD);
        for field in [
            ("cookie", "a=1"),
            ("authorization", "Basic eA=="),
            ("x-anything", "1"),
            ("x-http-method-override", "POST"),
            ("transfer-encoding", "chunked"),
            ("user-agent", "\u{e9}"),
            ("referer", &long),
        ] {
            let private = usage(&secret, ANNA, "GET", &[field]);
            for protocol in [Multiplexing::No, Multiplexing::Streams] {
                let after = Ownership::Unclaimed.after(&private, protocol);
                assert_eq!(after, Ownership::Device(ANNA), "{field:?}");
                assert!(after.suits(&usage(&secret, ANNA, "GET", &[])).is_some());
                assert_eq!(after.suits(&usage(&secret, BERT, "GET", &[])), None);
            }
        }
    }

    #[test]
    fn what_had_a_body_serves_one_scope() {
        let secret = RandomState::new();
        let of = |site: &'static str, cookie: &'static str| [("referer", site), ("cookie", cookie)];
        let post = usage(&secret, ANNA, "POST", &of("http://site.test/x", "u=1"));
        let after = Ownership::Device(ANNA).after(&post, Multiplexing::No);
        let suits = |owner, site, cookie| {
            after
                .suits(&usage(&secret, owner, "GET", &of(site, cookie)))
                .is_some()
        };
        assert!(suits(ANNA, "http://site.test/y", "u=1"));
        assert!(!suits(ANNA, "http://b.test/x", "u=1"), "another site");
        assert!(!suits(ANNA, "http://site.test/x", "u=2"), "another user");
        assert!(!suits(BERT, "http://site.test/x", "u=1"), "another device");
        assert_eq!(
            Ownership::Unclaimed.after(&post, Multiplexing::Streams),
            Ownership::Device(ANNA)
        );
    }

    #[test]
    fn what_another_sites_body_was_sent_on_serves_nobody() {
        let secret = RandomState::new();
        for fields in [
            &[("origin", "http://evil.test")][..],
            &[("referer", "http://evil.test/x"), ("cookie", "u=1")],
            &[],
        ] {
            let post = usage(&secret, ANNA, "POST", fields);
            let after = Ownership::Unclaimed.after(&post, Multiplexing::No);
            assert_eq!(after, Ownership::Nobody);
            assert_eq!(after.suits(&post), None);
        }
        for method in ["HEAD", "DELETE", "OPTIONS"] {
            let after = Ownership::Unclaimed.after(&usage(&secret, ANNA, method, &[]), Multiplexing::No);
            assert_eq!(after, Ownership::Device(ANNA), "{method}");
        }
    }
}
