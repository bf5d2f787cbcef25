//! The clientless gateway: an HTTP/1.1 proxy for browsers without an agent (docs/decisions/0045).
//!
//! `listen` owns the port, `access` decides who is served, `connection` reads the requests of a connection (`head`,
//! `chunked`, `request_body`) and `writer` writes the responses in their order. `fetch` answers a request with the
//! fetcher, cache and images of agents' requests, `connect` serves tunnels, and `prefetch` fetches the objects of a page
//! ahead of the browser.
//!
//! Deliberately absent: sessions and their messages. What a client is to the fetcher is in `client`.
mod access;
mod answer;
mod chunked;
mod client;
mod connect;
mod connection;
mod encoding;
mod fetch;
mod head;
mod held;
mod listen;
mod pac;
mod password_failures;
mod prefetch;
mod request_body;
mod writer;

use std::sync::Arc;

pub(crate) use self::listen::ClientlessListener;
use self::{access::Access, client::Browsers};
pub use self::{
    access::AccessError,
    chunked::{BadChunk, ChunkEvent, ChunkedDecoder},
    head::{HeadError, HeadReader, RequestHead, RequestTarget},
    listen::ClientlessError,
};
use crate::{admin::clientless_counters::ClientlessCounters, config::ClientlessConfig, gateway::Gateway};

/// State of the proxy.
struct Clientless {
    gateway: Arc<Gateway>,
    config: ClientlessConfig,
    access: Access,
    browsers: Browsers,
    counters: Arc<ClientlessCounters>,
}

impl Clientless {
    fn new(gateway: Arc<Gateway>, config: ClientlessConfig, access: Access) -> Self {
        Self {
            counters: Arc::clone(&gateway.clientless),
            gateway,
            config,
            access,
            browsers: Browsers::default(),
        }
    }
}
