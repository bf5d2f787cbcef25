//! Sharing of responses between devices (docs/decisions/0020).
//!
//! An origin may copy any part of a request into its response: a `User-Agent` into a page, a `Referer` into a
//! link. A shared response may therefore depend only on data that all its recipients send. Each field of a
//! request, as the origin receives it, is one of these:
//!
//! * **canonical**: written by the gateway, with one of a few fixed values. It contains no information about
//!   the requester.
//! * **keyed**: name and value, byte for byte, are part of the key under which the response is shared. The
//!   response answers only requests with the same value.
//! * **anything else** (credentials, conditions and ranges of a browser, unknown fields): the response is
//!   private to the requester.
use http::{HeaderMap, HeaderName, HeaderValue, header};
use longhaul_types::ContentHash;

use crate::{
    browser_notices::is_browser_notice,
    coding::{ORIGIN_ACCEPT_ENCODING, own_negotiation},
    hop_by_hop,
    list::members,
};

/// Key of the request fields that two requests for a URL must have in common to get the same shared response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharingKey(ContentHash);

impl SharingKey {
    /// Returns the key of a request as the origin receives it. It covers only keyed fields; [`may_share`]
    /// decides whether the response to the request may be shared.
    pub fn of(request: &HeaderMap) -> Self {
        let mut names: Vec<&HeaderName> = request
            .iter()
            .filter(|(name, value)| is_keyed(name, value))
            .map(|(name, _)| name)
            .collect();
        names.sort_unstable_by_key(|name| name.as_str());
        names.dedup();
        let mut text = Vec::new();
        for name in names {
            let values = request.get_all(name).iter();
            for value in values.filter(|value| !is_canonical(name, value)) {
                text.extend_from_slice(name.as_str().as_bytes());
                text.push(b':');
                text.extend_from_slice(value.as_bytes());
                // No field value contains a line feed.
                text.push(b'\n');
            }
        }
        // The same response may not answer a client that negotiates codings itself.
        if let Some(own) = own_negotiation(request) {
            text.extend_from_slice(b"=coding");
            text.extend_from_slice(&own);
        }
        Self(ContentHash::of(&text))
    }

    /// Returns the key as bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

/// Returns true if the response to a request, as the origin receives it, may be shared with requests of the
/// same [`SharingKey`].
///
/// Conditions count as the browser's. Remove a condition of the gateway that concerns a version shared under
/// this key before the call.
pub fn may_share(request: &HeaderMap) -> bool {
    request
        .iter()
        .all(|(name, value)| is_keyed(name, value) || is_canonical(name, value))
}

/// Returns true if a field has a value that the gateway writes for all devices.
///
/// `Host` is that of the URL. `Early-Data: 1` describes the arrival of the request at the gateway, and
/// `Cache-Control` and `Pragma` may require a response of the origin itself: they contain no data of the
/// requester.
pub fn is_canonical(name: &HeaderName, value: &HeaderValue) -> bool {
    match name.as_str() {
        "host" => true,
        "accept-encoding" => value == ORIGIN_ACCEPT_ENCODING,
        "early-data" => value == "1",
        "cache-control" => value == "max-age=0" || value == "no-cache",
        "pragma" => value == "no-cache",
        "via" => is_own_via(value),
        _ => false,
    }
}

/// Returns true if a `Via` names only agent and gateway, in their own format.
fn is_own_via(value: &HeaderValue) -> bool {
    let via = HeaderMap::from_iter([(header::VIA, value.clone())]);
    members(&via, header::VIA).all(|member| {
        member
            .strip_suffix(hop_by_hop::PSEUDONYM)
            .is_some_and(|version| VERSIONS.contains(&version))
    })
}

/// Returns true if a field is part of the [`SharingKey`].
pub fn is_keyed(name: &HeaderName, value: &HeaderValue) -> bool {
    let text = name.as_str();
    KEYED.contains(&text)
        || KEYED_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
        || is_browser_notice(name, value)
}

/// The versions that [`hop_by_hop::append_via`] writes.
const VERSIONS: [&str; 5] = ["0.9 ", "1.0 ", "1.1 ", "2 ", "3 "];
/// Fields that describe the browser, the user's preferences and the requesting page. Other fields may carry
/// permissions (`X-Api-Key`) or control the origin (`X-Forwarded-Host`): responses to them are never shared.
const KEYED: [&str; 21] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "device-memory",
    "dnt",
    "downlink",
    "dpr",
    "ect",
    "origin",
    "priority",
    "purpose",
    "referer",
    "rtt",
    "save-data",
    "sec-gpc",
    "upgrade-insecure-requests",
    "user-agent",
    "via",
    "viewport-width",
    "width",
];
const KEYED_PREFIXES: [&str; 3] = ["sec-ch-", "sec-fetch-", "sec-purpose"];
