//! The clientless gateway: an HTTP proxy for browsers without an agent (docs/decisions/0045 and 0047).
//!
//! `listen` owns the ports (`connections`, and `secure` and `certificate` for TLS), `access` decides who is served,
//! `socket` tunes their connections, `connection` reads the requests of an HTTP/1.1 connection (`head`, `chunked`, `request_body`) and `writer` writes the
//! responses in their order; `http2` does both for HTTP/2. `transparent` takes the connections of clients that know of no proxy, which `dns` may lead there. `fetch` answers a request with the
//! fetcher, cache and images of agents' requests, `connect` serves tunnels, and `prefetch` fetches the objects of a page
//! ahead of the browser.
//!
//! Deliberately absent: sessions and their messages. What a client is to the fetcher is in `client`.
mod access;
mod answer;
mod certificate;
mod chunked;
mod client;
mod connect;
mod connection;
mod connections;
mod dns;
mod encoding;
mod fetch;
mod head;
mod held;
mod http2;
mod listen;
mod look_ups;
mod pac;
mod password_failures;
mod prefetch;
mod request_body;
mod secure;
mod socket;
mod stream;
mod transparent;
mod writer;

use std::sync::Arc;

pub(crate) use self::listen::ClientlessListener;
pub use self::{
    access::AccessError,
    certificate::CertificateError,
    chunked::{BadChunk, ChunkEvent, ChunkedDecoder},
    dns::{DnsQuestion, Reply},
    head::{HeadError, HeadReader, RequestHead, RequestTarget},
    http2::check as check_http2,
    listen::ClientlessError,
    transparent::{RulesError, redirect_rules},
};
use self::{
    access::{Access, Admitted, Denied, Peer},
    client::Browsers,
    dns::BoostedNames,
    look_ups::LookUps,
};
use crate::{admin::clientless_counters::ClientlessCounters, config::ClientlessConfig, gateway::Gateway};

/// State of the proxy.
struct Clientless {
    gateway: Arc<Gateway>,
    config: ClientlessConfig,
    access: Access,
    browsers: Browsers,
    look_ups: LookUps,
    names: BoostedNames,
    counters: Arc<ClientlessCounters>,
}

impl Clientless {
    fn new(gateway: Arc<Gateway>, config: ClientlessConfig, access: Access, names: BoostedNames) -> Self {
        Self {
            counters: Arc::clone(&gateway.clientless),
            gateway,
            config,
            access,
            browsers: Browsers::default(),
            look_ups: LookUps::default(),
            names,
        }
    }

    /// Decides about a request.
    fn admit(&self, peer: Peer, head: &RequestHead) -> Result<Admitted, Denied> {
        match head.target {
            RequestTarget::Proxy(_) => self.access.admit_asker(peer).map(|()| Admitted::Unnamed),
            RequestTarget::Origin(_) | RequestTarget::Tunnel(..) => self.access.admit(peer, &head.headers),
        }
    }
}
