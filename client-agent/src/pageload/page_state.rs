//! The states of a page load: of its manifest, of the page's own response, and of its use by the browser.
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use tokio::time::Instant;
use url::Url;

/// Progress of the manifest.
#[derive(Clone, Debug)]
pub(crate) enum ManifestProgress {
    /// Nothing has arrived.
    Awaited,
    /// More entries may follow.
    Reading,
    /// No entry will follow.
    Planned,
    /// Complete, with its decoded bytes.
    Complete(Bytes),
    /// Ended early.
    Broken,
}

/// Life of a page load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// The session is open: data may arrive.
    Open(Visit),
    /// The session is lost: no more data arrives, but the data that arrived is used.
    SessionLost(Visit),
    /// The page load has ended.
    Ended,
}

/// Presence of the browser on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// The browser may use the page.
    Present,
    /// The browser has navigated to another page or aborted this one: the page load ends as soon as no request
    /// uses it.
    Left,
}

impl Life {
    /// True if data may arrive.
    pub(super) const fn receives_data(self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// Records that the browser has left the page.
    pub(super) const fn leave(&mut self) {
        match self {
            Self::Open(visit) | Self::SessionLost(visit) => *visit = Visit::Left,
            Self::Ended => {}
        }
    }

    /// True if the browser has left the page and the page load has not ended yet.
    pub(super) const fn is_left(self) -> bool {
        matches!(self, Self::Open(Visit::Left) | Self::SessionLost(Visit::Left))
    }

    /// Records the loss of the session.
    pub(super) const fn lose_session(&mut self) {
        if let Self::Open(visit) = *self {
            *self = Self::SessionLost(visit);
        }
    }
}

/// Progress of the page's own response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentProgress {
    /// No head yet.
    Awaited,
    /// The response is the page; arrival time of its head.
    Page(Instant),
    /// The response is a redirection; arrival time of its head.
    Redirection(Instant),
}

impl DocumentProgress {
    /// Arrival time of the head.
    pub(crate) const fn answered_at(self) -> Option<Instant> {
        match self {
            Self::Awaited => None,
            Self::Page(at) | Self::Redirection(at) => Some(at),
        }
    }
}

/// The response that the browser has for the page, after redirections to entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// None yet, or a document without origin.
    Nothing,
    /// A document of this origin.
    Document {
        /// Scheme, host and port.
        origin: String,
    },
    /// A redirection; contains its target, if it can be parsed, until the browser requests it.
    Redirection(Option<String>),
}

impl Shown {
    /// Returns the state after a response with this direction to a request for `origin`.
    pub(super) fn of(response: PageResponse, origin: Option<&str>) -> Self {
        match (response, origin) {
            (PageResponse::Document, Some(origin)) => Self::Document {
                origin: origin.to_owned(),
            },
            (PageResponse::Document, None) => Self::Nothing,
            (PageResponse::Redirection(target), _) => Self::Redirection(target),
        }
    }

    /// The origin of the document.
    pub(super) fn document_origin(&self) -> Option<&str> {
        match self {
            Self::Document { origin } => Some(origin),
            Self::Nothing | Self::Redirection(_) => None,
        }
    }

    /// True if the last redirection leads to this URL.
    pub(super) fn redirects_to(&self, url: &str) -> bool {
        matches!(self, Self::Redirection(Some(target)) if target == url)
    }
}

/// Direction of a page's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageResponse {
    /// The response is the page.
    Document,
    /// The response is a redirection; contains its target without fragment, if it can be parsed.
    Redirection(Option<String>),
}

impl PageResponse {
    /// Returns the direction of the response to a request for `url`.
    pub(crate) fn of(url: &str, status: StatusCode, fields: &HeaderMap) -> Self {
        let location = fields.get(header::LOCATION).filter(|_| status.is_redirection());
        let Some(location) = location else {
            return Self::Document;
        };
        let target = Url::parse(url)
            .ok()
            .zip(location.to_str().ok())
            .and_then(|(base, location)| base.join(location).ok());
        Self::Redirection(target.map(|mut target| {
            target.set_fragment(None);
            target.into()
        }))
    }
}
