//! Origin side of Longhaul: fetches from web servers, for the gateway and for the agent's direct fallback.
//!
//! [`OriginClient::fetch`] checks the URL ([`Target`]), waits for a permit of the host's scheduler, and
//! sends the request on a pooled connection that its [`ConnectionOwner`] may use. Opening a connection takes
//! name resolution ([`ResolveMap`], then DNS), the address [`Guard`], Happy Eyeballs (RFC 8305) and TLS. The
//! body of the response is an [`OriginBody`]. Owners share hosts, connections and lookups fairly
//! ([`FairShares`]).
//!
//! Deliberately absent: a cookie jar, redirects, content decoding, a switch that disables TLS verification,
//! and the repetition of a non-idempotent request that an origin may have processed (RFC 9110 section 9.2.2).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address_class;
mod body;
mod certificate;
mod chains;
mod cidr;
mod classify;
mod client;
mod client_certificate_request;
mod config;
mod connection;
mod connection_use;
mod connector;
mod continuation;
mod deny;
mod dial;
mod dns;
mod error;
mod guard;
mod host_connections;
mod host_scheduler;
mod http11_hosts;
mod http2_life;
mod issuer_certificate;
mod keep_alive;
mod library_lookup;
mod name_servers;
mod nat64;
mod nat64_discovery;
mod own_addresses;
mod owner;
mod pool;
mod pool_rules;
mod processing;
mod resolve;
mod response_reader;
mod rules;
mod shares;
mod stats;
mod stream;
mod target;
mod tls;
mod upload;

pub use address_class::{AddressClass, is_local};
pub use body::{BodyError, OriginBody};
pub use certificate::CertificateNames;
pub use cidr::{Cidr, CidrError};
pub use client::{OriginClient, Tunnel};
pub use config::{DnsServers, DnsServersError, Limits, OriginConfig, OriginConfigError, Timeouts};
pub use connection_use::ConnectionUse;
pub use deny::{DenyList, KeyHash, KeyHashError};
pub use dns::NoRecords;
pub use error::{BadUrl, DnsFailure, Fault, FetchError, Limit, TlsDefect};
pub use guard::{Destination, Guard, GuardRefusal};
pub use library_lookup::means_not_found;
pub use own_addresses::AddressReader;
pub use owner::ConnectionOwner;
pub use resolve::{Override, ResolveMap, ResolveMapError};
pub use response_reader::{ExpectedResponse, HeadLimits, OldHttp, ResponseReader};
pub use shares::{FairShares, LongLivedSlots, Shares, Slot, SlotUnavailable};
pub use stats::{OriginStats, StatsSnapshot};
pub use target::{Host, Scheme, Target};
