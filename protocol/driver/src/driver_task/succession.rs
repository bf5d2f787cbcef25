//! Successors of a silent link: the session stays on the link until its successor or UDP answers
//! (docs/protocol/transport.md section 8.3).
use std::time::Duration;

use longhaul_protocol::path::{LinkId, Path};
use tokio::time::Instant;
use tracing::debug;

use super::DriverTask;

/// Challenges that the new path has to answer: one, because the old one is silent.
const CHALLENGES: usize = 1;

impl DriverTask {
    /// Opens a successor of the session's link if the link is silent, and keeps the link if it delivers again.
    pub(super) fn run_succession(&mut self, now: Instant) {
        let Some(choice) = &mut self.choice else { return };
        let Some(connection) = self.endpoint.peek(choice.session) else {
            return;
        };
        let at = self.clock.now();
        let (received, is_silent) = (connection.last_received_at(), connection.is_path_silent());
        if choice.predecessor.is_some() {
            if choice.delivers_again(received, is_silent) {
                self.keep_link();
            } else if choice.is_to_leave(at) {
                self.leave_link();
            }
            return;
        }
        let link = choice
            .link
            .filter(|link| connection.path() == Path::Link(*link) && self.links.is_connected(*link));
        let Some(link) = link else { return };
        let is_doubtful = connection.is_path_doubtful() && connection.expects_data();
        let is_given_up = is_silent && choice.is_given_up(link, received, at);
        let is_early = !is_given_up && choice.succeeds_early(link, received, at, is_doubtful);
        if !is_given_up && !is_early {
            return;
        }
        debug!(is_early, "the carrier is silent: another one is opened");
        // A probe in progress is replaced, and one that has succeeded says nothing about the present.
        choice.udp_return.on_way_lost(now);
        choice.begin_succession(now, received, at, is_early);
        let udp = choice.udp.map(Path::from);
        self.drop_second_link();
        if let Some(udp) = udp {
            self.probe_successor(udp);
        }
    }

    /// Finds out whether a path carries packets: the session goes on over the first one that answers.
    pub(super) fn probe_successor(&mut self, path: Path) {
        let Some(choice) = &mut self.choice else { return };
        choice.probed = Some(path);
        self.endpoint.probe_path(choice.session, path, CHALLENGES);
    }

    /// Handles the result of such a probe. Returns false if it was another one.
    pub(super) fn on_successor_probed(&mut self, path: Path, rtt: Option<Duration>) -> bool {
        let Some(choice) = self.choice.as_mut().filter(|choice| choice.probed == Some(path)) else {
            return false;
        };
        choice.probed = None;
        if choice.predecessor.is_none() {
            return true;
        }
        match (path, rtt) {
            (_, Some(_)) => self.succeed(path),
            (Path::Link(link), None) => {
                debug!("the successor does not answer");
                let udp = choice.udp.map(Path::from);
                self.end_link(link);
                if let Some(udp) = udp {
                    self.probe_successor(udp);
                }
            }
            (Path::Udp(used), None) => {
                let first = choice.udp;
                let next = self.next_address_to_return(used.remote).or(first);
                if let Some(next) = next {
                    self.probe_successor(next.into());
                }
            }
        }
        true
    }

    /// Continues over a path that has answered, and ends the silent link.
    fn succeed(&mut self, path: Path) {
        let (now, at) = (Instant::now(), self.clock.now());
        let Some(choice) = &mut self.choice else { return };
        let Some(old) = choice.predecessor.take() else {
            return;
        };
        debug!(%path, "the session continues over the path that answers");
        choice.successions.succeeded();
        let session = choice.session;
        match path {
            Path::Link(_) => {
                choice.succeeded();
                choice.started = at;
                choice.on_link(now);
            }
            Path::Udp(_) => choice.udp_return.on_udp(),
        }
        self.endpoint.change_path(at, session, path);
        self.links.close(old.link);
        self.endpoint.close_link(old.link);
        if let Some(address) = path.udp() {
            self.note_udp_address(address);
            self.drop_link();
        }
    }

    /// The silent link delivers again: it is kept, and its successor is not needed.
    fn keep_link(&mut self) {
        let at = self.clock.now();
        let Some(choice) = &mut self.choice else { return };
        debug!("the carrier delivers again: the session stays on it");
        if let Some(successor) = choice.keep_predecessor(at) {
            self.links.close(successor);
            self.endpoint.close_link(successor);
        }
    }

    /// Leaves the silent link for UDP, although neither UDP nor a successor has answered: small packets find out which one
    /// does.
    fn leave_link(&mut self) {
        let at = self.clock.now();
        let Some(choice) = &mut self.choice else { return };
        let Some(old) = choice.predecessor.take() else {
            return;
        };
        debug!("the carrier stays silent: the session leaves it");
        let (session, udp) = (choice.session, choice.udp);
        self.links.close(old.link);
        self.endpoint.close_link(old.link);
        if let Some(udp) = udp {
            self.endpoint.change_path(at, session, udp.into());
        }
        self.use_open_successor();
    }

    /// Handles the end of a silent link that has no successor yet. Returns false if it was another link.
    pub(super) fn end_predecessor(&mut self, link: LinkId) -> bool {
        let Some(choice) = &mut self.choice else {
            return false;
        };
        if choice.predecessor.is_none_or(|old| old.link != link) {
            return false;
        }
        debug!("the silent carrier has ended");
        choice.predecessor = None;
        self.lose_path(link);
        self.use_open_successor();
        true
    }

    /// Uses the successor if its link is connected, after the silent link has ended.
    pub(super) fn use_open_successor(&mut self) {
        let successor = self.choice.as_ref().and_then(|choice| choice.link);
        if let Some(successor) = successor.filter(|link| self.links.is_connected(*link)) {
            self.use_connected_link(successor);
        }
    }
}
