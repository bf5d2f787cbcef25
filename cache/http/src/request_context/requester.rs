//! The document or style sheet that makes a browser ask.
use http::{HeaderMap, header};

use super::fetch_metadata::SiteRelation;
use crate::site::SchemefulSite;

/// Who makes a browser ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A document or style sheet of this origin.
    Origin {
        /// Scheme, host, and port unless it is the scheme's own.
        origin: Box<str>,
        /// Its site.
        site: SchemefulSite,
    },
    /// An opaque origin: a sandboxed frame, a `data:` document, or a redirection between origins.
    Opaque,
    /// The request does not say.
    Unknown,
}

impl Requester {
    /// By `Origin`, else by `Referer`. Neither can be set by scripts.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        if let Some(origin) = origins.next() {
            // Several, or one that is no origin, are as good as an opaque one: it says that somebody asks.
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

    /// The requester of a sub-resource, as far as what the browser says of the relation to the target agrees with it.
    ///
    /// Without `Referer` a browser that says `same-origin` tells the requester all the same. If `Referer` names an
    /// origin and the browser says another relation, it is that of a style sheet, not of the document for which the
    /// browser asks, or the request was redirected: who asks is not known then.
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

    /// The origin, where it is known.
    pub fn origin(&self) -> Option<&str> {
        match self {
            Self::Origin { origin, .. } => Some(origin),
            Self::Opaque | Self::Unknown => None,
        }
    }

    /// The site, where it is known.
    pub const fn site(&self) -> Option<&SchemefulSite> {
        match self {
            Self::Origin { site, .. } => Some(site),
            Self::Opaque | Self::Unknown => None,
        }
    }
}

/// Scheme, host and port of an absolute URL with an authority, as they stand there.
pub fn origin_of(url: &str) -> Option<&str> {
    let authority = url.find("://")? + 3;
    let length = url[authority..]
        .find(['/', '\\', '?', '#'])
        .unwrap_or(url.len() - authority);
    (length > 0).then(|| &url[..authority + length])
}
