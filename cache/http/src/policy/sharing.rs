//! Of which requests the answers may be shared between devices, and with whom (docs/decisions/0020).
//!
//! An origin may put anything that a request says into its response: a `User-Agent` into a page, a `Referer` into a
//! link. A shared response may therefore depend only on what everybody sends who gets it. Each field of a request as
//! the origin gets it is one of these:
//!
//! * **canonical**: the gateway wrote it, with one of a few fixed values. It says nothing about who asked.
//! * **keyed**: it is part of the key under which the response is shared, with its value, byte for byte. The response
//!   goes only to requests that say the same.
//! * **anything else** (credentials, conditions and ranges of a browser, fields that nobody knows): the response
//!   belongs to who asked.
use http::{HeaderMap, HeaderName, HeaderValue, header};
use longhaul_types::ContentHash;

use crate::{coding::ORIGIN_ACCEPT_ENCODING, hop, list::members};

/// What two requests for a URL say alike, so that both may get the same shared response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharingKey(ContentHash);

impl SharingKey {
    /// The key of a request as the origin gets it. Fields that are not keyed do not count: whether the answer to this
    /// very request may be shared, [`may_share`] says.
    pub fn of(request: &HeaderMap) -> Self {
        let mut names: Vec<&HeaderName> = request.keys().filter(|name| is_keyed(name)).collect();
        names.sort_unstable_by_key(|name| name.as_str());
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
        Self(ContentHash::of(&text))
    }

    /// The key as bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

/// Whether the answer to a request, as the origin gets it, may be shared with requests of the same [`SharingKey`].
///
/// A condition counts as a browser's: one that asks about a version which is itself shared under this key is to be
/// taken out before.
pub fn may_share(request: &HeaderMap) -> bool {
    request
        .iter()
        .all(|(name, value)| is_keyed(name) || is_canonical(name, value))
}

/// Whether a field has a value that the gateway writes for everybody.
///
/// `Host` is the URL's. `Early-Data: 1` tells how the request came to the gateway, and `Cache-Control` and `Pragma` may
/// ask for the origin's own answer: they are not the requester's words.
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

/// Whether a `Via` names nobody but agent and gateway, in the words in which they do that.
fn is_own_via(value: &HeaderValue) -> bool {
    let via = HeaderMap::from_iter([(header::VIA, value.clone())]);
    members(&via, header::VIA).all(|member| {
        member
            .strip_suffix(hop::PSEUDONYM)
            .is_some_and(|version| VERSIONS.contains(&version))
    })
}

fn is_keyed(name: &HeaderName) -> bool {
    let name = name.as_str();
    KEYED.contains(&name) || KEYED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The versions that [`hop::append_via`] writes.
const VERSIONS: [&str; 5] = ["0.9 ", "1.0 ", "1.1 ", "2 ", "3 "];
/// What browsers say of themselves, of the user's wishes and of the page that asks. Fields that are not here may carry
/// permissions (`X-Api-Key`) or choose what an origin does (`X-Forwarded-Host`): their answers are not shared at all.
const KEYED: [&str; 20] = [
    "accept",
    "accept-charset",
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
