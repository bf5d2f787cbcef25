//! The gateway's other UDP addresses in the driver task: they are tried where the session's address is silent
//! (docs/protocol/transport.md section 7.8).
use std::{net::SocketAddr, time::Duration};

use longhaul_protocol::{connection::State, path::Path};
use tokio::time::Instant;
use tracing::debug;

use super::DriverTask;

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

    /// Notes the UDP address of the session for a return to UDP.
    pub(super) fn note_udp_address(&mut self, address: SocketAddr) {
        if let Some(udp) = self.choice.as_mut().and_then(|choice| choice.udp.as_mut()) {
            *udp = address;
        }
    }

    /// The next address for a return to UDP, after this one has not answered.
    pub(super) fn next_address_to_return(&mut self, address: SocketAddr) -> Option<SocketAddr> {
        let first = self.choice.as_ref()?.udp?;
        let (_, addresses) = self.udp_addresses.as_ref()?;
        addresses.after(address, first)
    }
}
