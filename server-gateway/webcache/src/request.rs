//! Requests to the cache.
use std::sync::Arc;

use http::{HeaderMap, request::Parts};
use longhaul_http::policy::Reload;
use longhaul_origin::OriginClient;

use super::requester_identity::RequesterIdentity;

/// A checked request of a browser for an origin.
#[derive(Clone, Debug)]
pub struct OriginRequest {
    /// The request for the origin, without its body.
    pub parts: Parts,
    /// The browser's own fields.
    pub browser: HeaderMap,
    /// The requester.
    pub identity: RequesterIdentity,
    /// The origin client of a connection-bound login; responses then serve nobody else.
    pub login: Option<Arc<OriginClient>>,
}

/// A request without body.
#[derive(Clone, Debug)]
pub struct CacheRequest {
    /// The requester, whose private partition is used.
    pub identity: RequesterIdentity,
    /// The request for the origin: with `Accept-Encoding`, without hop-by-hop fields, with the browser's
    /// conditions.
    pub parts: Parts,
    /// The browser's own fields, which name the content codings that it accepts.
    pub browser: HeaderMap,
    /// Use of stored responses, in addition to the rules of `parts`.
    pub reload: Reload,
    /// Purpose of the request.
    pub purpose: Purpose,
}

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The browser sent the request.
    Requested,
    /// A page load predicted the request: stale-if-error is not used.
    Predicted,
}
