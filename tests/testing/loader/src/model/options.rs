//! Options of a load.
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use longhaul_types::ByteCount;
use rustls::ClientConfig;

/// Options for loading one page.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// Rules for the use of connections.
    pub rules: Rules,
    /// Route of requests to their origin.
    pub route: Route,
    /// Offered content codings.
    pub accept_encoding: AcceptEncoding,
    /// Configuration of TLS; its ALPN should contain only `http/1.1`.
    pub trust: Arc<ClientConfig>,
    /// Value of the `User-Agent` field.
    pub user_agent: String,
    /// Names with addresses that are known without a look-up.
    pub hosts: BTreeMap<String, Ipv4Addr>,
    /// Limits of the load.
    pub limits: Limits,
}

impl ModelOptions {
    /// Returns the papers' baseline: HTTP/1.1, two persistent connections per host, no pipelining, identity
    /// coding.
    pub fn new(route: Route, trust: Arc<ClientConfig>) -> Self {
        Self {
            rules: Rules::persistent(2),
            route,
            accept_encoding: AcceptEncoding::Identity,
            trust,
            user_agent: concat!(
                "Mozilla/5.0 (X11; Linux x86_64) longhaul-bench/",
                env!("CARGO_PKG_VERSION")
            )
            .to_owned(),
            hosts: BTreeMap::new(),
            limits: Limits::default(),
        }
    }
}

/// Rules for the use of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// HTTP/1.0: a connection for each object, at most four at a time (the default of the browsers that used
    /// it).
    Http10,
    /// HTTP/1.1: persistent connections, with one request at a time on each.
    Persistent {
        /// Maximum connections per host (through a proxy: concurrent requests per host). 2 is RFC 2616
        /// section 8.1.4 and the papers' baseline; 6 is HTTP/1.1-Opt of the study of optimisations for WWANs
        /// and the value of every browser since.
        per_host: usize,
        /// Maximum connections in total.
        total: usize,
    },
    /// HTTP/1.1 with requests sent before the responses to earlier ones.
    ///
    /// A host must have answered a first request on a persistent connection, as in Mozilla; the papers'
    /// client sends up to all requests of a page at once, so the depth is an option.
    Pipelined {
        /// Maximum connections per host, or to the proxy.
        per_host: usize,
        /// Maximum unanswered requests on one connection.
        depth: usize,
    },
}

impl Rules {
    /// Persistent connections with this limit per host and 32 in total: Chromium's bound for connections
    /// through one proxy.
    pub const fn persistent(per_host: usize) -> Self {
        Self::Persistent { per_host, total: 32 }
    }

    /// Two connections per host and eight requests at a time on each, the maximum setting in Mozilla. Of the
    /// depths that Chakravorty and Pratt measured on GPRS (1, 3, 5, 7, 9 and 45 outstanding requests on one
    /// connection), 9 achieved nearly the whole gain.
    pub const fn pipelined() -> Self {
        Self::Pipelined {
            per_host: 2,
            depth: 8,
        }
    }

    /// Maximum unanswered requests on one connection.
    pub(super) fn depth(self) -> usize {
        match self {
            Self::Http10 | Self::Persistent { .. } => 1,
            // Each waits in a channel of this size.
            Self::Pipelined { depth, .. } => depth.clamp(1, 256),
        }
    }

    /// Maximum connections (through a proxy: concurrent requests) per host.
    pub(super) fn per_host(self) -> usize {
        match self {
            Self::Http10 => 4,
            Self::Persistent { per_host, .. } | Self::Pipelined { per_host, .. } => per_host.max(1),
        }
    }

    /// Maximum connections in total.
    pub(super) fn total(self) -> usize {
        match self {
            Self::Http10 => 4,
            Self::Persistent { total, .. } => total.max(1),
            Self::Pipelined { .. } => 32,
        }
    }
}

/// Route of requests to their origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Connections to the origins, whose IPv4 addresses are queried from this DNS server over UDP.
    Direct {
        /// The DNS server.
        resolver: SocketAddr,
    },
    /// Through the HTTP proxy at this address: https by `CONNECT`, all other requests in absolute form on
    /// connections that serve any host. No name is resolved.
    Proxy(SocketAddr),
}

/// Offered content codings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptEncoding {
    /// None: bodies as stored.
    Identity,
    /// `gzip, deflate`.
    Gzip,
}

impl AcceptEncoding {
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip, deflate",
        }
    }
}

/// Limits of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time limit of the whole load; incomplete objects have failed then.
    pub time: Duration,
    /// Maximum time without data on a connection with an unanswered request, and timeout of a TCP handshake.
    pub idle: Duration,
    /// Maximum number of objects of the page; further ones are not requested.
    pub objects: usize,
    /// Maximum length of a body, as transferred.
    pub body: ByteCount,
}

impl Default for Limits {
    /// 30 minutes, for megabytes over GPRS; two minutes without data, so that outages of 40 s and queues of
    /// 30 s pass; 2000 objects, because the largest real pages have several hundred; 64 MiB.
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30 * 60),
            idle: Duration::from_secs(120),
            objects: 2000,
            body: ByteCount::new(64 * 1024 * 1024),
        }
    }
}
