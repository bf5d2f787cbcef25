//! Relay of the datagrams of one association.
use std::{io, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use longhaul_driver::{Datagram, Session};
use longhaul_gateway_core::{config::PortSet, gateway::Gateway, origin_reports::OriginReports};
use longhaul_origin::ConnectionOwner;
use longhaul_session::{
    FetchId,
    datagram::{DatagramHost, Pace, Part, Reassembly, UdpDatagram, parts},
};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tracing::debug;

use super::{
    remotes::{Remote, Remotes, Route},
    sockets::Sockets,
};
use crate::session::context::SessionContext;

/// Size of the buffer for datagrams of hosts: more than fits the parts of one. A datagram that fills it is longer, perhaps.
const BUFFER: usize = 12 * 1024;

/// A host and its permitted addresses, best first.
type Found = (Remote, Vec<SocketAddr>);

/// The relay of one association.
pub(super) struct Relay {
    gateway: Arc<Gateway>,
    session: Session,
    reports: Arc<OriginReports>,
    owner: ConnectionOwner,
    id: FetchId,
    ports: PortSet,
    remotes: Remotes,
    sockets: Sockets,
    lookups: JoinSet<Found>,
    reassembly: Reassembly,
    pace: Pace,
    /// Number of the next datagram with several parts.
    number: u16,
    start: Instant,
}

impl Relay {
    pub(super) fn new(context: &SessionContext, id: FetchId) -> Self {
        let rules = context.gateway.rules.load();
        Self {
            gateway: Arc::clone(&context.gateway),
            session: context.session.clone(),
            reports: Arc::clone(&context.page_loads.context().origin_reports),
            owner: ConnectionOwner::Device(context.device),
            id,
            ports: rules.udp_ports.clone(),
            remotes: Remotes::new(rules.udp_idle),
            sockets: Sockets::default(),
            lookups: JoinSet::new(),
            reassembly: Reassembly::default(),
            pace: Pace::default(),
            number: 0,
            start: Instant::now(),
        }
    }

    /// Relays until the session has ended.
    pub(super) async fn run(mut self, mut parts: mpsc::Receiver<Part>) {
        let mut buffer = vec![0; BUFFER];
        loop {
            let expires_at = self.remotes.expires_at();
            let expiry = async {
                match expires_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                part = parts.recv() => match part {
                    Some(part) => self.on_client_datagram(part).await,
                    None => return,
                },
                received = self.sockets.receive(&mut buffer) => self.on_host_datagram(received, &buffer),
                Some(found) = self.lookups.join_next() => if let Ok((remote, addresses)) = found {
                    self.found(remote, addresses).await;
                },
                () = expiry => {
                    self.remotes.expire(Instant::now());
                    if self.remotes.is_empty() {
                        self.sockets.close();
                    }
                }
            }
        }
    }

    async fn on_client_datagram(&mut self, part: Part) {
        let Some(bytes) = self.reassembly.take(part.place, part.bytes) else {
            return;
        };
        let Ok(UdpDatagram { host, port, payload }) = UdpDatagram::decode(bytes) else {
            return debug!("an agent sent a malformed datagram");
        };
        if !self.ports.contains(port) {
            return debug!(port, "datagrams to this port are not permitted");
        }
        match self.remotes.route((host, port), payload) {
            Route::To(address, payload) => {
                let _lost = self.send(address, &payload).await;
            }
            Route::Lookup(remote) => {
                let lookup = look_up(Arc::clone(&self.gateway), self.owner, remote);
                self.lookups.spawn(lookup);
            }
            Route::Wait => {}
        }
    }

    /// Sends what waited for the addresses of a host. The first address to which this computer can send is the host's.
    async fn found(&mut self, remote: Remote, addresses: Vec<SocketAddr>) {
        let mut addresses = addresses.into_iter();
        let Some(mut address) = addresses.next() else {
            self.remotes.found(&remote, None);
            return;
        };
        let mut waiting = self.remotes.found(&remote, Some(address)).into_iter();
        let Some(first) = waiting.next() else { return };
        while self.send(address, &first).await.is_err() {
            let Some(next) = addresses.next() else { return };
            address = next;
            self.remotes.found(&remote, Some(address));
        }
        for payload in waiting {
            let _lost = self.send(address, &payload).await;
        }
    }

    async fn send(&mut self, to: SocketAddr, payload: &Bytes) -> io::Result<()> {
        // Before the datagram leaves: its answer must not be faster.
        self.remotes.on_sent(to, Instant::now());
        let sent = self.sockets.send(payload, to).await;
        match &sent {
            Ok(()) => self.gateway.metrics.association_sent(payload.len()),
            Err(error) => debug!(%error, "a datagram could not be sent"),
        }
        sent
    }

    /// Passes a datagram of a host to the agent, if the client has sent it something lately.
    fn on_host_datagram(&mut self, received: io::Result<(usize, SocketAddr)>, buffer: &[u8]) {
        let (length, from) = match received {
            Ok(received) => received,
            Err(error) => return debug!(%error, "receive"),
        };
        if length >= BUFFER || !self.remotes.may_answer(from, Instant::now()) {
            return;
        }
        let (Some(payload), Some(max)) = (buffer.get(..length), self.session.max_datagram()) else {
            return;
        };
        self.gateway.metrics.association_received(length);
        self.reports.tunnelled(length as u64);
        let datagram = UdpDatagram {
            host: DatagramHost::Address(from.ip()),
            port: from.port(),
            payload: Bytes::copy_from_slice(payload),
        };
        let Some(bytes) = datagram.encode() else { return };
        let class = self.pace.class_of(self.start.elapsed(), length);
        let parts = parts(self.id, self.number, &bytes, max);
        if parts.len() > 1 {
            self.number = self.number.wrapping_add(1);
        }
        for bytes in parts {
            self.session.send_datagram(Datagram {
                flow: self.id.number(),
                class,
                bytes,
            });
        }
    }
}

async fn look_up(gateway: Arc<Gateway>, owner: ConnectionOwner, remote: Remote) -> Found {
    let (host, port) = &remote;
    let host = match host {
        DatagramHost::Address(ip) => ip.to_string(),
        DatagramHost::Name(name) => name.clone(),
    };
    let mut addresses = match gateway.origin.datagram_addresses(&host, *port, owner).await {
        Ok(addresses) => addresses,
        Err(error) => {
            debug!(%error, "a host of datagrams is not reached");
            Vec::new()
        }
    };
    addresses.retain(|address| !is_own(&gateway.own_udp_ports, *address));
    (remote, addresses)
}

/// True for the gateway's own ports, also if the operator allowed loopback addresses.
fn is_own(own: &[SocketAddr], address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    own.iter().any(|own| {
        let is_here = own.ip().is_unspecified() && (ip.is_loopback() || ip.is_unspecified());
        own.port() == address.port() && (is_here || own.ip().to_canonical() == ip)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateways_own_ports_are_not_reached() {
        let own = ["0.0.0.0:4433", "192.0.2.1:443"].map(|own| own.parse().unwrap());
        for (address, expected) in [
            ("127.0.0.1:4433", true),
            ("[::1]:4433", true),
            ("[::ffff:127.0.0.1]:4433", true),
            ("127.0.0.1:53", false),
            ("198.51.100.1:4433", false),
            ("192.0.2.1:443", true),
            ("192.0.2.2:443", false),
        ] {
            assert_eq!(is_own(&own, address.parse().unwrap()), expected, "{address}");
        }
    }
}
