//! The origin side of Longhaul: fetches from web servers for the gateway, and for the agent when it must go direct.
//!
//! The way of a request: [`OriginClient::fetch`] checks the URL ([`Target`]), waits for its turn at the host's gate,
//! and hands the request to a connection of the pool. A new connection goes through names ([`ResolveMap`], then DNS),
//! the address [`Guard`], Happy Eyeballs (RFC 8305) and TLS. The answer streams back as an [`OriginBody`].
//!
//! What is deliberately absent: a cookie jar, redirects, content decoding, an insecure TLS switch, and the repetition of
//! a request that may have reached an origin and is not idempotent (RFC 9110 section 9.2.2).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod asked;
mod body;
mod cidr;
mod classify;
mod client;
mod config;
mod connector;
mod deny;
mod dial;
mod dns;
mod error;
mod gate;
mod guard;
mod resolve;
mod stats;
mod stream;
mod target;
mod tls;
mod upload;

pub use body::{BodyError, OriginBody};
pub use cidr::{Cidr, CidrError};
pub use client::OriginClient;
pub use config::{DnsServers, DnsServersError, Limits, OriginConfig, OriginConfigError, Timeouts};
pub use deny::{DenyList, KeyHash, KeyHashError};
pub use error::{BadUrl, DnsFailure, Fault, FetchError, TlsDefect};
pub use guard::{AddressClass, Guard, GuardRefusal};
pub use resolve::{Override, ResolveMap, ResolveMapError};
pub use stats::{OriginStats, StatsSnapshot};
pub use target::{Host, Scheme, Target};
