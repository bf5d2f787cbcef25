//! The agent's choice of the carrier of its session (docs/protocol/transport.md section 8.3).
mod succession;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use longhaul_protocol::{
    endpoint::ConnectionHandle,
    path::{LinkId, Path, PathClass},
};
use longhaul_types::{BitRate, ByteCount, LinkProfile, Timestamp};
use tokio::time::Instant;

use self::succession::Predecessor;
use crate::{
    doubts::Doubts,
    link::Carrier,
    udp_limit::LinkTrial,
    udp_return::{ReturnTimes, UdpReturn},
};

/// Pause before a carrier that failed is tried again; it doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Bounds of the delay of the second carrier. RFC 8305 section 8 recommends 250 ms between attempts.
const LEAST_DELAY: Duration = Duration::from_millis(250);
const LONGEST_DELAY: Duration = Duration::from_secs(3);
/// Time for the handshake of a carrier if there is another one; it grows with each round. The handshake of TLS takes
/// three round trips.
const HANDSHAKE: Duration = Duration::from_secs(6);
/// Silence of an ordered link after which another one is opened. TCP repeats at growing intervals after an outage, and
/// never reaches the gateway from a new address of this machine.
const ORDERED_PATIENCE: Duration = Duration::from_secs(8);
/// The same silence after a change of the network, in which the link has delivered nothing yet: its connection probably
/// belongs to an address that this machine no longer has.
const MOVED_PATIENCE: Duration = Duration::from_secs(1);
/// On long links, the same in round trips of the network before.
const MOVED_ROUND_TRIPS: u32 = 3;
/// Time after a change of the network in which packets of the network before are still processed: the change is reported 0.1 s
/// after its first sign, and what arrived until then waits in the buffers of the carrier and the driver.
const STRAGGLERS: Duration = Duration::from_millis(100);
/// Silence of another link, which works again as soon as packets pass, after which another carrier is opened.
const DATAGRAM_PATIENCE: Duration = Duration::from_secs(3);
/// Round-trip time without a profile.
const UNKNOWN_RTT: Duration = Duration::from_millis(200);

/// Carriers beside UDP, in the order in which they are tried: each one if the one before fails.
#[derive(Clone, Debug)]
pub struct LinkCarriers {
    first: Arc<dyn Carrier>,
    others: Vec<Arc<dyn Carrier>>,
}

impl LinkCarriers {
    /// One carrier.
    pub fn new(first: Arc<dyn Carrier>) -> Self {
        Self {
            first,
            others: Vec::new(),
        }
    }

    /// The same carriers, and this one after them.
    #[must_use]
    pub fn then(mut self, other: Arc<dyn Carrier>) -> Self {
        self.others.push(other);
        self
    }

    pub(crate) const fn first(&self) -> &Arc<dyn Carrier> {
        &self.first
    }

    /// The carrier of an attempt; the attempts go round.
    fn at(&self, attempt: usize) -> &Arc<dyn Carrier> {
        match (attempt % self.len()).checked_sub(1) {
            Some(other) => self.others.get(other).unwrap_or(&self.first),
            None => &self.first,
        }
    }

    fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Place of the first carrier whose links are datagram paths.
    fn datagrams(&self) -> Option<usize> {
        (0..self.len()).find(|place| self.at(*place).class() == PathClass::Datagram)
    }

    /// True if one of the carriers takes only small packets: the INIT then has to fit it.
    pub(crate) fn has_datagrams(&self) -> bool {
        self.datagrams().is_some()
    }
}

/// Carriers of a session that is opened.
#[derive(Clone, Debug, Default)]
pub enum CarrierPlan {
    /// Only UDP.
    #[default]
    Udp,
    /// Only these carriers.
    Links(LinkCarriers, ReturnTimes),
    /// UDP, and these carriers where UDP does not answer.
    UdpThen(LinkCarriers, ReturnTimes),
    /// These carriers, and UDP where they do not answer: UDP carried less in this network before.
    LinksThenUdp(LinkCarriers, ReturnTimes),
    /// UDP, and these carriers at the same time: UDP did not answer in this network before.
    UdpAnd(LinkCarriers, ReturnTimes),
}

/// Delay after which a carrier starts beside UDP: the gateway's answer over UDP would have come by then.
pub(crate) fn delay(profile: Option<&LinkProfile>) -> Duration {
    let rtt = profile.map_or(UNKNOWN_RTT, |profile| profile.rtt);
    let init = profile.map_or(Duration::ZERO, |profile| {
        ByteCount::new(1280) / profile.up.max(BitRate::bps(1))
    });
    (rtt.saturating_mul(5) / 4)
        .saturating_add(init)
        .clamp(LEAST_DELAY, LONGEST_DELAY)
}

/// Delay after which UDP starts beside a carrier that is preferred. A link takes three round trips more than UDP: those of
/// TCP, TLS and the request.
pub(crate) fn head_start(profile: Option<&LinkProfile>) -> Duration {
    delay(profile) * 4
}

/// State of the choice for the session of an agent's driver task.
#[derive(Debug)]
pub(crate) struct CarrierChoice {
    pub(crate) session: ConnectionHandle,
    /// The gateway's UDP address; `None` if UDP is not used.
    pub(crate) udp: Option<SocketAddr>,
    /// Address for the books of the link: the carrier may connect to another one.
    pub(crate) remote: SocketAddr,
    carriers: LinkCarriers,
    /// Number of the next attempt, or of the one whose link exists.
    attempt: usize,
    /// The link, connected or not.
    pub(crate) link: Option<LinkId>,
    /// The silent link that the session uses while its successor is opened as `link`.
    pub(crate) predecessor: Option<Predecessor>,
    /// Path whose answer decides about the predecessor.
    pub(crate) probed: Option<Path>,
    /// A second link, by which the session may return from an ordered link to datagrams.
    pub(crate) second: Option<LinkId>,
    /// Path by which it may return, while it is probed and after the return.
    pub(crate) way: Option<Path>,
    /// Start of the last attempt.
    pub(crate) started: Timestamp,
    /// Time of the next attempt, if there is no link.
    pub(crate) due: Option<Instant>,
    /// Time at which the handshake of a link has taken too long.
    pub(crate) gives_up: Option<Instant>,
    failures: u32,
    /// Time of the last change of the network, and the patience with the link after it.
    moved: Option<(Timestamp, Duration)>,
    /// No attempt was due yet: the INIT may not have been built.
    is_new: bool,
    /// Return to UDP.
    pub(crate) udp_return: UdpReturn,
    /// Links that are opened when UDP is doubtful.
    pub(crate) doubts: Doubts,
    /// Successors that are opened before the patience with a silent link has ended.
    pub(crate) successions: Doubts,
    /// Trials of a link where UDP is limited.
    pub(crate) trial: LinkTrial,
    /// Users of the session see that a trial has no result yet.
    pub(crate) shows_trial: bool,
}

impl CarrierChoice {
    pub(crate) fn new(
        session: ConnectionHandle,
        udp: Option<SocketAddr>,
        remote: SocketAddr,
        carriers: LinkCarriers,
        due: Option<Instant>,
        times: ReturnTimes,
    ) -> Self {
        Self {
            session,
            udp,
            remote,
            carriers,
            attempt: 0,
            link: None,
            predecessor: None,
            probed: None,
            second: None,
            way: None,
            started: Timestamp::ZERO,
            due,
            gives_up: None,
            failures: 0,
            moved: None,
            is_new: true,
            udp_return: UdpReturn::new(times),
            doubts: Doubts::default(),
            successions: Doubts::default(),
            trial: LinkTrial::new(times.trial_pause, times.permits_trials),
            shows_trial: false,
        }
    }

    /// Uses other carriers from the next attempt on, which does not wait any more if attempts have failed.
    pub(crate) fn replace_carriers(&mut self, now: Instant, carriers: LinkCarriers) {
        self.carriers = carriers;
        if self.link.is_none() && self.failures > 0 {
            self.restart(now);
        }
        self.attempt = 0;
        self.failures = 0;
    }

    /// Records a change of the network; `rtt` is the round-trip time before.
    pub(crate) fn on_network_change(&mut self, now: Instant, at: Timestamp, rtt: Duration) {
        self.udp_return.on_network_change(now);
        self.trial.on_network_change();
        self.doubts.on_network_change();
        self.successions.on_network_change();
        // The round-trip time of an ordered path contains the queue of TCP.
        let patience = MOVED_PATIENCE.max(rtt * MOVED_ROUND_TRIPS).min(ORDERED_PATIENCE);
        self.moved = Some((at, patience));
        if self.link.is_none() && self.failures > 0 {
            self.restart(now);
        }
    }

    /// True if the session needs the link: it is not opened for a trial, nor because UDP is only doubtful.
    pub(crate) const fn needs_link(&self) -> bool {
        !self.trial.is_opening() && !self.doubts.is_opening()
    }

    /// Attempts begin anew, with the first carrier and without a pause: the ones before concern another network.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.link = None;
        self.gives_up = None;
        self.attempt = 0;
        self.failures = 0;
        self.due = Some(now);
    }

    /// A trial has ended: the carriers are tried in their order again.
    pub(crate) const fn end_trial(&mut self) {
        self.attempt = 0;
        self.rest();
    }

    /// True if a link may be opened before UDP counts as silent. QUIC is not opened so early: its packets need the network that
    /// UDP needs.
    pub(crate) fn may_hurry(&self) -> bool {
        let is_ordered = self.carriers.at(self.attempt).class() == PathClass::Ordered;
        is_ordered && self.link.is_none() && self.failures == 0 && self.trial.is_permitted()
    }

    /// Starts the carrier now, unless it has a link or waits after a failure.
    pub(crate) fn hurry(&mut self, now: Instant) {
        if self.link.is_none() && self.failures == 0 {
            self.due = Some(self.due.map_or(now, |due| due.min(now)));
        }
    }

    /// True at the first call: the attempt then waits for the next turn of the driver, before which the INIT is sent.
    /// A path that is added before the INIT exists would get it only when it is repeated.
    pub(crate) const fn waits_for_init(&mut self) -> bool {
        std::mem::replace(&mut self.is_new, false)
    }

    /// The carrier of the next attempt.
    pub(crate) fn next_carrier(&self) -> Arc<dyn Carrier> {
        Arc::clone(self.carriers.at(self.attempt))
    }

    /// The carrier that is tried where UDP is limited: an ordered one, because a limit of UDP is one of QUIC as well. It is
    /// the next one from now on.
    pub(crate) fn carrier_to_try(&mut self) -> Option<Arc<dyn Carrier>> {
        let mut places = 0..self.carriers.len();
        let place = places.find(|place| self.carriers.at(*place).class() == PathClass::Ordered)?;
        self.attempt = place;
        Some(Arc::clone(self.carriers.at(place)))
    }

    /// Records that the link of an attempt is being opened.
    pub(crate) fn began(&mut self, now: Instant, at: Timestamp, link: LinkId) {
        self.link = Some(link);
        self.due = None;
        self.started = at;
        self.gives_up = (self.carriers.len() > 1).then(|| now + HANDSHAKE * (self.rounds() + 1));
    }

    /// Rounds of attempts that failed in a row.
    fn rounds(&self) -> u32 {
        let carriers = u32::try_from(self.carriers.len()).unwrap_or(u32::MAX);
        self.failures / carriers
    }

    /// Records that the link works.
    pub(crate) const fn succeeded(&mut self) {
        self.failures = 0;
        self.gives_up = None;
    }

    /// Records the end of the link. After a failure the next carrier follows at once; after each round of failures the
    /// pause is longer.
    pub(crate) fn ended(&mut self, now: Instant, was_connected: bool) {
        self.link = None;
        self.gives_up = None;
        let mut pause = Duration::ZERO;
        if !was_connected {
            let before = self.rounds();
            self.failures = self.failures.saturating_add(1);
            self.attempt = self.attempt.wrapping_add(1);
            if self.rounds() > before {
                pause = (FIRST_PAUSE * 2_u32.saturating_pow(before.min(10))).min(LONGEST_PAUSE);
            }
        }
        self.due = Some(now + pause);
    }

    /// True if the session's link, from which a packet came last at `received`, has been silent for so long that the next
    /// carrier is tried.
    pub(crate) fn is_given_up(&self, link: LinkId, received: Timestamp, now: Timestamp) -> bool {
        let moved = self.moved.map_or(Timestamp::ZERO, |(at, _)| at);
        let silence = now.saturating_since(received.max(self.started).max(moved));
        self.patience(link, received)
            .is_some_and(|patience| silence > patience)
    }

    /// The change of the network, and the patience after it, if the link is one of the network before and has delivered
    /// nothing since.
    fn unheard_since_move(&self, received: Timestamp) -> Option<(Timestamp, Duration)> {
        self.moved
            .filter(|(at, _)| self.started <= *at && received <= *at + STRAGGLERS)
    }

    /// Silence of the session's link after which the next carrier is tried; `None` if waiting for this link is best.
    fn patience(&self, link: LinkId, received: Timestamp) -> Option<Duration> {
        match link.class() {
            PathClass::Ordered => Some(
                self.unheard_since_move(received)
                    .map_or(ORDERED_PATIENCE, |(_, patience)| patience),
            ),
            PathClass::Datagram if self.udp.is_some() || self.carriers.len() > 1 => Some(DATAGRAM_PATIENCE),
            PathClass::Datagram => None,
        }
    }

    /// Gives the silent link up, from which a packet came last at `received`: the next carrier is tried now; if the
    /// network has changed since, the first one.
    pub(crate) fn replace(&mut self, now: Instant, received: Timestamp) {
        self.link = None;
        self.attempt = match self.unheard_since_move(received) {
            Some(_) => 0,
            None => self.attempt.wrapping_add(1),
        };
        self.moved = None;
        self.due = Some(now);
    }

    /// The session uses its link: it returns to datagrams later, if there is a way.
    pub(crate) fn on_link(&mut self, now: Instant) {
        let has_way = self.udp.is_some() || self.datagram_carrier().is_some();
        if has_way {
            self.udp_return.on_link(now);
        }
    }

    /// The session is open over its link. UDP is probed soon if the network has changed since the attempt began: the silence
    /// of UDP until then concerns the network before.
    pub(crate) fn on_open_over_link(&mut self, now: Instant) {
        self.on_link(now);
        if self.moved.is_some_and(|(at, _)| self.started <= at) {
            self.udp_return.on_network_change(now);
        }
    }

    /// The carrier by which a session on an ordered link may return to datagrams where UDP stays silent.
    pub(crate) fn datagram_carrier(&self) -> Option<Arc<dyn Carrier>> {
        let is_ordered = self.link.is_some_and(|link| link.class() == PathClass::Ordered);
        let place = self.carriers.datagrams().filter(|_| is_ordered)?;
        Some(Arc::clone(self.carriers.at(place)))
    }

    /// The session keeps the second link and no other: returns the one that is not needed any more.
    pub(crate) fn adopt_second(&mut self) -> Option<LinkId> {
        let second = self.second.take()?;
        self.attempt = self.carriers.datagrams().unwrap_or(self.attempt);
        self.gives_up = None;
        self.link.replace(second)
    }

    /// UDP answers, and there is no link. If one could not be opened, the attempts were in vain.
    pub(crate) fn on_udp_answer(&mut self, at: Timestamp) {
        if self.failures > 0 {
            self.doubts.in_vain(at);
        }
        self.rest();
    }

    /// Stops the attempts: UDP works.
    pub(crate) const fn rest(&mut self) {
        self.link = None;
        self.due = None;
        self.gives_up = None;
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use longhaul_protocol::{
        connection::TransportConfig,
        endpoint::{AgentEndpointConfig, ConnectTo, Endpoint},
    };
    use longhaul_types::{SecretKey, UnixTime};

    use super::*;
    use crate::link::LinkEnd;

    /// A carrier that never connects.
    #[derive(Debug)]
    struct Silent(PathClass);

    impl Carrier for Silent {
        fn class(&self) -> PathClass {
            self.0
        }

        fn run(&self, _end: LinkEnd) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::pending())
        }
    }

    pub(super) fn choice(udp: Option<SocketAddr>, classes: &[PathClass]) -> CarrierChoice {
        let mut carriers = classes.iter().map(|class| Arc::new(Silent(*class)));
        let first = LinkCarriers::new(carriers.next().unwrap());
        let carriers = carriers.fold(first, |carriers, next| carriers.then(next));
        let config = AgentEndpointConfig {
            secret: SecretKey::from_bytes([1; 32]),
            transport: TransportConfig::default(),
        };
        let remote = SocketAddr::from(([192, 0, 2, 1], 4433));
        let to = ConnectTo {
            gateway: SecretKey::from_bytes([2; 32]).public(),
            remote: remote.into(),
            token: None,
            profile: None,
            last_stamp: None,
        };
        let mut endpoint = Endpoint::agent(config, UnixTime::default(), [3; 32]);
        let session = endpoint.connect(Timestamp::ZERO, to).unwrap();
        CarrierChoice::new(session, udp, remote, carriers, None, ReturnTimes::default())
    }

    #[test]
    fn a_failure_leads_to_the_next_carrier_at_once_and_a_round_of_failures_to_a_pause() {
        use PathClass::{Datagram, Ordered};
        let mut choice = choice(None, &[Ordered, Datagram]);
        let now = Instant::now();
        let mut tried = Vec::new();
        for number in 0..6 {
            tried.push(choice.next_carrier().class());
            choice.began(now, Timestamp::ZERO, LinkId::ordered(number));
            assert!(choice.gives_up.is_some_and(|at| at > now));
            choice.ended(now, false);
            let pause = choice.due.unwrap() - now;
            let expected = [0, 250, 0, 500, 0, 1000][usize::try_from(number).unwrap()];
            assert_eq!(pause, Duration::from_millis(expected), "attempt {number}");
        }
        assert_eq!(tried, [Ordered, Datagram, Ordered, Datagram, Ordered, Datagram]);
        choice.began(now, Timestamp::ZERO, LinkId::ordered(6));
        choice.succeeded();
        choice.ended(now, true);
        assert_eq!(choice.due, Some(now), "an open link is replaced at once");
        assert_eq!(
            choice.next_carrier().class(),
            Ordered,
            "by the carrier that worked"
        );
    }

    #[test]
    fn a_silent_link_of_datagrams_is_kept_if_there_is_nothing_else() {
        use PathClass::{Datagram, Ordered};
        let udp = Some(SocketAddr::from(([192, 0, 2, 1], 4433)));
        let datagrams = LinkId::datagram(1);
        assert_eq!(
            choice(None, &[Datagram]).patience(datagrams, Timestamp::ZERO),
            None
        );
        assert_eq!(
            choice(udp, &[Datagram]).patience(datagrams, Timestamp::ZERO),
            Some(DATAGRAM_PATIENCE)
        );
        let both = choice(None, &[Ordered, Datagram]);
        assert_eq!(both.patience(datagrams, Timestamp::ZERO), Some(DATAGRAM_PATIENCE));
        assert_eq!(
            both.patience(LinkId::ordered(1), Timestamp::ZERO),
            Some(ORDERED_PATIENCE)
        );
    }

    #[test]
    fn a_link_is_given_no_longer_after_a_change_than_without_one() {
        let mut choice = choice(None, &[PathClass::Ordered, PathClass::Datagram]);
        let (link, now) = (LinkId::ordered(1), Instant::now());
        choice.began(now, Timestamp::ZERO, link);
        let (at, queue_of_tcp) = (Timestamp::ZERO + Duration::from_secs(50), Duration::from_secs(10));
        choice.on_network_change(now, at, queue_of_tcp);
        assert!(!choice.is_given_up(link, Timestamp::ZERO, at + ORDERED_PATIENCE));
        let later = at + ORDERED_PATIENCE + Duration::from_millis(1);
        assert!(choice.is_given_up(link, Timestamp::ZERO, later));
    }

    #[test]
    fn attempts_begin_anew_in_a_new_network() {
        use PathClass::{Datagram, Ordered};
        let mut choice = choice(None, &[Ordered, Datagram]);
        let (link, now) = (LinkId::ordered(1), Instant::now());
        for _ in 0..5 {
            choice.began(now, Timestamp::ZERO, link);
            choice.ended(now, false);
        }
        assert!(choice.failures > 0);
        choice.on_network_change(now, Timestamp::ZERO, Duration::from_millis(50));
        assert_eq!((choice.due, choice.failures), (Some(now), 0));
        assert_eq!(choice.next_carrier().class(), Ordered, "the first carrier again");
    }

    #[test]
    fn an_ordered_link_without_packets_in_a_new_network_is_replaced_soon() {
        use PathClass::{Datagram, Ordered};
        let mut choice = choice(None, &[Ordered, Datagram]);
        let (link, now) = (LinkId::ordered(1), Instant::now());
        let at = |milliseconds| Timestamp::ZERO + Duration::from_millis(milliseconds);
        choice.began(now, at(0), link);
        assert!(!choice.is_given_up(link, at(1000), at(9000)));
        assert!(choice.is_given_up(link, at(1000), at(9001)));
        choice.on_network_change(now, at(20_000), Duration::from_millis(50));
        assert!(
            !choice.is_given_up(link, at(1000), at(21_000)),
            "the silence before the change does not count"
        );
        assert!(choice.is_given_up(link, at(1000), at(21_001)));
        // It has delivered in the new network.
        assert!(!choice.is_given_up(link, at(20_500), at(28_500)));
        choice.replace(now, at(1000));
        assert_eq!(choice.next_carrier().class(), Ordered, "the first carrier again");
        choice.began(now, at(22_000), link);
        assert!(!choice.is_given_up(link, at(1000), at(30_000)));
        choice.on_network_change(now, at(40_000), Duration::from_millis(600));
        assert!(!choice.is_given_up(link, at(1000), at(41_800)), "a long link");
        assert!(choice.is_given_up(link, at(1000), at(41_801)));
        choice.replace(now, at(40_500));
        assert_eq!(
            choice.next_carrier().class(),
            Datagram,
            "the link had worked in this network"
        );
    }

    #[test]
    fn packets_of_the_network_before_that_are_processed_late_are_no_sign_of_life() {
        use PathClass::{Datagram, Ordered};
        let mut choice = choice(None, &[Ordered, Datagram]);
        let (link, now) = (LinkId::ordered(1), Instant::now());
        let at = |milliseconds| Timestamp::ZERO + Duration::from_millis(milliseconds);
        choice.began(now, at(0), link);
        choice.on_network_change(now, at(20_000), Duration::from_millis(50));
        assert!(!choice.is_given_up(link, at(20_080), at(21_080)));
        assert!(choice.is_given_up(link, at(20_080), at(21_081)));
        choice.replace(now, at(20_080));
        assert_eq!(choice.next_carrier().class(), Ordered, "the first carrier again");
        // A link of the new network is one from the first moment on.
        choice.on_network_change(now, at(30_000), Duration::from_millis(50));
        choice.began(now, at(30_010), link);
        assert!(!choice.is_given_up(link, at(30_020), at(38_020)));
    }

    #[test]
    fn only_a_session_on_an_ordered_link_goes_over_to_the_carrier_of_datagrams() {
        use PathClass::{Datagram, Ordered};
        let mut choice = choice(None, &[Ordered, Datagram]);
        let (first, second) = (LinkId::ordered(1), LinkId::datagram(2));
        assert!(choice.datagram_carrier().is_none());
        choice.began(Instant::now(), Timestamp::ZERO, first);
        assert!(choice.datagram_carrier().is_some());
        choice.second = Some(second);
        assert_eq!(choice.adopt_second(), Some(first));
        assert_eq!((choice.link, choice.second), (Some(second), None));
        assert!(choice.datagram_carrier().is_none());
        assert_eq!(choice.next_carrier().class(), Datagram, "if the link ends");
    }

    #[test]
    fn carriers_with_other_addresses_are_tried_at_once_after_failures() {
        let mut choice = choice(None, &[PathClass::Ordered]);
        let now = Instant::now();
        choice.began(now, Timestamp::ZERO, LinkId::ordered(1));
        choice.ended(now, false);
        assert!(choice.due > Some(now), "a pause after a failure");
        choice.replace_carriers(now, choice.carriers.clone());
        assert_eq!((choice.due, choice.failures), (Some(now), 0));
        choice.began(now, Timestamp::ZERO, LinkId::ordered(2));
        choice.replace_carriers(now, choice.carriers.clone());
        assert!(choice.link.is_some(), "a link goes on");
    }

    #[test]
    fn attempts_that_failed_until_udp_answered_were_in_vain() {
        let udp = Some(SocketAddr::from(([192, 0, 2, 1], 4433)));
        let mut choice = choice(udp, &[PathClass::Ordered]);
        let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        let now = Instant::now();
        choice.on_udp_answer(at(0));
        assert!(choice.doubts.begins(at(0), true), "nothing was attempted");
        choice.doubts.on_silence();
        choice.began(now, at(0), LinkId::ordered(1));
        choice.ended(now, false);
        choice.on_udp_answer(at(2));
        assert_eq!(choice.due, None);
        choice.on_udp_answer(at(3));
        assert!(!choice.doubts.begins(at(11), true));
        assert!(choice.doubts.begins(at(12), true), "counted once");
    }

    #[test]
    fn the_second_carrier_waits_for_the_answer_of_the_first_but_not_long() {
        let delay_of = |name: &str| delay(Some(&name.parse().unwrap()));
        assert_eq!(delay(None), Duration::from_millis(250));
        assert_eq!(delay_of("lan-fast"), LEAST_DELAY);
        let gprs = delay_of("gprs-3+1");
        assert!(
            gprs > Duration::from_millis(1500) && gprs <= LONGEST_DELAY,
            "{gprs:?}"
        );
    }
}
