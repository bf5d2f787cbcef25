//! An agent's return from a link to UDP, or from an ordered link to a carrier of datagrams
//! (docs/protocol/transport.md section 8.3).
use std::time::Duration;

use longhaul_protocol::path::{LinkId, Path};
use tokio::time::Instant;
use tracing::debug;

use super::DriverTask;
use crate::{
    goodput::Arrived,
    udp_return::{Situation, Step},
};

/// Number of challenges that a path has to answer before the session returns over it.
pub(super) const CHALLENGES: usize = 3;
/// Time by which the other path may be slower than the link: the jitter of mobile links.
const SLOWER: Duration = Duration::from_millis(50);

impl DriverTask {
    /// Probes UDP when it is due, and returns to it once it has answered.
    pub(super) fn run_udp_return(&mut self, now: Instant) {
        let Some(choice) = &mut self.choice else { return };
        let session = choice.session;
        if choice.udp_return.is_resting() || choice.predecessor.is_some() {
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
            arrived: Arrived::of(&stats),
        };
        let way = choice.way;
        match choice.udp_return.poll(now, situation) {
            Some(Step::Probe) => self.probe_datagrams(now),
            Some(Step::Return) => {
                if let Some(way) = way {
                    debug!(%way, "datagrams pass again: the session returns to them");
                    self.endpoint.change_path(self.clock.now(), session, way);
                }
            }
            Some(Step::Undo) => {
                debug!(
                    "datagrams are silent, or carry less than the link: the session continues over its link"
                );
                let is_worse = choice.udp_return.is_worse() && way.is_some_and(|way| way.udp().is_some());
                if let Some(link) = link {
                    self.endpoint.change_path(self.clock.now(), session, link.into());
                }
                if let Some(channels) = self.channels.get(&session).filter(|_| is_worse) {
                    channels.note_worse_udp();
                }
                self.drop_second_link();
            }
            Some(Step::EndLink) => self.end_kept_link(now),
            None => {}
        }
    }

    /// Probes UDP, or opens the second link if the session may not use UDP.
    fn probe_datagrams(&mut self, now: Instant) {
        let Some(choice) = &mut self.choice else { return };
        choice.way = choice.udp.map(Path::from);
        if let Some(way) = choice.way {
            self.endpoint.probe_path(choice.session, way, CHALLENGES);
        } else if !self.open_second_link() {
            self.note_probed(now, false);
        }
    }

    /// Opens a link of datagrams beside the ordered link of the session; it is probed when it is connected. Returns
    /// false if there is no such carrier.
    fn open_second_link(&mut self) -> bool {
        let Some(choice) = self.choice.as_mut().filter(|choice| choice.second.is_none()) else {
            return false;
        };
        let Some(carrier) = choice.datagram_carrier() else {
            return false;
        };
        let link = self.links.dial(&carrier);
        self.endpoint.open_link(link, choice.remote, false);
        choice.second = Some(link);
        choice.way = Some(link.into());
        true
    }

    /// Handles the end of the second link.
    pub(super) fn end_second_link(&mut self, link: LinkId) {
        let Some(choice) = &mut self.choice else { return };
        choice.second = None;
        let (session, first) = (choice.session, choice.link.map(Path::Link));
        let other = first.or_else(|| choice.udp.map(Path::from));
        self.endpoint.close_link(link);
        let path = self.endpoint.peek(session).map(|connection| connection.path());
        if path != Some(Path::Link(link)) {
            if let Some(choice) = &mut self.choice {
                choice.udp_return.on_way_lost(Instant::now());
            }
        } else if let Some(other) = other {
            debug!("the second link has ended: the session continues over the first one");
            if let Some(choice) = self.choice.as_mut().filter(|_| first.is_some()) {
                choice.on_link(Instant::now());
            }
            self.endpoint.change_path(self.clock.now(), session, other);
        }
    }

    pub(super) fn drop_second_link(&mut self) {
        if let Some(second) = self.choice.as_mut().and_then(|choice| choice.second.take()) {
            self.links.close(second);
            self.endpoint.close_link(second);
        }
    }

    /// Ends the link that was kept after the return. The second link, if the session uses it now, takes its place.
    fn end_kept_link(&mut self, now: Instant) {
        let Some(choice) = &mut self.choice else { return };
        let Some(link) = choice.adopt_second() else {
            self.drop_link();
            return;
        };
        choice.on_link(now);
        self.links.close(link);
        self.endpoint.close_link(link);
    }

    /// Records the result of a probe of a path, which has to be about as fast as the link. Where UDP does not answer,
    /// another address of the gateway or another carrier of datagrams may.
    pub(super) fn on_path_probed(&mut self, path: Path, rtt: Option<Duration>) {
        let Some(choice) = &self.choice else { return };
        let Some(connection) = self.endpoint.peek(choice.session) else {
            return;
        };
        let usual = connection.stats().srtt;
        let works = rtt.is_some_and(|rtt| rtt <= (usual * 5 / 4).max(usual + SLOWER));
        debug!(%path, ?rtt, ?usual, works, "another path was probed");
        if let Some(address) = path.udp() {
            let next = self.next_address_to_return(address).filter(|_| !works);
            if let (Some(next), Some(choice)) = (next, &mut self.choice) {
                choice.way = Some(next.into());
                self.endpoint.probe_path(choice.session, next.into(), CHALLENGES);
                return;
            }
            if works {
                self.note_udp_address(address);
            } else if self.open_second_link() {
                return;
            }
        }
        if !works {
            self.drop_second_link();
        }
        self.note_probed(Instant::now(), works);
    }

    fn note_probed(&mut self, now: Instant, works: bool) {
        if let Some(choice) = &mut self.choice {
            choice.udp_return.on_probed(now, works);
        }
    }
}
