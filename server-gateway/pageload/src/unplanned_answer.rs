//! What a page load keeps of the response to a request that its plan does not contain.
use http::HeaderMap;
use url::Url;

use super::publicity::Disclosure;

/// The response to a request that no entry answers.
pub(crate) struct UnplannedAnswer {
    pub(crate) url: Url,
    pub(crate) disclosure: Disclosure,
    /// True if the origin declares the response `public`.
    pub(crate) is_declared_public: bool,
    /// Its `Set-Cookie` fields.
    pub(crate) cookies: HeaderMap,
}
