//! Relation of a requester to its target (W3C Fetch Metadata section 2.3).
use crate::site::SchemefulSite;

/// Relation of the requester to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SiteRelation {
    /// Not stated.
    Unknown = 0,
    /// The same scheme, host and port.
    SameOrigin = 1,
    /// The same schemeful site.
    SameSite = 2,
    /// Another site.
    CrossSite = 3,
    /// A request by the user: a typed address, a bookmark.
    None = 4,
}

impl SiteRelation {
    /// Returns the relation of a requester to the target `url`, whose site is `target`.
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

/// Returns scheme, host and port of an absolute URL with an authority, unchanged.
pub fn origin_of(url: &str) -> Option<&str> {
    let authority = url.find("://")? + 3;
    let length = url[authority..]
        .find(['/', '\\', '?', '#'])
        .unwrap_or(url.len() - authority);
    (length > 0).then(|| &url[..authority + length])
}
