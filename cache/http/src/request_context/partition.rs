//! The key of everything private.
use std::fmt;

use super::{fetch_metadata::Navigation, requester::Requester};
use crate::site::SchemefulSite;

/// For which site, or for which frame of a site, something private was fetched.
///
/// Displayed as `https://site.test`, a frame's as `https://site.test https://frame.test`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionKey {
    site: SchemefulSite,
    frame: Option<SchemefulSite>,
}

impl PartitionKey {
    /// That of a site's own documents and what they load.
    pub const fn of_site(site: SchemefulSite) -> Self {
        Self { site, frame: None }
    }

    /// The site that asks.
    pub const fn site(&self) -> &SchemefulSite {
        &self.site
    }

    /// Whether a site has to do with it: as who asks, or as the document in the frame.
    pub fn concerns(&self, domain: &str) -> bool {
        self.site.domain() == domain || self.frame.as_ref().is_some_and(|frame| frame.domain() == domain)
    }
}

impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.site)?;
        self.frame.as_ref().map_or(Ok(()), |frame| write!(f, " {frame}"))
    }
}

/// The partition of a request: a top-level document is its own site's, a frame's document that of both sites, and
/// anything else that of the site that asks. Where nobody knows who asks there is none.
pub(super) fn partition(
    navigation: Navigation,
    requester: &Requester,
    target: SchemefulSite,
) -> Option<PartitionKey> {
    match navigation {
        Navigation::TopLevel => Some(PartitionKey::of_site(target)),
        Navigation::Frame => {
            let site = requester.site()?.clone();
            let frame = (site != target).then_some(target);
            Some(PartitionKey { site, frame })
        }
        Navigation::None => requester.site().cloned().map(PartitionKey::of_site),
    }
}
