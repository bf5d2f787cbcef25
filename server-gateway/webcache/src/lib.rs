//! The gateway's HTTP cache in front of its origin client (RFC 9111).
//!
//! [`WebCache::fetch`] looks for a stored response (`selection_rules`), and a fresh one answers the request. Otherwise
//! the request joins a coalesced fetch, which equal requests share. The task of an origin fetch sends the
//! request to the origin, conditionally if a stored response can be validated, and feeds (`body_feed`) the decoded
//! body to the `spool` and to the cache. While the hop of the device is away, the feed goes on into a file (`overflow`).
//! A [`BodyReader`] reads a body from any location.
//!
//! Bodies are stored decoded, under their CHK. Responses that are shareable by the strict rule of
//! [`longhaul_http::policy`] are stored in the shared partition, under the key of their request fields. All
//! storable responses are stored in the private partition of the requester ([`RequesterIdentity::partition`]), including
//! shareable ones, because the requester's later requests may have other fields. Every lookup names its
//! requester: a [`CacheRequest`] has a [`RequesterIdentity`].
//!
//! Deliberately absent: session messages and the list of devices.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod body_feed;
mod body_reader;
mod coalesced_fetch;
mod coalesced_fetches;
mod coalescing_key;
mod confirmed;
mod counters;
mod cpu_pool;
mod decoding;
mod device_hops;
mod failure;
mod first_use_urls;
mod origin_fetch;
mod origin_head;
mod origin_size;
mod overflow;
mod pending_storage;
mod request;
mod request_response;
mod requester_identity;
mod response;
mod selection_rules;
mod shared_state;
mod spool;
mod storage_rules;
#[cfg(test)]
mod test_origin;
#[cfg(test)]
mod test_requests;
mod validation;
mod web_cache;
mod write_order;

pub use body_reader::BodyReader;
pub use confirmed::Confirmed;
pub use counters::CacheCounters;
pub use cpu_pool::{Busy, CpuPool, IdlePeriod, Interrupted, Job};
pub use device_hops::SessionHop;
pub use failure::{BodyFault, FetchFailure};
pub use origin_size::OriginSize;
pub use overflow::OverflowLimits;
pub use request::{CacheRequest, OriginRequest, Purpose};
pub use requester_identity::RequesterIdentity;
pub use response::{Audience, CacheStatus, Content, GatewayResponse, ResponseContext};
pub use web_cache::WebCache;
