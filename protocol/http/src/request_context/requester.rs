//! The document or style sheet that makes a browser send a request.
use http::{HeaderMap, header};

use super::site_relation::{SiteRelation, origin_of};
use crate::site::SchemefulSite;

/// The requester of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A document or style sheet of this origin.
    Origin {
        /// Scheme, host, and port unless it is the scheme's default.
        origin: Box<str>,
        /// Site of the origin.
        site: SchemefulSite,
    },
    /// An opaque origin: a sandboxed frame, a `data:` document, or a redirect between origins.
    Opaque,
    /// The request does not identify the requester.
    Unknown,
}

impl Requester {
    /// Derives the requester from `Origin`, else from `Referer`. Scripts can set neither.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        if let Some(origin) = origins.next() {
            // Several `Origin` fields, or an invalid one, count as opaque, not as unknown.
            let origin = origin.to_str().ok().filter(|_| origins.next().is_none());
            return origin.and_then(Self::of_url).unwrap_or(Self::Opaque);
        }
        let mut referrers = headers.get_all(header::REFERER).iter();
        let referrer = referrers.next().and_then(|value| value.to_str().ok());
        let referrer = referrer.filter(|_| referrers.next().is_none());
        referrer.and_then(Self::of_url).unwrap_or(Self::Unknown)
    }

    fn of_url(url: &str) -> Option<Self> {
        let origin = origin_of(url)?.to_ascii_lowercase();
        let site = SchemefulSite::of_url(&origin)?;
        Some(Self::Origin {
            origin: origin.into_boxed_str(),
            site,
        })
    }

    /// Returns the requester of a subresource request, after comparison with the relation that the browser
    /// states.
    ///
    /// Without `Referer`, the relation `same-origin` identifies the requester. If `Referer` names an origin
    /// with another relation than the stated one, it is that of a style sheet and not that of the requesting
    /// document, or the request was redirected; the requester is then unknown.
    pub(super) fn confirmed(
        self,
        relation: SiteRelation,
        is_said: bool,
        url: &str,
        target: Option<&SchemefulSite>,
    ) -> Self {
        if !is_said {
            return self;
        }
        match (&self, relation) {
            (Self::Unknown, SiteRelation::SameOrigin) => Self::of_url(url).unwrap_or(Self::Unknown),
            (Self::Origin { origin, site }, _) => {
                let computed = SiteRelation::between(origin, site, url, target);
                if computed == relation { self } else { Self::Unknown }
            }
            (Self::Opaque | Self::Unknown, _) => self,
        }
    }

    /// The origin, if known.
    pub fn origin(&self) -> Option<&str> {
        match self {
            Self::Origin { origin, .. } => Some(origin),
            Self::Opaque | Self::Unknown => None,
        }
    }

    /// The site, if known.
    pub const fn site(&self) -> Option<&SchemefulSite> {
        match self {
            Self::Origin { site, .. } => Some(site),
            Self::Opaque | Self::Unknown => None,
        }
    }
}
