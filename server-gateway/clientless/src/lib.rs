//! The clientless gateway: an HTTP proxy for browsers without an agent (docs/decisions/0045 and 0047).
//!
//! `listen` owns the ports (`entrance` and `admission`, and `secure`, `certificate` and `shared_port` for TLS), `access` decides who is served (`recent_logins` and
//! `password_failures` are its memory),
//! `socket` tunes their connections, `connection` reads the requests of an HTTP/1.1 connection (`head`, `chunked`, `request_body`, `body_time`) and `writer` writes the
//! responses in their order; `idle_read` waits for bytes without memory for them; `http2` does both for HTTP/2. `transparent` takes the connections of clients that know of no proxy, which `dns` may lead there. `fetch` answers a request with the
//! fetcher, cache and images of agents' requests, `connect` serves tunnels, and `prefetch` fetches the objects of a page
//! ahead of the browser, whose bytes `prefetched` counts.
//!
//! Deliberately absent: sessions and their messages. What a client is to the fetcher is in `client`; `network_shares`
//! is who shares the limits of a network of clients without a name.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod access;
mod admission;
mod answer;
mod body_time;
mod certificate;
mod chunked;
mod client;
mod connect;
mod connection;
mod day_bytes;
mod dns;
mod encoding;
mod entrance;
mod fetch;
mod head;
mod held;
mod http2;
mod idle_read;
mod listen;
mod look_ups;
mod network_shares;
mod pac;
mod pace;
mod password_failures;
mod prefetch;
mod prefetched;
mod recent_logins;
mod request_body;
mod secure;
mod self_check;
mod shared_port;
mod socket;
mod stream;
#[cfg(test)]
mod tests;
mod transparent;
mod writer;

use std::{io, sync::Arc, time::SystemTime};

use longhaul_gateway_core::{
    admin::{clientless_counters::ClientlessCounters, metrics::LinkBytes},
    config::ClientlessConfig,
    failure::Failure,
    gateway::Gateway,
};
use longhaul_session::FailureReason;
use longhaul_types::PublicKey;

pub use self::{
    access::AccessError,
    certificate::CertificateError,
    chunked::{BadChunk, ChunkEvent, ChunkedDecoder},
    dns::{DnsQuestion, Reply},
    head::{HeadError, HeadReader, RequestHead, RequestTarget},
    http2::check as check_http2,
    listen::ClientlessError,
    self_check::OpenProxy,
    transparent::{RulesError, redirect_rules},
};
use self::{
    access::{Access, Admitted, Denied, Peer},
    client::Browsers,
    day_bytes::DayBytes,
    dns::BoostedNames,
    look_ups::LookUps,
    network_shares::NetworkShares,
    self_check::SelfCheck,
};
pub use self::{listen::ClientlessListener, shared_port::SharedPort};

/// State of the proxy.
struct Clientless {
    gateway: Arc<Gateway>,
    config: ClientlessConfig,
    access: Arc<Access>,
    browsers: Browsers,
    look_ups: LookUps,
    shares: NetworkShares,
    names: Arc<BoostedNames>,
    day_bytes: DayBytes,
    self_check: SelfCheck,
    counters: Arc<ClientlessCounters>,
}

impl Clientless {
    fn new(
        gateway: Arc<Gateway>,
        config: ClientlessConfig,
        access: Arc<Access>,
        names: Arc<BoostedNames>,
    ) -> Self {
        Self {
            counters: Arc::clone(&gateway.clientless),
            day_bytes: DayBytes::new(config.day_size),
            self_check: SelfCheck::new(),
            gateway,
            config,
            access,
            browsers: Browsers::default(),
            look_ups: LookUps::default(),
            shares: NetworkShares::default(),
            names,
        }
    }

    /// Decides about a request.
    fn admit(&self, peer: Peer, head: &RequestHead) -> Result<Admitted, Denied> {
        match &head.target {
            RequestTarget::Proxy(_) => self.access.admit_asker(peer).map(|()| Admitted::Unnamed),
            RequestTarget::Tunnel(..) => self.access.admit(peer, &head.headers),
            RequestTarget::Origin(target) => {
                let admitted = self.access.admit(peer, &head.headers);
                self.self_check.note(&target.host, admitted.is_ok());
                admitted
            }
        }
    }

    /// Why a client gets nothing more, if it has used up its bytes of the day or of the month.
    fn used_up(&self, client: PublicKey) -> Option<Failure> {
        let failure = self.count(client, LinkBytes::default())?;
        if failure.reason == FailureReason::QuotaReached {
            self.gateway.metrics.limit_reached("quota");
        }
        Some(failure)
    }

    /// Counts bytes towards a client; an error once it has used up those of the day or of the month.
    fn count_down(&self, client: PublicKey, bytes: usize) -> io::Result<()> {
        let bytes = LinkBytes {
            sent: bytes as u64,
            received: 0,
        };
        self.count(client, bytes)
            .map_or(Ok(()), |failure| Err(ended(&failure)))
    }

    /// Counts bytes of a client; an error once it has used up those of the day or of the month.
    fn count_up(&self, client: PublicKey, bytes: usize) -> io::Result<()> {
        let bytes = LinkBytes {
            sent: 0,
            received: bytes as u64,
        };
        self.count(client, bytes)
            .map_or(Ok(()), |failure| Err(ended(&failure)))
    }

    fn count(&self, client: PublicKey, bytes: LinkBytes) -> Option<Failure> {
        if !self.day_bytes.add(client, bytes.both(), SystemTime::now()) {
            let refusal = self.day_bytes.refusal();
            return Some(Failure::new(FailureReason::TargetRefused, refusal));
        }
        let reached = self.gateway.count_client(&client, bytes)?;
        Some(reached.failure())
    }
}

fn ended(failure: &Failure) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, failure.detail.clone())
}
