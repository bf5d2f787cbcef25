//! Steps of an agent's return from a link to UDP (docs/protocol/transport.md section 8.3).
use std::time::Duration;

use longhaul_protocol::path::Path;
use tokio::time::Instant;
use tracing::debug;

use super::DriverTask;
use crate::{
    goodput::Arrived,
    udp_return::{Situation, Step},
};

/// Time by which UDP may be slower than the link: the jitter of mobile links.
const SLOWER: Duration = Duration::from_millis(50);

impl DriverTask {
    /// Probes UDP when it is due, and returns to it once it has answered.
    pub(super) fn run_udp_return(&mut self, now: Instant) {
        let Some(choice) = &mut self.choice else { return };
        let (Some(udp), session) = (choice.udp, choice.session) else {
            return;
        };
        if choice.udp_return.is_resting() {
            return;
        }
        let Some(connection) = self.endpoint.peek(session) else {
            return;
        };
        let link = choice.link.filter(|link| self.links.is_connected(*link));
        let stats = connection.stats();
        let situation = Situation {
            is_on_link: choice.link.map(Path::Link) == Some(connection.path()),
            has_link: link.is_some(),
            is_silent: connection.is_path_silent(),
            is_awaited: connection.expects_data(),
            arrived: Arrived {
                bytes: stats.bytes_received,
                packets: stats.packets_received,
                lost: stats.packets_missing,
            },
        };
        match choice.udp_return.poll(now, situation) {
            Some(Step::Probe) => {
                self.endpoint.probe_path(session, udp.into());
            }
            Some(Step::Return) => {
                debug!("UDP works again: the session returns to it");
                self.endpoint.change_path(self.clock.now(), session, udp.into());
            }
            Some(Step::Undo) => {
                debug!("UDP is silent, or carries less than the link: the session continues over its link");
                let is_worse = choice.udp_return.is_worse();
                if let Some(link) = link {
                    self.endpoint.change_path(self.clock.now(), session, link.into());
                }
                if let Some(channels) = self.channels.get(&session).filter(|_| is_worse) {
                    channels.note_worse_udp();
                }
            }
            Some(Step::EndLink) => self.drop_link(),
            None => {}
        }
    }

    /// Records the result of a probe of UDP, which has to be about as fast as the link.
    pub(super) fn on_path_probed(&mut self, rtt: Option<Duration>) {
        let Some(choice) = &mut self.choice else { return };
        let Some(connection) = self.endpoint.peek(choice.session) else {
            return;
        };
        let usual = connection.stats().srtt;
        let works = rtt.is_some_and(|rtt| rtt <= (usual * 5 / 4).max(usual + SLOWER));
        debug!(?rtt, ?usual, works, "UDP was probed");
        choice.udp_return.on_probed(Instant::now(), works);
    }
}
