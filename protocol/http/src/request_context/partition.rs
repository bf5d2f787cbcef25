//! Partitions of private data.
use std::fmt;

use super::{fetch_metadata::Navigation, requester::Requester};
use crate::site::SchemefulSite;

/// The site, or the frame of a site, for which private data were fetched.
///
/// Displayed as `https://site.test`, a frame's as `https://site.test https://frame.test`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionKey {
    site: SchemefulSite,
    frame: Option<SchemefulSite>,
}

impl PartitionKey {
    /// Returns the partition of a site's own documents and their subresources.
    pub const fn of_site(site: SchemefulSite) -> Self {
        Self { site, frame: None }
    }

    /// The requesting site.
    pub const fn site(&self) -> &SchemefulSite {
        &self.site
    }

    /// True if the partition contains the site `domain`: as requester, or as the document in the frame.
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

/// Returns the partition of a request: for a top-level document its own site; for a frame's document both
/// sites; for other requests the requester's site. None if the requester is unknown.
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
