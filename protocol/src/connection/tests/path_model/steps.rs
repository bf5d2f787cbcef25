//! Steps of the model: what arrives, what is lost, and which path the agent chooses.
use std::collections::VecDeque;

use super::{
    AGENT, Action, GATEWAY,
    state::{Link, State, udp},
};
use crate::{connection::tests::*, path::LinkId};

/// Unsent packets at which a link accepts no more, as in the driver.
const FULL_LINK: usize = 2;

impl State {
    /// Does everything that takes no time: expired timers, packets, what the users read.
    pub(super) fn settle(&mut self) {
        for end in [AGENT, GATEWAY] {
            if self.ends[end].poll_timeout().is_some_and(|at| at <= self.now) {
                self.ends[end].handle_timeout(self.now);
            }
            self.transmit(end);
            self.read(end);
            while let Some(event) = self.ends[end].poll_event() {
                self.closed |= matches!(event, Event::Closed(_));
            }
            let settled = self.lost(end) + self.awaited(end);
            let book = &mut self.books[end];
            book.is_wrong |= settled > book.counted;
        }
    }

    fn transmit(&mut self, end: usize) {
        loop {
            let (is_blocked, before) = (self.is_blocked(end), self.awaited(end));
            let connection = &mut self.ends[end];
            connection.set_blocked(is_blocked);
            let mut packet = Vec::new();
            let path = if is_blocked {
                connection.transmit_probing(self.now, &mut packet)
            } else {
                connection.poll_transmit(self.now, &mut packet)
            };
            let Some(path) = path else { return };
            let counted = self.awaited(end).saturating_sub(before);
            self.books[end].counted += counted;
            match path {
                Path::Udp(_) if !self.udp_works[end] => {}
                Path::Udp(_) => {
                    self.udp[end].push(packet);
                    // The UDP path has no order: equal sets of packets are one state.
                    self.udp[end].sort_unstable();
                }
                Path::Link(id) => {
                    if let Some(link) = self.link.as_mut().filter(|link| link.id == id) {
                        link.lanes[end].push_back(packet);
                    }
                }
            }
        }
    }

    /// As the endpoint: a link that is full or has ended accepts no packet.
    fn is_blocked(&self, end: usize) -> bool {
        let Path::Link(id) = self.ends[end].path() else {
            return false;
        };
        self.link
            .as_ref()
            .filter(|link| link.id == id)
            .is_none_or(|link| link.lanes[end].len() >= FULL_LINK)
    }

    pub(super) fn read(&mut self, end: usize) {
        let connection = &mut self.ends[end];
        let peers_stream = self.streams[1 - end];
        let _first = connection.accept();
        loop {
            match connection.read(self.now, peers_stream) {
                Ok(ReadOutcome::Data(data)) => self.received[end].extend_from_slice(&data),
                Ok(ReadOutcome::Finished) => {
                    self.finished[end] = true;
                    return;
                }
                Ok(ReadOutcome::Blocked) | Err(_) => return,
            }
        }
    }

    /// A packet from `end` arrives at the other one.
    fn arrive(&mut self, end: usize, path: Path, mut packet: Vec<u8>) {
        let to = 1 - end;
        let length = [IndexLength::Gateway, IndexLength::Agent][end];
        let (header, header_len) = ShortHeader::parse(&packet, length).expect("a short packet");
        let before = self.ends[to].path();
        self.ends[to].handle_short(self.now, path, header, header_len, &mut packet);
        if self.ends[to].path() != before {
            self.on_changed_path(to);
            self.on_followed();
        }
    }

    /// What was on the way on the abandoned path counts as lost now, and never again.
    fn on_changed_path(&mut self, end: usize) {
        let (lost, is_settled) = (self.lost(end), self.awaited(end) == 0);
        let book = &mut self.books[end];
        book.is_wrong |= !is_settled;
        book.at_change = (book.counted, lost);
    }

    /// The gateway has followed a packet: with the highest number, which the agent sent on a later path.
    fn on_followed(&mut self) {
        let class = self.ends[GATEWAY].path().class();
        let link = Some(self.ends[GATEWAY].path()).filter(|path| path.udp().is_none());
        let mut later = self.chosen.iter().enumerate().skip(self.followed);
        let found = later.find(|(_, path)| path.class() == class && link.is_none_or(|link| link == **path));
        self.went_back |= found.is_none();
        self.followed = found.map_or(self.followed, |(index, _)| index);
    }

    fn change_path(&mut self, path: Path) {
        if self.ends[AGENT].path() != path {
            self.ends[AGENT].change_path(self.now, path);
            self.on_changed_path(AGENT);
        }
        self.chosen.push(path);
    }

    pub(super) fn change_to_link(&mut self) {
        let id = self.link.as_ref().map_or_else(
            || {
                self.links += 1;
                LinkId::ordered(self.links)
            },
            |link| link.id,
        );
        let lanes = [const { VecDeque::new() }; 2];
        self.link.get_or_insert(Link { id, lanes });
        self.change_path(Path::Link(id));
    }

    pub(super) fn apply(&mut self, action: &Action) {
        self.perform(action);
        self.digest = self.to_digest();
    }

    pub(super) fn perform(&mut self, action: &Action) {
        match *action {
            Action::Deliver(end, index) => {
                let packet = self.udp[end].remove(index);
                self.arrive(end, udp(end), packet);
            }
            Action::Lose(end, index) => {
                self.left.losses -= 1;
                self.udp[end].remove(index);
            }
            Action::DeliverOnLink(end) => {
                if let Some(link) = &mut self.link
                    && let Some(packet) = link.lanes[end].pop_front()
                {
                    let path = Path::Link(link.id);
                    self.arrive(end, path, packet);
                }
            }
            Action::Wait => {
                self.left.waits -= 1;
                self.now = self.next_timer().map_or(self.now, |at| at.max(self.now));
            }
            Action::ToLink | Action::ToUdp | Action::ProbeUdp | Action::EndLink | Action::UdpDies(_) => {
                self.left.changes -= 1;
                self.change(action);
            }
        }
        self.settle();
    }

    pub(super) fn change(&mut self, action: &Action) {
        match *action {
            Action::ToLink => self.change_to_link(),
            Action::ToUdp => self.change_path(udp(GATEWAY)),
            Action::ProbeUdp => self.ends[AGENT].probe_path(udp(GATEWAY), 3),
            Action::EndLink => {
                self.link = None;
                // The driver's rule: until another link is open, UDP is the only path.
                self.change_path(udp(GATEWAY));
            }
            Action::UdpDies(end) => {
                self.udp_works[end] = false;
                self.udp[end].clear();
            }
            Action::Deliver(..) | Action::Lose(..) | Action::DeliverOnLink(_) | Action::Wait => {}
        }
    }
}
