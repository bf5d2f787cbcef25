//! The session stays on a silent link while its successor is opened (docs/protocol/transport.md section 8.3).
use std::time::Duration;

use longhaul_protocol::path::{LinkId, PathClass};
use longhaul_types::Timestamp;
use tokio::time::Instant;

use super::{CarrierChoice, STRAGGLERS};

/// A silent link that the session still uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Predecessor {
    pub(crate) link: LinkId,
    /// Its place among the carriers.
    attempt: usize,
    /// A packet that arrived later shows that the link delivers.
    silent_since: Timestamp,
    /// Time after which the session leaves it for UDP in any case.
    left_at: Timestamp,
}

impl CarrierChoice {
    /// True if a successor of the link is opened before the patience with it has ended. Only an ordered link has one: TCP
    /// repeats late after an outage, and never reaches the gateway again if the connection is forgotten on the way.
    /// A packet came last at `received`: a link that has delivered nothing yet, because the session has just changed to it, is
    /// asked at once, which is no doubt. `is_doubtful`: a probe is unanswered, and the user waits for data.
    pub(crate) fn succeeds_early(
        &mut self,
        link: LinkId,
        received: Timestamp,
        at: Timestamp,
        is_doubtful: bool,
    ) -> bool {
        let may_begin = link.class() == PathClass::Ordered && self.second.is_none();
        let is_permitted = self.trial.is_permitted() && !self.trial.is_trying();
        let is_suspicious =
            is_doubtful && (received > self.started || self.unheard_since_move(received).is_some());
        self.successions
            .begins(at, is_suspicious && may_begin && is_permitted)
    }

    /// Begins to open a successor of the silent link, from which a packet came last at `received`. `is_early`: the patience
    /// with the link has not ended, and another connection of the same carrier is tried first.
    pub(crate) fn begin_succession(
        &mut self,
        now: Instant,
        received: Timestamp,
        at: Timestamp,
        is_early: bool,
    ) {
        let Some(link) = self.link else { return };
        let moved = self.unheard_since_move(received);
        let silent_since = moved.map_or(at, |(moved, _)| at.max(moved + STRAGGLERS));
        let patience = self.patience(link, received).unwrap_or(Duration::ZERO);
        let attempt = self.attempt;
        self.replace(now, received);
        if is_early && moved.is_none() {
            self.attempt = attempt;
        }
        self.predecessor = Some(Predecessor {
            link,
            attempt,
            silent_since,
            left_at: at + patience * 2,
        });
    }

    /// True if the link delivers again: a packet came last at `received`, and the path does not count as silent.
    pub(crate) fn delivers_again(&self, received: Timestamp, is_silent: bool) -> bool {
        let moved = self
            .moved
            .map_or(Timestamp::ZERO, |(moved, _)| moved + STRAGGLERS);
        self.predecessor
            .is_some_and(|old| !is_silent && received > old.silent_since.max(moved))
    }

    /// True if the session goes over to UDP, which has not answered either, because the link has been silent for too long.
    pub(crate) fn is_to_leave(&self, at: Timestamp) -> bool {
        self.udp.is_some() && self.predecessor.is_some_and(|old| at > old.left_at)
    }

    /// Keeps the link after all. Returns the successor's one, if it exists.
    pub(crate) fn keep_predecessor(&mut self, at: Timestamp) -> Option<LinkId> {
        let old = self.predecessor.take()?;
        self.successions.in_vain(at);
        let successor = self.link.replace(old.link);
        self.attempt = old.attempt;
        self.started = old.silent_since;
        self.due = None;
        self.gives_up = None;
        self.failures = 0;
        successor
    }
}

#[cfg(test)]
mod tests {
    use longhaul_protocol::path::PathClass::{Datagram, Ordered};

    use super::{
        super::{ORDERED_PATIENCE, tests::choice},
        *,
    };

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(milliseconds)
    }

    /// A choice whose session uses an ordered link since the time 0.
    fn on_link(classes: &[PathClass]) -> (CarrierChoice, LinkId, Instant) {
        let (link, now) = (LinkId::ordered(1), Instant::now());
        let udp = std::net::SocketAddr::from(([192, 0, 2, 1], 4433));
        let mut choice = choice(Some(udp), classes);
        choice.began(now, at(0), link);
        choice.succeeded();
        (choice, link, now)
    }

    #[test]
    fn a_link_that_delivers_before_its_successor_is_kept_and_the_next_successor_waits() {
        let (mut choice, link, now) = on_link(&[Ordered, Datagram]);
        assert!(!choice.succeeds_early(link, at(900), at(1000), false));
        assert!(choice.succeeds_early(link, at(900), at(1000), true));
        choice.begin_succession(now, at(500), at(1000), true);
        assert_eq!((choice.link, choice.due), (None, Some(now)));
        assert_eq!(
            choice.next_carrier().class(),
            Ordered,
            "another connection of TLS"
        );
        let successor = LinkId::ordered(2);
        choice.began(now, at(1000), successor);
        assert!(!choice.delivers_again(at(500), false));
        assert!(!choice.delivers_again(at(1500), true), "only packets arrive");
        assert!(choice.delivers_again(at(1500), false));
        assert_eq!(choice.keep_predecessor(at(1500)), Some(successor));
        assert_eq!((choice.link, choice.due), (Some(link), None));
        assert!(!choice.succeeds_early(link, at(1500), at(11_499), true));
        assert!(choice.succeeds_early(link, at(1500), at(11_500), true));
        assert!(
            !choice.is_given_up(link, at(1500), at(9500)),
            "its patience is new"
        );
    }

    #[test]
    fn at_the_end_of_the_patience_the_next_carrier_is_tried_and_the_link_is_left_later() {
        let (mut choice, link, now) = on_link(&[Ordered, Datagram]);
        let given_up = Timestamp::ZERO + ORDERED_PATIENCE + Duration::from_millis(1);
        assert!(choice.is_given_up(link, at(0), given_up));
        choice.begin_succession(now, at(0), given_up, false);
        assert_eq!(choice.next_carrier().class(), Datagram);
        assert!(!choice.is_to_leave(given_up + ORDERED_PATIENCE * 2));
        assert!(choice.is_to_leave(given_up + ORDERED_PATIENCE * 2 + Duration::from_millis(1)));
        choice.udp = None;
        assert!(
            !choice.is_to_leave(given_up + ORDERED_PATIENCE * 3),
            "there is no UDP"
        );
        assert_eq!(choice.keep_predecessor(given_up), None);
        assert_eq!(choice.next_carrier().class(), Ordered, "if the link ends");
    }

    #[test]
    fn late_packets_of_the_network_before_are_no_sign_that_the_link_delivers() {
        let (mut choice, _, now) = on_link(&[Ordered]);
        choice.on_network_change(now, at(5000), Duration::from_millis(50));
        choice.begin_succession(now, at(4000), at(5000), true);
        assert!(!choice.delivers_again(at(5100), false), "it waited in a buffer");
        assert!(choice.delivers_again(at(5101), false));
        choice.on_network_change(now, at(6000), Duration::from_millis(50));
        assert!(
            !choice.delivers_again(at(6100), false),
            "the network changed again"
        );
        assert_eq!(choice.keep_predecessor(at(6200)), None);
    }

    #[test]
    fn a_link_to_which_the_session_has_just_changed_has_no_early_successor() {
        let (mut choice, link, now) = on_link(&[Ordered]);
        choice.started = at(2000);
        assert!(!choice.succeeds_early(link, at(1900), at(2000), true));
        assert!(!choice.succeeds_early(link, at(1900), at(5000), true));
        assert!(choice.succeeds_early(link, at(2100), at(5000), true));
        choice.begin_succession(now, at(2100), at(5000), true);
        assert_eq!(choice.keep_predecessor(at(5500)), None);
        assert!(
            choice.succeeds_early(link, at(5400), at(15_500), true),
            "it has delivered"
        );
        choice.successions.succeeded();
        choice.on_network_change(now, at(20_000), Duration::from_millis(50));
        assert!(
            choice.succeeds_early(link, at(5400), at(20_000), true),
            "another network"
        );
    }

    #[test]
    fn no_successor_is_opened_early_beside_a_second_link_or_where_bytes_are_paid() {
        let (mut choice, link, _) = on_link(&[Ordered, Datagram]);
        choice.second = Some(LinkId::datagram(2));
        assert!(!choice.succeeds_early(link, at(900), at(1000), true));
        choice.second = None;
        choice.trial.permit(false);
        assert!(!choice.succeeds_early(link, at(900), at(1000), true));
        choice.trial.permit(true);
        assert!(!choice.succeeds_early(LinkId::datagram(1), at(900), at(1000), true));
        assert!(choice.succeeds_early(link, at(900), at(1000), true));
    }
}
