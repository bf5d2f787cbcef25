//! What browsers say of a request in `Sec-Fetch-*` (W3C Fetch Metadata), and what stands in for it on plain http,
//! where they do not.
use http::{HeaderMap, HeaderName, Method, header};

use super::requester::{Requester, origin_of};
use crate::site::SchemefulSite;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// How the requester is related to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SiteRelation {
    /// Nothing says it.
    Unknown = 0,
    /// The same scheme, host and port.
    SameOrigin = 1,
    /// The same schemeful site.
    SameSite = 2,
    /// Another site.
    CrossSite = 3,
    /// The user asks: an address that was typed, a bookmark.
    None = 4,
}

/// The mode of a request (Fetch standard section 2.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RequestMode {
    /// Nothing says it.
    Unknown = 0,
    /// A document is wanted.
    Navigate = 1,
    /// The response stays opaque for scripts unless it is of their origin.
    NoCors = 2,
    /// Scripts read the response if its origin allows it.
    Cors = 3,
    /// Only of the own origin.
    SameOrigin = 4,
    /// A WebSocket handshake.
    WebSocket = 5,
}

/// What a response is for, in classes that matter for who may get it (Fetch standard section 2.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RequestDestination {
    /// Nothing says it.
    Unknown = 0,
    /// A top-level document.
    Document = 1,
    /// A document in a frame, an embedded object.
    Frame = 2,
    /// A script or worker.
    Script = 3,
    /// A style sheet.
    Style = 4,
    /// A picture.
    Image = 5,
    /// A font.
    Font = 6,
    /// Sound, film, their captions.
    Media = 7,
    /// A script reads it (`fetch()`, `XMLHttpRequest`).
    Data = 8,
    /// Any other.
    Other = 9,
}

/// Whether a document is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Navigation {
    /// None is.
    None,
    /// For a tab. On plain http, where browsers do not tell them apart, for a frame, too.
    TopLevel,
    /// For a frame.
    Frame,
}

/// Relation, mode and destination in one number: [`RequestShape::code`] travels in manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestShape(u16);

impl RequestShape {
    pub(super) const fn of(
        relation: SiteRelation,
        mode: RequestMode,
        destination: RequestDestination,
    ) -> Self {
        // Below 251 for all sub-resources: one byte in a manifest.
        Self((relation as u16) * 60 + (mode as u16) * 10 + destination as u16)
    }

    /// The number that stands for it in manifests.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// The shape for which a number stands. Numbers that stand for none equal no request's.
    pub const fn of_code(code: u16) -> Self {
        Self(code)
    }
}

impl SiteRelation {
    /// The relation of a requester to the target `url`, whose site is `target`.
    pub(super) fn between(
        origin: &str,
        site: &SchemefulSite,
        url: &str,
        target: Option<&SchemefulSite>,
    ) -> Self {
        if origin_of(url).is_some_and(|target| target.eq_ignore_ascii_case(origin)) {
            Self::SameOrigin
        } else if target.is_some_and(|target| target.is_same_site(site)) {
            Self::SameSite
        } else {
            Self::CrossSite
        }
    }
}

/// The three fields, read.
#[derive(Debug)]
pub(super) struct FetchMetadata {
    site: Option<SiteRelation>,
    pub(super) mode: RequestMode,
    pub(super) destination: RequestDestination,
}

impl FetchMetadata {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self {
            site: text(headers, &SEC_FETCH_SITE).map(site),
            mode: mode(headers),
            destination: text(headers, &SEC_FETCH_DEST).map_or(RequestDestination::Unknown, destination),
        }
    }

    /// Whether the browser says how requester and target are related.
    pub(super) const fn says_site(&self) -> bool {
        self.site.is_some()
    }

    pub(super) fn relation(
        &self,
        requester: &Requester,
        url: &str,
        target: Option<&SchemefulSite>,
    ) -> SiteRelation {
        match (self.site, requester) {
            (Some(site), _) => site,
            (None, Requester::Origin { origin, site }) => SiteRelation::between(origin, site, url, target),
            (None, Requester::Opaque) => SiteRelation::CrossSite,
            (None, Requester::Unknown) => SiteRelation::Unknown,
        }
    }

    /// On plain http browsers send `Upgrade-Insecure-Requests` for documents. Scripts cannot set that field in mode
    /// `no-cors`; in mode `cors` it shows by `Origin` as soon as the target is of another origin.
    pub(super) fn navigation(&self, method: &Method, headers: &HeaderMap) -> Navigation {
        let says_upgrade = || {
            let upgrade = headers.get(header::UPGRADE_INSECURE_REQUESTS);
            upgrade.is_some_and(|value| value == "1")
        };
        match self.mode {
            RequestMode::Navigate if self.destination == RequestDestination::Frame => Navigation::Frame,
            RequestMode::Navigate => Navigation::TopLevel,
            RequestMode::Unknown
                if self.site.is_none()
                    && self.destination == RequestDestination::Unknown
                    && matches!(*method, Method::GET | Method::HEAD)
                    && !headers.contains_key(header::ORIGIN)
                    && says_upgrade() =>
            {
                Navigation::TopLevel
            }
            RequestMode::Unknown
            | RequestMode::NoCors
            | RequestMode::Cors
            | RequestMode::SameOrigin
            | RequestMode::WebSocket => Navigation::None,
        }
    }
}

/// The value of a field that occurs once. One that is repeated or no text says nothing.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return Some("");
    }
    Some(value.to_str().unwrap_or_default())
}

fn site(text: &str) -> SiteRelation {
    match text {
        "same-origin" => SiteRelation::SameOrigin,
        "same-site" => SiteRelation::SameSite,
        "none" => SiteRelation::None,
        // What is not known is trusted least.
        _ => SiteRelation::CrossSite,
    }
}

fn mode(headers: &HeaderMap) -> RequestMode {
    match text(headers, &SEC_FETCH_MODE) {
        Some("navigate") => RequestMode::Navigate,
        Some("no-cors") => RequestMode::NoCors,
        Some("cors") => RequestMode::Cors,
        Some("same-origin") => RequestMode::SameOrigin,
        Some("websocket") => RequestMode::WebSocket,
        Some(_) => RequestMode::Unknown,
        // A request for another origin that names its own one is in mode `cors`, or has a body.
        None if headers.contains_key(header::ORIGIN) => RequestMode::Cors,
        None => RequestMode::Unknown,
    }
}

fn destination(text: &str) -> RequestDestination {
    match text {
        "document" => RequestDestination::Document,
        "iframe" | "frame" | "embed" | "object" | "fencedframe" => RequestDestination::Frame,
        "script" | "worker" | "sharedworker" | "serviceworker" | "audioworklet" | "paintworklet" => {
            RequestDestination::Script
        }
        "style" => RequestDestination::Style,
        "image" => RequestDestination::Image,
        "font" => RequestDestination::Font,
        "audio" | "video" | "track" => RequestDestination::Media,
        "empty" => RequestDestination::Data,
        _ => RequestDestination::Other,
    }
}
