//! Queueing delay of incoming packets from their stamps (congestion.md section 5). Only differences from the
//! smallest one-way delay count, so the clocks need no synchronisation.
use std::collections::VecDeque;

use longhaul_types::{ByteCount, Timestamp};

use super::{
    byte_rate::as_bytes,
    parameters::{CongestionParameters, QueueParameters},
};
use crate::wire::Stamp;

/// Maximum number of candidates for the smallest delay; longer windows with many packets are thinned.
const MAX_CANDIDATES: usize = 64;
/// Weight of the earlier samples in the jitter of RFC 3550 section 6.4.1.
const JITTER_SMOOTHING: f64 = 16.0;
/// Largest sample of the jitter in seconds: longer delays are outages.
const LARGEST_JITTER_SAMPLE: f64 = 1.0;

#[derive(Clone, Debug)]
pub(super) struct DelayMeter {
    parameters: &'static QueueParameters,
    /// True while TCP may keep packets waiting for its window.
    is_ordered: bool,
    /// Window of `lasting` in seconds.
    lasting_window: f64,
    /// Clock difference plus delay of the first packet, in stamp units; later delays are relative to it.
    reference: Option<Stamp>,
    /// Byte time in seconds with which the kept delays were computed.
    stated: f64,
    base: SmallestDelay,
    recent: SmallestDelay,
    /// Base over a longer window, without the term size/C: a queue that stands for longer than the window of
    /// `base` still counts.
    lasting: SmallestDelay,
    /// Delay of the last packet above the lasting base, in seconds.
    pub(super) waited: f64,
    last: f64,
    /// Interarrival jitter of RFC 3550, in seconds.
    pub(super) jitter: f64,
}

impl DelayMeter {
    pub(super) fn new(parameters: &'static CongestionParameters) -> Self {
        Self {
            parameters: &parameters.queue,
            is_ordered: false,
            lasting_window: parameters.late_feedback.lasting_window,
            reference: None,
            stated: 0.0,
            base: SmallestDelay::default(),
            recent: SmallestDelay::default(),
            lasting: SmallestDelay::default(),
            waited: 0.0,
            last: 0.0,
            jitter: 0.0,
        }
    }

    /// Processes a packet of `size` bytes. Returns by how many seconds the base has risen because its smallest delays
    /// have left the window: q of the same one-way delay has fallen by as much. `byte_time` is the estimated time of a byte at the bottleneck in
    /// seconds, 0 if unknown. A packet whose delay exceeds the base by more than `newest` seconds was sent
    /// before a stall and says nothing about the queue.
    pub(super) fn on_packet(
        &mut self,
        now: Timestamp,
        stamp: Stamp,
        size: f64,
        byte_time: f64,
        rtt: f64,
        newest: f64,
    ) -> f64 {
        self.restate(byte_time);
        let relative = stamp.relative_delay(now);
        let reference = *self.reference.get_or_insert(relative);
        let seconds = relative.seconds_above(reference);
        let delay = Delay {
            at: now,
            seconds,
            size,
            net: seconds - size * byte_time,
        };
        let change = (delay.net - self.last).abs().min(LARGEST_JITTER_SAMPLE);
        self.jitter += (change - self.jitter) / JITTER_SMOOTHING;
        self.last = delay.net;
        let parameters = self.parameters;
        let base_window = (parameters.base_window_rtts * rtt).max(parameters.base_window);
        let base = self.base.get().unwrap_or(delay.net);
        self.base.push(delay, base_window);
        let rise = (self.base.get().unwrap_or(base) - base).max(0.0);
        let whole = Delay {
            net: seconds,
            ..delay
        };
        self.lasting.push(whole, self.lasting_window);
        self.waited = seconds - self.lasting.get().unwrap_or(seconds);
        if self.last_above_base() <= newest {
            let recent_window = if self.is_ordered {
                parameters.recent_ordered_rtts * rtt
            } else {
                (rtt / parameters.recent_in_rtt).max(parameters.recent_least)
            };
            self.recent.push(delay, recent_window);
        }
        rise
    }

    /// Changes the window of q for the packets that follow.
    pub(super) const fn set_ordered(&mut self, is_ordered: bool) {
        self.is_ordered = is_ordered;
    }

    /// Recomputes the kept delays when the byte time changes much. Otherwise a packet measured at an
    /// underestimated rate would have too small a net delay, and every later packet would seem to have met a
    /// queue.
    fn restate(&mut self, byte_time: f64) {
        let (less, more) = (self.stated.min(byte_time), self.stated.max(byte_time));
        if more > self.parameters.restate_factor * less {
            self.stated = byte_time;
            self.base.restate(byte_time);
            self.recent.restate(byte_time);
        }
    }

    /// q: smallest delay of the last max(R/4, 10 ms) minus the base.
    pub(super) fn queue(&self) -> f64 {
        match (self.recent.get(), self.base.get()) {
            (Some(recent), Some(base)) => (recent - base).max(0.0),
            _ => 0.0,
        }
    }

    /// Delay above the base of a packet of `size` bytes that arrives now with `stamp`, without recording it.
    pub(super) fn above_base(&self, now: Timestamp, stamp: Stamp, size: ByteCount) -> f64 {
        let (Some(reference), Some(base)) = (self.reference, self.base.get()) else {
            return 0.0;
        };
        let seconds = stamp.relative_delay(now).seconds_above(reference);
        (seconds - as_bytes(size) * self.stated - base).max(0.0)
    }

    /// Delay of the last packet above the base.
    fn last_above_base(&self) -> f64 {
        (self.last - self.base.get().unwrap_or(self.last)).max(0.0)
    }

    /// Discards the lasting base after a clock has jumped: a packet took less time than its measured queueing
    /// delay.
    pub(super) fn forget_lasting(&mut self) {
        self.lasting.clear();
    }

    /// Discards recent delays, which a stall has falsified, and keeps the base.
    pub(super) fn forget_recent(&mut self) {
        self.recent.clear();
    }
}

/// One-way delay of one packet.
#[derive(Clone, Copy, Debug)]
struct Delay {
    at: Timestamp,
    /// From stamp to arrival, relative to the first packet.
    seconds: f64,
    size: f64,
    /// Without the packet's own transmission time at the bottleneck.
    net: f64,
}

/// Minimum of the net delays in a sliding window. Insertion costs amortised O(1); `restate` costs time
/// proportional to the kept delays.
#[derive(Clone, Debug, Default)]
struct SmallestDelay {
    /// Ascending in time and net delay.
    delays: VecDeque<Delay>,
}

impl SmallestDelay {
    /// Adds a delay and drops delays older than `window` seconds.
    fn push(&mut self, delay: Delay, window: f64) {
        self.insert(delay);
        while self.delays.len() > 1
            && self
                .delays
                .front()
                .is_some_and(|oldest| delay.at.saturating_since(oldest.at).as_secs_f64() > window)
        {
            self.delays.pop_front();
        }
    }

    fn insert(&mut self, delay: Delay) {
        while self.delays.back().is_some_and(|last| last.net >= delay.net) {
            self.delays.pop_back();
        }
        if self.delays.len() == MAX_CANDIDATES {
            self.delays.pop_back();
        }
        self.delays.push_back(delay);
    }

    /// Recomputes the kept net delays with another byte time and restores their order.
    fn restate(&mut self, byte_time: f64) {
        for delay in std::mem::take(&mut self.delays) {
            let net = delay.seconds - delay.size * byte_time;
            self.insert(Delay { net, ..delay });
        }
    }

    fn get(&self) -> Option<f64> {
        self.delays.front().map(|smallest| smallest.net)
    }

    fn clear(&mut self) {
        self.delays.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RTT: f64 = 0.001;
    const FULL: f64 = 1280.0;

    /// Sends one packet per millisecond; each arrives `delay` after it was sent.
    fn arrive(meter: &mut DelayMeter, from: u64, packets: u64, size: f64, rate: f64, delay: Duration) {
        for number in from..from + packets {
            let sent = Timestamp::ZERO + Duration::from_millis(number);
            meter.on_packet(
                sent + delay,
                Stamp::of(sent),
                size,
                1.0 / rate,
                RTT,
                f64::INFINITY,
            );
        }
    }

    #[test]
    fn a_new_rate_estimate_is_not_measured_as_a_queue() {
        let mut meter = DelayMeter::new(&CongestionParameters::STANDARD);
        let delay = Duration::from_micros(200);
        arrive(&mut meter, 0, 50, FULL, 400_000.0, delay);
        assert!(meter.queue() < 1e-9, "{}", meter.queue());
        for (number, rate) in [5e5, 6e5, 1e6, 2e6, 1e7, 1e5, 5e7].into_iter().enumerate() {
            arrive(&mut meter, 50 + 50 * number as u64, 50, FULL, rate, delay);
            assert!(meter.queue() < 0.5 * FULL / rate, "{} at {rate}", meter.queue());
        }
    }

    #[test]
    fn the_base_rises_when_its_smallest_delay_leaves_the_window() {
        let mut meter = DelayMeter::new(&CongestionParameters::STANDARD);
        let mut rise_at = |milliseconds: u64, delay: u64| {
            let sent = Timestamp::ZERO + Duration::from_millis(milliseconds);
            let arrival = sent + Duration::from_millis(delay);
            meter.on_packet(arrival, Stamp::of(sent), FULL, 0.0, RTT, f64::INFINITY)
        };
        assert!(rise_at(0, 10) < 1e-9);
        for number in 1..30 {
            assert!(rise_at(1000 * number, 50) < 1e-9);
        }
        let rise = rise_at(30_100, 55);
        assert!((rise - 0.04).abs() < 3e-4, "{rise}");
        // The base falls: this is no rise.
        assert!(rise_at(30_200, 20) < 1e-9);
    }

    #[test]
    fn the_queue_estimate_does_not_depend_on_packet_size() {
        const RATE: f64 = 5000.0;
        let mut meter = DelayMeter::new(&CongestionParameters::STANDARD);
        let own = |size: f64| Duration::from_secs_f64(size / RATE);
        arrive(&mut meter, 0, 20, 80.0, RATE, own(80.0));
        arrive(&mut meter, 1000, 20, FULL, RATE, own(FULL));
        assert!(meter.queue() < 2e-4, "{}", meter.queue());
        let waiting = Duration::from_millis(100);
        arrive(&mut meter, 2000, 20, FULL, RATE, waiting + own(FULL));
        assert!((meter.queue() - 0.1).abs() < 3e-4, "{}", meter.queue());
        arrive(&mut meter, 3000, 20, 80.0, RATE, waiting + own(80.0));
        assert!((meter.queue() - 0.1).abs() < 3e-4, "{}", meter.queue());
    }
}
