//! The origin side of Longhaul: fetches from web servers for the gateway, and for the agent when it must go direct.
//!
//! The way of a request: [`OriginClient::fetch`] checks the URL ([`Target`]), waits for its turn at the host's gate,
//! and hands the request to a connection of the pool that its [`ConnectionOwner`] may use. A new connection goes through
//! names ([`ResolveMap`], then DNS), the address [`Guard`], Happy Eyeballs (RFC 8305) and TLS. The answer streams back as
//! an [`OriginBody`]. Hosts, connections and look-ups are shared fairly between owners ([`FairShares`]).
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
mod connection;
mod connector;
mod deny;
mod dial;
mod dns;
mod error;
mod gate;
mod guard;
mod owner;
mod pool;
mod resolve;
mod shares;
mod stats;
mod stream;
mod target;
mod tls;
mod upload;

pub use body::{BodyError, OriginBody};
pub use cidr::{Cidr, CidrError};
pub use client::{OriginClient, Tunnel};
pub use config::{DnsServers, DnsServersError, Limits, OriginConfig, OriginConfigError, Timeouts};
pub use deny::{DenyList, KeyHash, KeyHashError};
pub use error::{BadUrl, DnsFailure, Fault, FetchError, Limit, TlsDefect};
pub use guard::{AddressClass, Destination, Guard, GuardRefusal};
pub use owner::ConnectionOwner;
pub use resolve::{Override, ResolveMap, ResolveMapError};
pub use shares::{Crowded, FairShares, Lasting, Place, Shares};
pub use stats::{OriginStats, StatsSnapshot};
pub use target::{Host, Scheme, Target};
