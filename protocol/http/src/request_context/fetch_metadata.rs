//! The `Sec-Fetch-*` request fields (W3C Fetch Metadata), and their substitutes on plain http, where browsers
//! do not send them.
use http::{HeaderMap, HeaderName, Method, header};

use super::{requester::Requester, site_relation::SiteRelation};
use crate::site::SchemefulSite;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The mode of a request (Fetch standard section 2.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RequestMode {
    /// Not stated.
    Unknown = 0,
    /// The request is for a document.
    Navigate = 1,
    /// The response is opaque to scripts of other origins.
    NoCors = 2,
    /// Scripts may read the response if its origin allows it.
    Cors = 3,
    /// Only requests to the requester's own origin.
    SameOrigin = 4,
    /// A WebSocket handshake.
    WebSocket = 5,
}

/// Destination of a request, in classes that matter for reuse (Fetch standard section 2.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RequestDestination {
    /// Not stated.
    Unknown = 0,
    /// A top-level document.
    Document = 1,
    /// A document in a frame, an embedded object.
    Frame = 2,
    /// A script or worker.
    Script = 3,
    /// A style sheet.
    Style = 4,
    /// An image.
    Image = 5,
    /// A font.
    Font = 6,
    /// Audio, video, subtitles.
    Media = 7,
    /// Data for a script (`fetch()`, `XMLHttpRequest`).
    Data = 8,
    /// Any other destination.
    Other = 9,
}

/// Kind of navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Navigation {
    /// Not a navigation.
    None,
    /// A top-level document. On plain http, where browsers do not distinguish them, also a document in a
    /// frame.
    TopLevel,
    /// A document in a frame.
    Frame,
}

/// Relation, mode and destination in one number: manifests contain [`RequestShape::code`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestShape(u16);

impl RequestShape {
    pub(super) const fn of(
        relation: SiteRelation,
        mode: RequestMode,
        destination: RequestDestination,
    ) -> Self {
        // Below 251 for all subresources: one byte in a manifest.
        Self((relation as u16) * 60 + (mode as u16) * 10 + destination as u16)
    }

    /// The number of the shape in manifests.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Returns the shape of a number. An invalid number equals no request's shape.
    pub const fn of_code(code: u16) -> Self {
        Self(code)
    }
}

/// The parsed `Sec-Fetch-*` fields.
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

    /// True if the browser sent `Sec-Fetch-Site`.
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

    /// On plain http, browsers send `Upgrade-Insecure-Requests` for documents. Scripts cannot set that field
    /// in mode `no-cors`; in mode `cors` the request has `Origin` if the target is of another origin.
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

/// Returns the value of a field; an empty value if the field is repeated or not text.
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
        // Unknown values get the least trusted relation.
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
        // A request with `Origin` is in mode `cors`, or has a body.
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
