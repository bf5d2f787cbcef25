//! Storage, reuse, sharing and validation of responses (RFC 9111), with the time as an argument.
//!
//! `http-cache-semantics` computes freshness and storability from the normalised message that `semantics`
//! makes. This module decides what that crate does not cover (age from `Date`, request fields, updates by a
//! 304).
//!
//! This module never permits reuse of a stale response; `max-stale`, `stale-while-revalidate` and
//! `stale-if-error` would only permit it, not require it.
mod cache_kind;
mod freshness;
mod invalidation;
mod request;
mod scope;
mod semantics;
mod sharing;
mod storage;
#[cfg(test)]
mod tests;
mod validation;

pub use cache_kind::CacheKind;
pub use freshness::{Freshness, Reuse};
pub use invalidation::invalidated_urls;
pub use request::{Reload, SERVICE_WORKER, only_if_cached, reload};
pub use scope::{Scope, scope};
pub use sharing::{SharingKey, is_canonical, is_keyed, may_share};
pub use storage::{Storage, agent_stores, agent_stores_pushed, forbids_storage, is_declared_public, storage};
