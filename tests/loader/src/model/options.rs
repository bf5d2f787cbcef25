//! What a load is told.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use longhaul_types::ByteCount;
use rustls::ClientConfig;

/// How one page is to be loaded.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// How connections are used.
    pub rules: Rules,
    /// How requests reach their origin.
    pub route: Route,
    /// Content codings that are offered.
    pub accept_encoding: AcceptEncoding,
    /// Trust for https; its ALPN should be `http/1.1` alone.
    pub trust: Arc<ClientConfig>,
    /// The `User-Agent` field.
    pub user_agent: String,
    /// What a load may take.
    pub limits: Limits,
}

impl ModelOptions {
    /// The papers' baseline: HTTP/1.1, two persistent connections a host, no pipelining, identity coding.
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
            limits: Limits::default(),
        }
    }
}

/// How a browser uses its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// HTTP/1.0: a connection for each object, four at a time in all (the default of the browsers that spoke it).
    Http10,
    /// HTTP/1.1: connections are kept, with one request at a time on each.
    Persistent {
        /// Connections to one host (requests under way to one host, through a proxy). 2 is RFC 2616 section 8.1.4 and
        /// the papers' baseline; 6 is HTTP/1.1-Opt of the study of optimisations for WWANs and every browser since.
        per_host: usize,
        /// Connections in all.
        total: usize,
    },
    /// HTTP/1.1 with requests sent before earlier ones are answered.
    ///
    /// A host is trusted with it once it answered a first request on a persistent connection, as Mozilla did; the papers'
    /// client sends up to all requests of a page at once, so the depth is an option.
    Pipelined {
        /// Connections to one host, or to the proxy.
        per_host: usize,
        /// Requests that may be unanswered on one connection.
        depth: usize,
    },
}

impl Rules {
    /// Persistent connections, so many to one host and 32 in all: Chromium's bound for connections through one proxy.
    pub const fn persistent(per_host: usize) -> Self {
        Self::Persistent { per_host, total: 32 }
    }

    /// Two connections a host and eight requests at a time on each, the most that Mozilla could be set to. Of the depths
    /// that Chakravorty and Pratt measured on GPRS (1, 3, 5, 7, 9 and 45 outstanding requests on one connection), 9 gave
    /// nearly the whole gain.
    pub const fn pipelined() -> Self {
        Self::Pipelined {
            per_host: 2,
            depth: 8,
        }
    }

    /// Requests that may be unanswered on one connection.
    pub(super) fn depth(self) -> usize {
        match self {
            Self::Http10 | Self::Persistent { .. } => 1,
            // Each waits in a channel of this size.
            Self::Pipelined { depth, .. } => depth.clamp(1, 256),
        }
    }

    /// Connections (for requests through a proxy: requests under way) to one host.
    pub(super) fn per_host(self) -> usize {
        match self {
            Self::Http10 => 4,
            Self::Persistent { per_host, .. } | Self::Pipelined { per_host, .. } => per_host.max(1),
        }
    }

    /// Connections in all.
    pub(super) fn total(self) -> usize {
        match self {
            Self::Http10 => 4,
            Self::Persistent { total, .. } => total.max(1),
            Self::Pipelined { .. } => 32,
        }
    }
}

/// How requests reach their origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Connections to the origins, whose IPv4 addresses this DNS server is asked for over UDP.
    Direct {
        /// The DNS server.
        resolver: SocketAddr,
    },
    /// Through the HTTP proxy at this address: https by `CONNECT`, everything else in absolute form on connections that
    /// serve any host. No name is looked up.
    Proxy(SocketAddr),
}

/// Content codings that are offered.
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

/// What a load may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time for the whole load; what is not there then has failed.
    pub time: Duration,
    /// How long nothing may come on a connection that owes a response, and how long a TCP handshake may take.
    pub idle: Duration,
    /// Objects of the page; further ones are not asked for.
    pub objects: usize,
    /// One body, as transferred.
    pub body: ByteCount,
}

impl Default for Limits {
    /// 30 minutes, for megabytes over GPRS; two minutes of silence, so that outages of 40 s and queues of 30 s pass; 2000
    /// objects, as the largest real pages have several hundred; 64 MiB.
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30 * 60),
            idle: Duration::from_secs(120),
            objects: 2000,
            body: ByteCount::new(64 * 1024 * 1024),
        }
    }
}
