//! The queueing delay of incoming packets from their stamps (credit.md 5). Clocks need no synchronisation: only
//! differences to the smallest one-way delay count.
use std::collections::VecDeque;

use longhaul_types::Timestamp;

use crate::wire::Stamp;

/// Candidates for the smallest delay that are kept: those of a long window with many packets are thinned to this many.
const MAX_CANDIDATES: usize = 64;
/// For how many seconds the lasting base lasts.
const LASTING: f64 = 600.0;
/// A belief that changes by less than this factor moves q by less than half a packet's time, a fifth of the least Qh.
const SAME_BELIEF: f64 = 1.5;

#[derive(Clone, Debug, Default)]
pub(super) struct DelayMeter {
    /// The difference of clocks and delay of the first packet, in stamp units: later ones are taken relative to it.
    reference: Option<Stamp>,
    /// Seconds that a byte was believed to take on the bottleneck when the kept delays were last stated.
    stated: f64,
    base: SmallestDelay,
    recent: SmallestDelay,
    /// The base of a longer time, as the clocks tell it: a queue that stands for longer than the base lasts is still one.
    lasting: SmallestDelay,
    /// The last packet's delay above that.
    pub(super) waited: f64,
    last: f64,
    /// RFC 3550's interarrival jitter, in seconds.
    pub(super) jitter: f64,
}

impl DelayMeter {
    /// Takes a packet of `size` bytes. A byte is believed to take `byte_time` seconds on the bottleneck, 0 if that is
    /// unknown. A delay above the base of more than `newest` seconds belongs to a packet from before a stall and says
    /// nothing about the queue.
    pub(super) fn on_packet(
        &mut self,
        now: Timestamp,
        stamp: Stamp,
        size: f64,
        byte_time: f64,
        rtt: f64,
        newest: f64,
    ) {
        self.believe(byte_time);
        let raw = Stamp::from_raw(Stamp::of(now).raw().wrapping_sub(stamp.raw()));
        let reference = *self.reference.get_or_insert(raw);
        let seconds = f64::from(raw.difference(reference)) * 1e-4;
        let delay = Delay {
            at: now,
            seconds,
            size,
            net: seconds - size * byte_time,
        };
        self.jitter += ((delay.net - self.last).abs().min(1.0) - self.jitter) / 16.0;
        self.last = delay.net;
        self.base.push(delay, (60.0 * rtt).max(30.0));
        let told = Delay {
            net: seconds,
            ..delay
        };
        self.lasting.push(told, LASTING);
        self.waited = seconds - self.lasting.get().unwrap_or(seconds);
        if self.last_above_base() <= newest {
            self.recent.push(delay, (rtt / 4.0).max(0.01));
        }
    }

    /// Delays are compared at one belief. A packet whose own time was overrated while the bottleneck seemed slow would
    /// else pass for one that waited for less than nothing, and every packet after it for one that met a queue.
    fn believe(&mut self, byte_time: f64) {
        let (less, more) = (self.stated.min(byte_time), self.stated.max(byte_time));
        if more > SAME_BELIEF * less {
            self.stated = byte_time;
            self.base.restate(byte_time);
            self.recent.restate(byte_time);
        }
    }

    /// q: the smallest delay of the last max(R/4, 10 ms) above the base.
    pub(super) fn queue(&self) -> f64 {
        match (self.recent.get(), self.base.get()) {
            (Some(recent), Some(base)) => (recent - base).max(0.0),
            _ => 0.0,
        }
    }

    /// What a packet of `size` bytes that arrives now with `stamp` met above the base; it is not counted in.
    pub(super) fn above_base(&self, now: Timestamp, stamp: Stamp, size: f64) -> f64 {
        let (Some(reference), Some(base)) = (self.reference, self.base.get()) else {
            return 0.0;
        };
        let raw = Stamp::from_raw(Stamp::of(now).raw().wrapping_sub(stamp.raw()));
        let seconds = f64::from(raw.difference(reference)) * 1e-4;
        (seconds - size * self.stated - base).max(0.0)
    }

    /// The delay of the last packet above the base.
    fn last_above_base(&self) -> f64 {
        (self.last - self.base.get().unwrap_or(self.last)).max(0.0)
    }

    /// A packet came back before it can have waited for so long: a clock has jumped.
    pub(super) fn forget_lasting(&mut self) {
        self.lasting.clear();
    }

    /// Forgets recent delays, which a stall has falsified; the base stays.
    pub(super) fn forget_recent(&mut self) {
        self.recent.clear();
    }
}

/// What one packet took.
#[derive(Clone, Copy, Debug)]
struct Delay {
    at: Timestamp,
    /// From stamp to arrival, relative to the first packet.
    seconds: f64,
    size: f64,
    /// Without the time that the packet itself took on the bottleneck.
    net: f64,
}

/// The smallest net delay of a window. A delay costs amortised O(1), a new belief what is kept.
#[derive(Clone, Debug, Default)]
struct SmallestDelay {
    /// Ascending in time and net delay.
    delays: VecDeque<Delay>,
}

impl SmallestDelay {
    /// Adds a delay and drops what is older than `window` seconds.
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

    /// States what is kept at another belief, and in its order.
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

    /// Packets that arrive `delay` after they were sent, one each millisecond.
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
    fn a_better_belief_of_the_rate_is_no_queue() {
        let mut meter = DelayMeter::default();
        let delay = Duration::from_micros(200);
        arrive(&mut meter, 0, 50, FULL, 400_000.0, delay);
        assert!(meter.queue() < 1e-9, "{}", meter.queue());
        for (number, rate) in [5e5, 6e5, 1e6, 2e6, 1e7, 1e5, 5e7].into_iter().enumerate() {
            arrive(&mut meter, 50 + 50 * number as u64, 50, FULL, rate, delay);
            assert!(meter.queue() < 0.5 * FULL / rate, "{} at {rate}", meter.queue());
        }
    }

    #[test]
    fn a_queue_is_measured_against_small_and_large_packets_alike() {
        const RATE: f64 = 5000.0;
        let mut meter = DelayMeter::default();
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
