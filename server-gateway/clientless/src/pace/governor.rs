//! The governor decides how fast all connections of a client together may write, from the kernel's figures of them.
//!
//! It measures how fast data arrives and how much longer the round trips take than the shortest one, and limits rate and
//! window so that the queue at the bottleneck stays short. [`super::Pace`] applies the limit. Time is an argument.
mod base;
mod reading;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, time::Duration};

pub(super) use self::reading::Reading;
use self::{
    base::{BASE_TIME, Base},
    reading::{Measurement, Unfallen},
};
use super::limit::{HEADERS, Limit, as_bytes};

/// Bytes of a full packet's content.
const PACKET: f64 = 1448.0;
/// Lowest rate of the limit, in bytes a second: 8 kbit/s, less than GPRS carries. At this rate a wrong measurement is
/// corrected within seconds.
const SLOWEST: f64 = 1_000.0;
/// Rate in bytes a second (3 Mbit/s) from which there is no limit until a queue forms.
const FAST: f64 = 375_000.0;
/// Rate in bytes a second (50 Mbit/s) from which there is never a limit.
const FASTEST: f64 = 6_250_000.0;
/// Round trip below which there is no limit until a queue forms.
const NEAR: Duration = Duration::from_millis(20);
/// Round trip from which the first flight is [`SHORT_FIRST_FLIGHT`].
const FAR: Duration = Duration::from_millis(100);
/// Packets of the first flight of all connections together.
const FIRST_FLIGHT: f64 = 10.0;
const SHORT_FIRST_FLIGHT: f64 = 4.0;
/// Packets that may be outstanding before the rate is known.
const MOST_PACKETS: f64 = 64.0;
/// Maximum number of remembered arrivals of the first flight: more than it has packets.
const MAX_ARRIVALS: usize = 128;
/// Queueing delay in seconds of the first flight from which its rate can be estimated: longer than clients delay their
/// acknowledgements.
const TELLING: f64 = 0.1;
/// Least queueing delay in seconds at which a client without a limit gets one.
const ENGAGING: f64 = 0.15;
/// Number of the latest rate measurements, of which the highest is the rate of the link.
const RATES: usize = 4;
/// Least number of packets of a rate measurement: with fewer, single acknowledgements would decide.
const MEASURED_PACKETS: f64 = 8.0;
/// Shortest duration of a rate measurement in seconds.
const MEASURED_TIME: f64 = 0.2;
/// Share of the queue's excess that is removed in a round trip. A larger one would oscillate, because the effect is
/// measured a round trip later.
const GAIN: f64 = 0.4;
/// Bounds of the permitted rate, as multiples of the measured one. Round trips also contain the queue of the client's
/// uplink, which a lower rate does not shorten: a queue therefore reduces the rate by little, except directly after the
/// link was found to be slower.
const MOST_GAIN: f64 = 1.25;
const LEAST_GAIN: f64 = 0.9;
const DRAINING_GAIN: f64 = 0.25;
/// Number of successive measurements with a long queue and a low rate after which the link counts as slower. The client's
/// requests may have delayed a single one.
const SLOWER: u32 = 2;
/// A queue is long from this multiple of the longest intended one.
const LONG: f64 = 6.0;
/// Largest ratio of arrival rate and sending rate that is believed: the clocks of both measurements differ.
const COMPRESSED: f64 = 1.03;
/// Number of measurements without a queue after which the rate is [`MOST_GAIN`] times the measured one, and twice the
/// measured one. The latter requires that the measured rate grows each time: a queue that a too high limit causes is
/// measured a round trip later.
const QUIET: u32 = 2;
const VERY_QUIET: u32 = 4;
/// Ratio of a measured rate to the highest one before it from which the rate counts as growing.
const GROWING: f64 = 1.1;
/// Time without a queue after which the limit ends, on a link faster than [`FAST`].
const RELEASE: Duration = Duration::from_secs(10);

/// State of the knowledge about the link.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// Unknown link: this number of packets may be outstanding.
    Start(f64),
    /// The link has no queue: there is no limit.
    Free,
    /// The limit keeps the queue of the link short.
    Bound,
}

/// The governor of one client.
#[derive(Debug)]
pub(super) struct Governor {
    mode: Mode,
    base: Base,
    /// Times and durations of the latest round trips, without the transmission time of the packet.
    recent: VecDeque<(Duration, f64)>,
    rates: VecDeque<f64>,
    measured: Measurement,
    /// Arrivals in mode `Start` during the queueing delay of the last packet.
    arrivals: VecDeque<(Duration, u64)>,
    quiet: u32,
    slower: u32,
    /// End of the time in which the queue is emptied that the link had when its rate was found.
    empty_at: Duration,
    unfallen: Option<Unfallen>,
    drain_until: Duration,
    quiet_since: Option<Duration>,
    limit: Limit,
}

impl Governor {
    /// A governor of a client whose link is unknown.
    pub(super) fn new() -> Self {
        let mut governor = Self {
            mode: Mode::Start(FIRST_FLIGHT),
            base: Base::default(),
            recent: VecDeque::new(),
            rates: VecDeque::new(),
            measured: Measurement::default(),
            arrivals: VecDeque::new(),
            quiet: 0,
            slower: 0,
            empty_at: Duration::ZERO,
            unfallen: None,
            drain_until: Duration::ZERO,
            quiet_since: None,
            limit: Limit::NONE,
        };
        governor.limit = governor.decide(Duration::ZERO);
        governor
    }

    /// What may be written now.
    pub(super) const fn limit(&self) -> Limit {
        self.limit
    }

    /// Returns true as long as nothing is known of the link.
    fn is_starting(&self) -> bool {
        matches!(self.mode, Mode::Start(_))
    }

    /// The last round trip.
    pub(super) fn last_round_trip(&self) -> Duration {
        let last = self.recent.back().map_or(0.0, |(_, time)| *time);
        Duration::from_secs_f64(last.max(self.round_trip()))
    }

    /// Time between two readings.
    pub(super) fn interval(&self) -> Duration {
        if self.is_starting() {
            return Duration::from_millis(10);
        }
        let quarter = self.base.least.unwrap_or(0.0) / 4.0;
        Duration::from_secs_f64(quarter.clamp(0.05, 0.25))
    }

    /// The round trip of a new connection's handshake.
    pub(super) fn handshake(&mut self, now: Duration, round_trip: Duration) {
        let round_trip = round_trip.as_secs_f64();
        self.base.sample(now, round_trip, round_trip);
        if let Mode::Start(_) = self.mode
            && self.arrivals.is_empty()
        {
            let least = self.base.least.unwrap_or(0.0);
            self.mode = if least < NEAR.as_secs_f64() {
                Mode::Free
            } else if least < FAR.as_secs_f64() {
                Mode::Start(FIRST_FLIGHT)
            } else {
                Mode::Start(SHORT_FIRST_FLIGHT)
            };
        }
        self.limit = self.decide(now);
    }

    /// Takes a reading.
    pub(super) fn read(&mut self, now: Duration, reading: &Reading) {
        if reading.is_after_pause {
            self.measured = Measurement::default();
            self.recent.clear();
        }
        if let Some((round_trip, packet)) = reading.round_trip {
            let transmission = self.packet_time() * (as_bytes(packet) / PACKET).min(1.0);
            let round_trip = round_trip.as_secs_f64();
            let without = (round_trip - transmission).max(0.0);
            self.base.sample(now, round_trip, without);
            self.recent.push_back((now, without));
        }
        let span = Duration::from_secs_f64(self.round_trip().clamp(0.1, 4.0));
        while self.recent.len() > 1 && self.recent.front().is_some_and(|(at, _)| *at + span < now) {
            self.recent.pop_front();
        }
        match self.mode {
            Mode::Start(packets) => self.start(packets, reading),
            Mode::Free | Mode::Bound => {}
        }
        self.measure(now, reading);
        self.limit = self.decide(now);
    }

    /// Evaluates the first flight. While its last packet waited in the queue, the link carried data without a pause: the
    /// bytes that arrived in this time, divided by it, are the rate of the link.
    fn start(&mut self, packets: f64, reading: &Reading) {
        if reading.delivered == 0 {
            return;
        }
        if self.arrivals.len() == MAX_ARRIVALS {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back((reading.delivered_at, reading.delivered));
        let (Some((round_trip, _)), Some(base)) = (reading.round_trip, self.base.least) else {
            return;
        };
        let beyond = (round_trip.as_secs_f64() - base).max(0.001);
        let since = reading
            .delivered_at
            .saturating_sub(Duration::from_secs_f64(beyond));
        self.arrivals.retain(|(at, _)| *at > since);
        let bytes = as_bytes(self.arrivals.iter().map(|(_, bytes)| bytes).sum());
        let rate = bytes / beyond;
        let is_known = bytes >= 2.0 * PACKET;
        if is_known && rate > FAST {
            self.mode = Mode::Free;
        } else if is_known && beyond > TELLING {
            self.mode = Mode::Bound;
            self.rates.push_back(rate);
            self.recent.clear();
        } else if beyond <= TELLING {
            let more = as_bytes(reading.delivered) / PACKET;
            self.mode = Mode::Start((packets + more).min(MOST_PACKETS));
        }
        if !self.is_starting() {
            self.arrivals = VecDeque::new();
        }
    }

    /// Measures the rate from one acknowledgement to another.
    fn measure(&mut self, now: Duration, reading: &Reading) {
        let queue = self.queue();
        let measured = &mut self.measured;
        measured.readings += 1;
        measured.held_back += u32::from(reading.is_held_back);
        if let Some(queue) = queue {
            measured.least_queue = Some(measured.least_queue.map_or(queue, |least| least.min(queue)));
        }
        if reading.delivered > 0 {
            match measured.start {
                None => measured.start = Some(reading.delivered_at),
                Some(start) => {
                    measured.bytes += reading.delivered;
                    let time = reading.delivered_at.saturating_sub(start).as_secs_f64();
                    let long = MEASURED_TIME.max(2.0 * self.round_trip().min(2.0));
                    if time > long && as_bytes(self.measured.bytes) >= MEASURED_PACKETS * PACKET {
                        let measured = self.measured;
                        self.measured = Measurement {
                            start: Some(reading.delivered_at),
                            ..Measurement::default()
                        };
                        self.measured_rate(now, time, measured);
                    }
                }
            }
        }
        if reading.outstanding == 0 {
            self.measured = Measurement::default();
        }
    }

    fn measured_rate(&mut self, now: Duration, time: f64, measured: Measurement) {
        let Some(queue) = measured.least_queue else { return };
        let best = self.best_rate();
        // Delayed acknowledgements arrive together and show too high a rate: data cannot arrive faster than it was sent.
        let permitted = self.limit.rate.map(|rate| rate / HEADERS);
        let sent = permitted.map(|permitted| permitted.max(best) * COMPRESSED);
        let rate = (as_bytes(measured.bytes) / time).min(sent.unwrap_or(f64::INFINITY));
        let (target, most) = self.queues();
        let is_held_back = measured.held_back * 5 >= measured.readings * 4;
        match self.mode {
            Mode::Start(_) => return,
            Mode::Free => {
                self.keep(rate);
                if queue > ENGAGING.max(2.0 * most) && rate < FASTEST {
                    self.found(now, rate);
                }
                return;
            }
            Mode::Bound => {}
        }
        let is_slower = queue > LONG * most && rate < 0.6 * permitted.unwrap_or(best).min(best);
        self.slower = if is_slower { self.slower + 1 } else { 0 };
        if self.slower >= SLOWER {
            self.found(now, rate);
        } else if is_held_back || rate > best {
            self.keep(rate);
        }
        self.note_fall(now, rate);
        let is_quiet = queue < target / 2.0;
        let grows = rate > GROWING * best;
        self.quiet = match (is_quiet, is_held_back) {
            (true, true) if grows => self.quiet + 1,
            (true, true) => (self.quiet + 1).min(QUIET),
            (true, false) => self.quiet,
            (false, _) => 0,
        };
        let since = *self.quiet_since.get_or_insert(now);
        if !is_quiet {
            self.quiet_since = None;
        } else if self.best_rate() > FASTEST || self.best_rate() > FAST && now.saturating_sub(since) > RELEASE
        {
            self.mode = Mode::Free;
            self.quiet_since = None;
        }
    }

    /// Detects a longer path. With a queue at the bottleneck, data arrives at the rate of the link. If the rate falls and
    /// the queueing delay stays, the queue belongs to other traffic or the path has become longer: the delay becomes part of
    /// the shortest round trip.
    fn note_fall(&mut self, now: Duration, rate: f64) {
        let (_, most) = self.queues();
        let Some(queue) = self.queue().filter(|queue| *queue > most) else {
            self.unfallen = None;
            return;
        };
        let fresh = Unfallen {
            queue,
            rate,
            since: now,
        };
        let from = self.unfallen.get_or_insert(fresh);
        // A single rate may be too low if the path became longer during its measurement.
        from.rate = from.rate.max(rate);
        let from = *from;
        let seen = now.saturating_sub(from.since).as_secs_f64() > 2.0 * (queue + self.round_trip());
        if !(0.8 * from.queue..1.25 * from.queue).contains(&queue) {
            self.unfallen = Some(fresh);
        } else if seen && rate < 0.8 * from.rate {
            self.unfallen = None;
            let least = self.recent.iter().map(|(_, time)| *time).reduce(f64::min);
            self.base = Base::replaced(now, least);
        }
    }

    /// Sets the rate of the link and the time in which its queue is emptied.
    fn found(&mut self, now: Duration, rate: f64) {
        self.mode = Mode::Bound;
        self.rates = VecDeque::from([rate]);
        self.slower = 0;
        let queue = self.queue().unwrap_or(0.0);
        self.empty_at = now + Duration::from_secs_f64(queue / (1.0 - DRAINING_GAIN) + self.round_trip());
    }

    fn keep(&mut self, rate: f64) {
        self.rates.push_back(rate);
        if self.rates.len() > RATES {
            self.rates.pop_front();
        }
    }

    /// Highest of the latest measured rates of content.
    fn best_rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// Transmission time of a full packet, which is no queue.
    fn packet_time(&self) -> f64 {
        let rate = self.best_rate();
        if rate > 0.0 { (PACKET / rate).min(1.0) } else { 0.0 }
    }

    /// The shortest round trip of a full packet.
    fn round_trip(&self) -> f64 {
        self.base.least.unwrap_or(0.2) + self.packet_time()
    }

    /// Queueing delay of the last round trip.
    fn queue(&self) -> Option<f64> {
        let least = self.recent.iter().map(|(_, rtt)| *rtt).reduce(f64::min)?;
        Some((least - self.base.least?).max(0.0))
    }

    /// The intended and the longest intended queueing delay.
    fn queues(&self) -> (f64, f64) {
        let base = self.base.least.unwrap_or(0.2);
        let most = (0.25 * base).max(0.06).max(self.packet_time()).min(0.6);
        (most / 2.0, most)
    }

    fn decide(&mut self, now: Duration) -> Limit {
        match self.mode {
            Mode::Free => return Limit::NONE,
            Mode::Start(packets) => {
                return Limit {
                    rate: None,
                    window: Some(packets * PACKET),
                };
            }
            Mode::Bound => {}
        }
        let best = self.best_rate().max(SLOWEST);
        let (target, most) = self.queues();
        let queue = self.queue().unwrap_or(target);
        let round_trip = self.round_trip();
        let least = if now < self.empty_at && queue > most {
            DRAINING_GAIN
        } else {
            LEAST_GAIN
        };
        let mut gain = (1.0 + GAIN * (target - queue) / (round_trip + target)).clamp(least, MOST_GAIN);
        if queue < target / 2.0 {
            if self.quiet >= VERY_QUIET {
                gain = 2.0;
            } else if self.quiet >= QUIET {
                gain = MOST_GAIN;
            }
        }
        if self.base.is_old(now) && now >= self.drain_until + BASE_TIME / 4 {
            self.drain_until = now + Duration::from_secs_f64(round_trip + 2.0 * queue.min(most));
        }
        if now < self.drain_until && queue > target / 4.0 {
            gain = 0.5;
        }
        let rate = best * gain;
        let window = rate.max(best) * (round_trip + LONG * most + 0.05) + 2.0 * PACKET;
        Limit {
            rate: Some(rate * HEADERS),
            window: Some(window),
        }
    }
}
