//! The gateway's other UDP addresses in the driver task: they are tried where the session's address is silent
//! (docs/protocol/transport.md section 7.8).
use std::{net::SocketAddr, time::Duration};

use longhaul_protocol::{connection::State, endpoint::ConnectionHandle, path::Path};
use tokio::time::Instant;
use tracing::debug;

use super::DriverTask;
use crate::{session::GatewayAddresses, udp_addresses::UdpAddresses};

/// Challenges that a silent session's next address has to answer: one, because nothing else works.
const CHALLENGES: usize = 1;

impl DriverTask {
    /// Probes another address of the gateway if the session's address is silent. Over a link, the return to UDP decides
    /// what is probed.
    pub(super) fn run_udp_addresses(&mut self, now: Instant) {
        let Some((session, addresses)) = &mut self.udp_addresses else {
            return;
        };
        let Some(connection) = self.endpoint.peek(*session) else {
            self.udp_addresses = None;
            return;
        };
        let is_open = matches!(connection.state(), State::Open | State::Stalled);
        let is_silent = is_open && connection.is_path_silent();
        let silent = connection.path().udp().filter(|_| is_silent);
        if let Some(next) = addresses.poll(now, silent) {
            debug!(?silent, %next, "the gateway's address is silent: another one is probed");
            self.endpoint.probe_path(*session, next.into(), CHALLENGES);
        }
    }

    /// Notes the result of a probe of another address, over which the session continues if its own is still silent.
    /// Returns false if it was another probe.
    pub(super) fn on_address_probed(&mut self, address: SocketAddr, rtt: Option<Duration>) -> bool {
        let Some((session, addresses)) = &mut self.udp_addresses else {
            return false;
        };
        let (session, is_expected) = (*session, addresses.is_probed(address));
        if !addresses.on_probed(Instant::now(), address, rtt.is_some()) {
            return is_expected;
        }
        let Some(connection) = self.endpoint.peek(session) else {
            return true;
        };
        let (path, is_silent) = (connection.path(), connection.is_path_silent());
        if path.udp().is_some() && is_silent {
            debug!(%address, "the session continues over another address of the gateway");
            self.endpoint
                .change_path(self.clock.now(), session, Path::from(address));
        }
        // From a link, the session returns to an address that answers.
        if path.udp().is_none() || is_silent {
            self.note_udp_address(address);
        }
        true
    }

    /// Replaces the gateway's addresses, and continues over the first one if the session uses UDP.
    pub(super) fn use_addresses(&mut self, session: ConnectionHandle, addresses: GatewayAddresses) {
        let GatewayAddresses { udp, carriers } = addresses;
        if let (Some(choice), Some(carriers)) = (&mut self.choice, carriers) {
            choice.replace_carriers(Instant::now(), carriers);
        }
        let Some(first) = udp.first().copied() else { return };
        let known = self.udp_addresses.as_mut();
        if let Some((_, known)) = known.filter(|(of, _)| *of == session) {
            known.replace(udp.iter().copied());
        } else if !self.permit_udp(session, &udp) {
            return;
        }
        self.sockets.serve(&udp);
        self.note_udp_address(first);
        let Some(connection) = self.endpoint.peek(session) else {
            return;
        };
        let now = self.clock.now();
        if connection.state() == State::Early {
            // What the network before has sent is lost: the INIT goes to each address.
            for address in udp {
                self.endpoint.add_path(now, session, address.into());
            }
        } else if self.is_to_change(connection.path(), first) {
            debug!(%first, "the session continues over this address of the gateway");
            self.endpoint.change_path(now, session, Path::from(first));
        }
    }

    /// True if a session that uses `path` continues over the address `first`: it uses another address, or a link that has
    /// ended, so that UDP is its only path until the next one is connected.
    fn is_to_change(&self, path: Path, first: SocketAddr) -> bool {
        match path {
            Path::Udp(used) => used.remote != first,
            Path::Link(link) => !self.links.is_connected(link),
        }
    }

    /// Lets a session that was opened over links alone use UDP, too: it returns to UDP as others do. False if it is not the
    /// session of this task.
    fn permit_udp(&mut self, session: ConnectionHandle, udp: &[SocketAddr]) -> bool {
        let Some(choice) = self.choice.as_mut().filter(|choice| choice.session == session) else {
            return false;
        };
        choice.udp = udp.first().copied();
        if choice.link.is_some() && choice.udp_return.is_resting() {
            choice.on_link(Instant::now());
        }
        self.udp_addresses = Some((session, UdpAddresses::new(udp.iter().copied())));
        true
    }

    /// Notes the UDP address of the session for a return to UDP.
    pub(super) fn note_udp_address(&mut self, address: SocketAddr) {
        if let Some(udp) = self.choice.as_mut().and_then(|choice| choice.udp.as_mut()) {
            *udp = address;
        }
    }

    /// The next address for a return to UDP, after this one has not answered.
    pub(super) fn next_address_to_return(&self, address: SocketAddr) -> Option<SocketAddr> {
        let first = self.choice.as_ref()?.udp?;
        let (_, addresses) = self.udp_addresses.as_ref()?;
        addresses.after(address, first)
    }
}
