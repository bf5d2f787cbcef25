//! What a session finds out about the link, for the agent's memory of networks (transport.md section 7.6).
//!
//! The meter only observes: congestion control does not use it.
use std::{collections::VecDeque, time::Duration};

use longhaul_types::{BitRate, Timestamp};

/// Least duration of one rate measurement: a shorter one measures a burst.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
/// At the start of a backlog the window may still grow to the link. As long as the rates only grow, those below this
/// part of the newest one do not count ...
const GROWN: (u64, u64) = (4, 5);
/// ... and at least so many rates have to agree.
const PLATEAU: usize = 3;
/// A measurement that takes longer than this number of its intervals contains an outage.
const OUTAGE: u32 = 4;
/// Number of measurements that are kept, of which the oldest make space for new ones.
const MAX_RATES: usize = 64;
/// Time in round-trip times after the first data in which a profile shows that it was too fast.
const START: u32 = 3;
/// Losses at the start beyond this part, of at least so many packets, are those of a profile that was too fast.
const START_LOSS: u64 = 10;
const START_PACKETS: u64 = 20;

/// What a session has found out about the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSummary {
    /// Time in which the peer always had more to send and its rate was measured.
    pub backlog: Duration,
    /// Lower and upper quartile of the rates of incoming data, with IP and UDP headers.
    pub incoming: Option<(BitRate, BitRate)>,
    /// Lower and upper quartile of the rates of outgoing data, with IP and UDP headers.
    pub outgoing: Option<(BitRate, BitRate)>,
    /// Smallest round-trip time.
    pub least_rtt: Option<Duration>,
    /// Packets received.
    pub received: u64,
    /// Packets of the peer declared lost.
    pub lost: u64,
    /// The session began with a profile, whose rate filled the link's buffer or lost packets.
    pub started_too_fast: bool,
}

/// Observation of one incoming packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    pub(super) now: Timestamp,
    /// Size with IP and UDP headers in bytes.
    pub(super) size: u64,
    /// The peer has more to send, and nothing but the link limits its rate.
    pub(super) is_backlogged: bool,
    /// Smallest round-trip time.
    pub(super) rtt: Duration,
    /// Queueing delay.
    pub(super) queue: Duration,
    /// Transmission time of a full packet.
    pub(super) packet_time: Duration,
    /// Packets received and lost since the last observation.
    pub(super) received: u64,
    pub(super) lost: u64,
}

/// Meter of one session in one network.
#[derive(Clone, Debug)]
pub(super) struct LinkMeter {
    incoming: RateSampler,
    outgoing: RateSampler,
    least_rtt: Option<Duration>,
    bytes: u64,
    received: u64,
    lost: u64,
    /// The session's rate is that of a profile.
    has_profile: bool,
    first_at: Option<Timestamp>,
    started_too_fast: bool,
}

impl LinkMeter {
    pub(super) const fn new(has_profile: bool) -> Self {
        Self {
            incoming: RateSampler::new(),
            outgoing: RateSampler::new(),
            least_rtt: None,
            bytes: 0,
            received: 0,
            lost: 0,
            has_profile,
            first_at: None,
            started_too_fast: false,
        }
    }

    /// Records an incoming packet.
    pub(super) fn on_packet(&mut self, seen: &Observation) {
        self.bytes += seen.size;
        self.received += seen.received;
        self.lost += seen.lost;
        self.incoming
            .on_total(seen.now, self.bytes, seen.is_backlogged, seen.rtt);
        self.watch_start(seen);
    }

    /// Records a round-trip time.
    pub(super) fn on_rtt(&mut self, rtt: Duration) {
        self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
    }

    /// Records a report of the peer: `total` bytes had arrived at `now`.
    pub(super) fn on_report(&mut self, now: Timestamp, total: u64, is_backlogged: bool, rtt: Duration) {
        self.outgoing.on_total(now, total, is_backlogged, rtt);
    }

    /// Compares the first round trips with a profile with the limits of RETREAT (docs/decisions/0027).
    fn watch_start(&mut self, seen: &Observation) {
        if !self.has_profile || !seen.is_backlogged && self.first_at.is_none() {
            return;
        }
        let first_at = *self.first_at.get_or_insert(seen.now);
        if seen.now.saturating_since(first_at) > seen.rtt * START {
            return;
        }
        let packets = self.received + self.lost;
        let has_lost = packets >= START_PACKETS && self.lost * START_LOSS > packets;
        self.started_too_fast |= has_lost || seen.queue > longest_queue(seen.rtt, seen.packet_time);
    }

    pub(super) fn summary(&self) -> LinkSummary {
        LinkSummary {
            backlog: self.incoming.measured,
            incoming: self.incoming.quartiles,
            outgoing: self.outgoing.quartiles,
            least_rtt: self.least_rtt,
            received: self.received,
            lost: self.lost,
            started_too_fast: self.started_too_fast,
        }
    }
}

/// Twice the queue that congestion control aims for (congestion.md section 5), and two packets.
fn longest_queue(rtt: Duration, packet_time: Duration) -> Duration {
    let (least, most) = (Duration::from_millis(10), Duration::from_millis(60));
    let target = (rtt * 4 / 5).clamp(least, most).max(rtt / 4);
    (target + packet_time) * 2
}

/// Measures the rate of one direction while the sender always has more to send.
#[derive(Clone, Debug)]
struct RateSampler {
    /// Start of the current measurement, and the bytes until then.
    start: Option<(Timestamp, u64)>,
    /// Number of rates of the current backlog, which are the newest ones.
    of_backlog: usize,
    /// Largest rate of the current backlog.
    largest: u64,
    /// A rate of the current backlog was lower than an earlier one: they do not only grow.
    has_declined: bool,
    /// Rates in bit/s.
    rates: VecDeque<u64>,
    quartiles: Option<(BitRate, BitRate)>,
    measured: Duration,
}

impl RateSampler {
    const fn new() -> Self {
        Self {
            start: None,
            of_backlog: 0,
            largest: 0,
            has_declined: false,
            rates: VecDeque::new(),
            quartiles: None,
            measured: Duration::ZERO,
        }
    }

    fn on_total(&mut self, now: Timestamp, total: u64, is_backlogged: bool, rtt: Duration) {
        let interval = rtt.max(LEAST_INTERVAL);
        if let Some((since, from)) = self.start {
            let elapsed = now.saturating_since(since);
            if elapsed >= interval {
                if elapsed <= interval * OUTAGE {
                    self.add(total.saturating_sub(from), elapsed);
                }
                self.start = Some((now, total));
            }
        }
        if is_backlogged {
            self.start.get_or_insert((now, total));
        } else {
            self.end_backlog();
        }
    }

    /// Adds the rate of one measurement.
    fn add(&mut self, bytes: u64, elapsed: Duration) {
        self.measured += elapsed;
        let bits = u128::from(bytes) * 8 * 1_000_000_000;
        let rate = u64::try_from(bits / elapsed.as_nanos().max(1)).unwrap_or(u64::MAX);
        if rate == 0 {
            return;
        }
        self.has_declined |= rate < share(self.largest);
        if !self.has_declined {
            let before = self.rates.len().saturating_sub(self.of_backlog);
            let grown: Vec<u64> = self
                .rates
                .drain(before..)
                .filter(|of| *of >= share(rate))
                .collect();
            self.of_backlog = grown.len();
            self.rates.extend(grown);
        }
        self.largest = self.largest.max(rate);
        if self.rates.len() == MAX_RATES {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
        self.of_backlog = (self.of_backlog + 1).min(self.rates.len());
        // Here and not in the summary, which is read after every batch of datagrams.
        if self.has_plateau() {
            self.quartiles = quartiles(self.rates.iter().copied().collect());
        }
    }

    const fn has_plateau(&self) -> bool {
        self.has_declined || self.of_backlog >= PLATEAU
    }

    fn end_backlog(&mut self) {
        if !self.has_plateau() {
            let before = self.rates.len().saturating_sub(self.of_backlog);
            self.rates.truncate(before);
        }
        self.start = None;
        (self.of_backlog, self.largest, self.has_declined) = (0, 0, false);
    }
}

/// The part of a rate below which another one does not agree with it.
const fn share(rate: u64) -> u64 {
    let (numerator, denominator) = GROWN;
    rate / denominator * numerator
}

/// Lower and upper quartile.
fn quartiles(mut rates: Vec<u64>) -> Option<(BitRate, BitRate)> {
    rates.sort_unstable();
    let last = rates.len().checked_sub(1)?;
    let at = |index: usize| rates.get(index).copied().map(BitRate::bps);
    at(last / 4).zip(at(last - last / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// A sender that fills a link of this rate with packets of 1,000 bytes from `from` ms to `to` ms.
    fn fill(meter: &mut LinkMeter, bytes_per_ms: u64, from: u64, to: u64) {
        let gap = 1_000 / bytes_per_ms;
        for at in (from..to).step_by(usize::try_from(gap).unwrap()) {
            meter.on_packet(&packet(at, at + gap < to, Duration::ZERO));
        }
    }

    fn packet(at: u64, is_backlogged: bool, queue: Duration) -> Observation {
        Observation {
            now: Timestamp::ZERO + Duration::from_millis(at),
            size: 1_000,
            is_backlogged,
            rtt: RTT,
            queue,
            packet_time: Duration::from_millis(10),
            received: 1,
            lost: 0,
        }
    }

    #[test]
    fn the_rate_of_a_filled_link_is_measured_without_start_pauses_and_outages() {
        let mut meter = LinkMeter::new(false);
        // 800 kbit/s; later in pieces with pauses, and once more after an outage of 10 s.
        fill(&mut meter, 100, 0, 3_000);
        fill(&mut meter, 100, 5_000, 6_000);
        for at in (10_000..11_000).chain(21_000..22_000).step_by(10) {
            meter.on_packet(&packet(at, true, Duration::ZERO));
        }
        let summary = meter.summary();
        let (low, high) = summary.incoming.unwrap();
        for rate in [low, high] {
            assert!((790_000..=810_000).contains(&rate.as_bps()), "{rate:?}");
        }
        assert!(summary.backlog > Duration::from_secs(5) && summary.backlog < Duration::from_secs(7));
        assert_eq!(summary.outgoing, None);
        assert!(!summary.started_too_fast);
    }

    #[test]
    fn transfers_of_less_than_three_round_trips_say_nothing_about_the_rate() {
        let mut meter = LinkMeter::new(false);
        for start in 0..50 {
            fill(&mut meter, 100, start * 1_000, start * 1_000 + 290);
        }
        let summary = meter.summary();
        assert_eq!((summary.incoming, summary.received), (None, 1_450));
    }

    #[test]
    fn a_rate_that_still_grows_is_not_the_links() {
        let mut meter = LinkMeter::new(false);
        // 80 kbit/s, doubled every 200 ms up to 800 kbit/s.
        for (number, gap) in [100, 50, 25, 10, 10, 10].into_iter().enumerate() {
            let from = u64::try_from(number).unwrap() * 200;
            for at in (from..from + 200).step_by(gap) {
                meter.on_packet(&packet(at, true, Duration::ZERO));
            }
        }
        let (low, high) = meter.summary().incoming.unwrap();
        assert!(
            low >= BitRate::kbps(700) && high <= BitRate::kbps(810),
            "{low:?} {high:?}"
        );
        let mut growing = LinkMeter::new(false);
        for (number, gap) in [100, 50, 25, 12, 6].into_iter().enumerate() {
            let from = u64::try_from(number).unwrap() * 200;
            for at in (from..from + 200).step_by(gap) {
                growing.on_packet(&packet(at, true, Duration::ZERO));
            }
        }
        growing.on_packet(&packet(1_000, false, Duration::ZERO));
        assert_eq!(
            growing.summary().incoming,
            None,
            "the transfer ended before the link was full"
        );
    }

    #[test]
    fn a_link_whose_rate_varies_keeps_its_low_rates() {
        let mut meter = LinkMeter::new(false);
        for (number, gap) in [10, 40, 10, 40, 10, 40, 10, 40].into_iter().enumerate() {
            let from = u64::try_from(number).unwrap() * 400;
            for at in (from..from + 400).step_by(gap) {
                meter.on_packet(&packet(at, true, Duration::ZERO));
            }
        }
        let (low, high) = meter.summary().incoming.unwrap();
        assert!(
            low <= BitRate::kbps(300) && high >= BitRate::kbps(700),
            "{low:?} {high:?}"
        );
    }

    #[test]
    fn reports_of_the_peer_measure_the_other_direction() {
        let mut meter = LinkMeter::new(false);
        for step in 0..50_u64 {
            let now = Timestamp::ZERO + Duration::from_millis(step * 50);
            meter.on_report(now, step * 5_000, true, RTT);
        }
        let (low, high) = meter.summary().outgoing.unwrap();
        assert_eq!((low, high), (BitRate::kbps(800), BitRate::kbps(800)));
    }

    #[test]
    fn only_a_full_buffer_in_the_first_round_trips_shows_a_start_that_was_too_fast() {
        let full = Duration::from_millis(200);
        let outcome = |has_profile, at| {
            let mut meter = LinkMeter::new(has_profile);
            meter.on_packet(&packet(0, true, Duration::ZERO));
            meter.on_packet(&packet(at, true, full));
            meter.summary().started_too_fast
        };
        assert!(outcome(true, 250));
        assert!(!outcome(true, 350), "later it is the queue of any transfer");
        assert!(!outcome(false, 250), "without a profile it is the ramp");
        let mut meter = LinkMeter::new(true);
        let mut lossy = packet(0, true, Duration::ZERO);
        (lossy.received, lossy.lost) = (17, 3);
        meter.on_packet(&lossy);
        assert!(meter.summary().started_too_fast);
    }
}
