//! What is remembered about the link of one network, and the link profile that follows from it.
use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use longhaul_driver::{ConnectionStats, LinkSummary};
use longhaul_types::{BitRate, LinkProfile, UnixTime};

/// Maximum number of sessions of a record.
pub(super) const MAX_SESSIONS: usize = 8;
/// Time after which a record is dropped.
pub(super) const LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// Backlog in round-trip times that a session needs to know the link: a shorter one shows the start, not the link.
const LEAST_BACKLOG: u32 = 4;
/// A link is steady after this number of sessions ...
const STEADY_SESSIONS: usize = 3;
/// ... if the quartiles of their rates differ by less than this factor ...
const STEADY_SPREAD: f64 = 1.5;
/// ... and it was seen within this time.
const STEADY_TIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Part of the remembered rate at which a session begins if the link is not steady.
const CAUTION: f64 = 0.75;
/// Uplink rate if no session filled the uplink: the rate at which sessions without any knowledge begin
/// (docs/protocol/congestion.md section 2).
const UNKNOWN_UPLINK: BitRate = BitRate::bps(341_000);
/// A round-trip time beyond these parts of the remembered one is that of another link (RFC 9959 section 3.2).
const LEAST_RTT: f64 = 0.5;
const MOST_RTT: f64 = 10.0;
/// Shorter round-trip times count as this one when they are compared: on a fast link the processor's load decides.
const COMPARED_RTT: Duration = Duration::from_millis(10);
/// Least round-trip time of a profile, whose unit is the millisecond (docs/protocol/transport.md section 3.6).
const LEAST_PROFILE_RTT: Duration = Duration::from_millis(1);

/// Time for which a failure of UDP counts.
const FAILURE_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Time for which it counts that QUIC worked.
const QUIC_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// Time for which UDP that carried less than another carrier is avoided.
const AVOIDANCE: Duration = Duration::from_secs(24 * 3600);
/// Number of failures within that time after which UDP is expected to fail.
pub(super) const FAILURES: usize = 2;

/// Address family of the gateway's address that answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of `address`.
    pub const fn of(address: &SocketAddr) -> Self {
        match address {
            SocketAddr::V4(_) => Self::V4,
            SocketAddr::V6(_) => Self::V6,
        }
    }
}

/// Quartiles of the rates of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRange {
    /// Lower quartile, at least 1 bit/s.
    pub low: BitRate,
    /// Upper quartile, at least the lower one.
    pub high: BitRate,
}

impl RateRange {
    /// The range; `None` if it is none.
    pub fn new(low: BitRate, high: BitRate) -> Option<Self> {
        (low.as_bps() > 0 && low <= high).then_some(Self { low, high })
    }

    fn halved(self) -> Self {
        let half = |rate: BitRate| BitRate::bps((rate.as_bps() / 2).max(1));
        Self {
            low: half(self.low),
            high: half(self.high),
        }
    }
}

/// What one session found out about the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// Rates towards this computer.
    pub down: RateRange,
    /// Rates towards the gateway, if the session filled the uplink.
    pub up: Option<RateRange>,
    /// Smallest round-trip time, in whole microseconds, at least one.
    pub rtt: Duration,
    /// Lost packets in a million.
    pub loss_ppm: u32,
}

impl SessionRecord {
    /// The record of a session; `None` if the link was not busy for long enough to know its rate.
    pub(crate) fn of(stats: &ConnectionStats) -> Option<Self> {
        let LinkSummary {
            backlog,
            incoming,
            outgoing,
            least_rtt,
            received,
            lost,
            ..
        } = stats.link;
        let rtt = least_rtt.filter(|rtt| rtt.as_micros() > 0)?;
        let rtt = Duration::from_micros(u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX));
        if backlog < rtt * LEAST_BACKLOG {
            return None;
        }
        let range = |(low, high)| RateRange::new(low, high);
        let loss = u128::from(lost) * 1_000_000 / (u128::from(received) + u128::from(lost)).max(1);
        Some(Self {
            down: incoming.and_then(range)?,
            up: outgoing.and_then(range),
            rtt,
            loss_ppm: u32::try_from(loss).unwrap_or(1_000_000),
        })
    }
}

/// What is remembered about one network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkRecord {
    /// Time of the newest session, in seconds since 1970.
    pub last_seen: u64,
    /// Address family of the gateway's address that answered last.
    pub family: Option<Family>,
    /// The gateway's UDP port that answered last.
    pub(super) port: Option<u16>,
    /// The sessions, the oldest first.
    pub(super) sessions: VecDeque<SessionRecord>,
    /// Times at which a session used TLS because UDP did not answer, in seconds since 1970, the oldest first: the newest
    /// ones since UDP last worked.
    pub(super) udp_failures: VecDeque<u64>,
    /// Time at which a session left UDP because UDP carried less than another carrier, in seconds since 1970.
    pub(super) udp_worse: Option<u64>,
    /// Time at which a session used QUIC because UDP did not answer, in seconds since 1970, unless QUIC failed later.
    pub(super) quic_worked: Option<u64>,
}

impl NetworkRecord {
    /// A record of these sessions, of which the newest are kept.
    pub fn new(
        last_seen: u64,
        family: Option<Family>,
        sessions: impl IntoIterator<Item = SessionRecord>,
    ) -> Self {
        let mut record = Self {
            last_seen,
            family,
            port: None,
            sessions: VecDeque::new(),
            udp_failures: VecDeque::new(),
            udp_worse: None,
            quic_worked: None,
        };
        sessions.into_iter().for_each(|session| record.push(session));
        record
    }

    /// The sessions, the oldest first.
    pub fn sessions(&self) -> impl ExactSizeIterator<Item = &SessionRecord> {
        self.sessions.iter()
    }

    /// Adds a failure of UDP.
    pub(super) fn push_udp_failure(&mut self, at: u64) {
        if self.udp_failures.len() == FAILURES {
            self.udp_failures.pop_front();
        }
        self.udp_failures.push_back(at);
    }

    /// True if UDP is expected to fail: then TLS starts at the same time.
    pub(super) fn is_udp_doubtful(&self, now: UnixTime) -> bool {
        let now = now.since_epoch().as_secs();
        let is_recent = |at: &u64| now.saturating_sub(*at) < FAILURE_LIFETIME.as_secs();
        self.udp_failures.len() == FAILURES && self.udp_failures.iter().all(is_recent)
    }

    /// True if QUIC is expected to work where UDP does not answer.
    pub(super) fn is_quic_expected(&self, now: UnixTime) -> bool {
        let now = now.since_epoch().as_secs();
        self.quic_worked
            .is_some_and(|at| now.saturating_sub(at) < QUIC_LIFETIME.as_secs())
    }

    /// Time for which UDP is still avoided, because it carried less than another carrier.
    pub(super) fn avoids_udp_for(&self, now: UnixTime) -> Option<Duration> {
        let since = now.since_epoch().as_secs().saturating_sub(self.udp_worse?);
        let rest = AVOIDANCE.checked_sub(Duration::from_secs(since))?;
        (!rest.is_zero()).then_some(rest)
    }

    /// Adds a session.
    pub(super) fn push(&mut self, session: SessionRecord) {
        if self.sessions.len() == MAX_SESSIONS {
            self.sessions.pop_front();
        }
        self.sessions.push_back(session);
    }

    /// The profile with which a session begins; `None` if nothing is known about the rates.
    pub fn profile(&self, now: UnixTime) -> Option<LinkProfile> {
        let downs = self.sessions.iter().map(|session| session.down);
        let (low, high) = quartiles(downs)?;
        let age = now
            .since_epoch()
            .saturating_sub(Duration::from_secs(self.last_seen));
        let is_steady =
            self.sessions.len() >= STEADY_SESSIONS && high / low <= STEADY_SPREAD && age < STEADY_TIME;
        let share = if is_steady { 1.0 } else { CAUTION };
        let down = share_of(low, share);
        let ups = self.sessions.iter().filter_map(|session| session.up);
        let up = match quartiles(ups) {
            Some((low, _)) => share_of(low, share),
            // Access links are hardly ever slower towards the user than from the user.
            None => down.min(UNKNOWN_UPLINK),
        };
        Some(LinkProfile {
            down,
            up,
            rtt: self.rtt()?.max(LEAST_PROFILE_RTT),
        })
    }

    /// Median of the sessions' round-trip times.
    pub(super) fn rtt(&self) -> Option<Duration> {
        let mut rtts: Vec<Duration> = self.sessions.iter().map(|session| session.rtt).collect();
        rtts.sort_unstable();
        rtts.get(rtts.len() / 2).copied()
    }

    /// True if a measured round-trip time shows another link than the remembered one.
    pub(super) fn is_contradicted_by(&self, rtt: Duration) -> bool {
        self.rtt().is_some_and(|remembered| {
            let compared = |rtt: Duration| rtt.max(COMPARED_RTT).as_secs_f64();
            let ratio = compared(rtt) / compared(remembered);
            !(LEAST_RTT..=MOST_RTT).contains(&ratio)
        })
    }

    /// Halves the remembered rates: a session that began with them filled the link's buffer.
    pub(super) fn halve(&mut self) {
        for session in &mut self.sessions {
            session.down = session.down.halved();
            session.up = session.up.map(RateRange::halved);
        }
    }
}

/// Lower and upper quartile of the sessions' quartiles, in bit/s.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn quartiles(ranges: impl Iterator<Item = RateRange>) -> Option<(f64, f64)> {
    let mut rates: Vec<u64> = ranges
        .flat_map(|range| [range.low.as_bps(), range.high.as_bps()])
        .collect();
    rates.sort_unstable();
    let last = rates.len().checked_sub(1)?;
    // Of two rates, the quartiles are the rates themselves.
    let low = rates.get(last / 4)?;
    let high = rates.get(last - last / 4)?;
    Some((*low as f64, *high as f64))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive rate; the conversion saturates"
)]
fn share_of(rate: f64, share: f64) -> BitRate {
    BitRate::bps(((rate * share) as u64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;

    fn session(down_kbps: u64) -> SessionRecord {
        let rate = BitRate::kbps(down_kbps);
        SessionRecord {
            down: RateRange::new(rate, rate).unwrap(),
            up: None,
            rtt: Duration::from_millis(60),
            loss_ppm: 0,
        }
    }

    fn at(days: u64) -> UnixTime {
        UnixTime::new(Duration::from_secs(days * DAY))
    }

    fn down(record: &NetworkRecord, now: UnixTime) -> u64 {
        record.profile(now).unwrap().down.as_bps() / 1000
    }

    #[test]
    fn a_steady_link_is_used_in_full_and_another_one_with_caution() {
        let steady = NetworkRecord::new(DAY, None, [8_000, 8_400, 9_000].map(session));
        assert_eq!(down(&steady, at(2)), 8_000);
        assert_eq!(down(&steady, at(9)), 6_000, "seen more than a week ago");
        let few = NetworkRecord::new(DAY, None, [8_000, 8_000].map(session));
        assert_eq!(down(&few, at(1)), 6_000, "two sessions only");
        let varying = NetworkRecord::new(DAY, None, [4_000, 8_000, 8_000, 8_000].map(session));
        assert_eq!(down(&varying, at(1)), 3_000, "of the lower quartile");
        assert_eq!(NetworkRecord::default().profile(at(1)), None);
    }

    #[test]
    fn an_uplink_that_no_session_filled_is_assumed_to_be_slow() {
        let mut record = NetworkRecord::new(DAY, None, [session(20_000)]);
        assert_eq!(record.profile(at(1)).unwrap().up, UNKNOWN_UPLINK);
        record.push(session(100));
        record.push(session(100));
        assert!(record.profile(at(1)).unwrap().up <= BitRate::kbps(100));
        let rate = BitRate::kbps(2_000);
        record.sessions[0].up = RateRange::new(rate, rate);
        assert_eq!(record.profile(at(1)).unwrap().up, BitRate::kbps(1_500));
    }

    #[test]
    fn only_the_newest_sessions_are_kept() {
        let record = NetworkRecord::new(DAY, None, (1..=20).map(session));
        let kept: Vec<u64> = record.sessions().map(|of| of.down.low.as_bps() / 1000).collect();
        assert_eq!(kept, (13..=20).collect::<Vec<_>>());
    }

    #[test]
    fn another_round_trip_time_contradicts_the_record() {
        let record = NetworkRecord::new(DAY, None, [session(8_000)]);
        for (rtt, contradicts) in [(29, true), (31, false), (60, false), (599, false), (601, true)] {
            assert_eq!(
                record.is_contradicted_by(Duration::from_millis(rtt)),
                contradicts,
                "{rtt} ms"
            );
        }
        assert!(!NetworkRecord::default().is_contradicted_by(Duration::from_secs(1)));
    }

    #[test]
    fn rates_are_halved_but_never_to_nothing() {
        let mut record = NetworkRecord::new(DAY, None, [session(8_000)]);
        record.halve();
        assert_eq!(down(&record, at(1)), 3_000);
        (0..80).for_each(|_| record.halve());
        assert_eq!(record.sessions[0].down.low, BitRate::bps(1));
    }

    #[test]
    fn a_session_without_backlog_says_nothing_about_the_rate() {
        let mut stats = ConnectionStats::default();
        stats.link.least_rtt = Some(Duration::from_millis(100));
        stats.link.incoming = Some((BitRate::kbps(900), BitRate::kbps(1_000)));
        stats.link.backlog = Duration::from_millis(399);
        assert_eq!(SessionRecord::of(&stats), None);
        stats.link.backlog = Duration::from_millis(400);
        (stats.link.received, stats.link.lost) = (980, 20);
        let record = SessionRecord::of(&stats).unwrap();
        assert_eq!((record.down.low, record.up), (BitRate::kbps(900), None));
        assert_eq!(record.loss_ppm, 20_000);
    }
}
