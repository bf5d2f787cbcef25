//! What a cache may store, reuse and share, and how it validates: RFC 9111, time as an argument.
//!
//! Freshness and storability are computed by `http-cache-semantics` on a reading of the message that `semantics`
//! makes of it; what that crate leaves open (age from `Date`, request fields, updates by a 304) is decided here.
//!
//! Nothing is ever reused stale: `max-stale`, `stale-while-revalidate` and `stale-if-error` only permit that.
mod freshness;
mod request;
mod scope;
mod semantics;
mod sharing;
mod storage;
#[cfg(test)]
mod tests;
mod validation;

pub use freshness::{CacheKind, Freshness, Reuse};
pub use request::{Reload, only_if_cached, reload};
pub use scope::{Scope, scope};
pub use sharing::{SharingKey, is_canonical, may_share};
pub use storage::{Storage, agent_stores, invalidates, storage};
