//! The queueing delay of incoming packets from their stamps (credit.md 5). Clocks need no synchronisation: only
//! differences to the smallest one-way delay count.
use longhaul_types::Timestamp;

use super::MinFilter;
use crate::wire::Stamp;

#[derive(Clone, Debug, Default)]
pub(super) struct DelayMeter {
    /// The difference of clocks and delay of the first packet, in stamp units: later ones are taken relative to it.
    reference: Option<Stamp>,
    base: MinFilter,
    recent: MinFilter,
    last: f64,
    /// RFC 3550's interarrival jitter, in seconds.
    pub(super) jitter: f64,
}

impl DelayMeter {
    /// Takes a packet. A delay above the base of more than `newest` seconds belongs to a packet from before a stall and says
    /// nothing about the queue. The packet spent `serialisation` seconds of its delay on being sent through the bottleneck itself.
    pub(super) fn on_packet(
        &mut self,
        now: Timestamp,
        stamp: Stamp,
        serialisation: f64,
        rtt: f64,
        newest: f64,
    ) {
        let raw = Stamp::from_raw(Stamp::of(now).raw().wrapping_sub(stamp.raw()));
        let reference = *self.reference.get_or_insert(raw);
        let delay = f64::from(raw.difference(reference)) * 1e-4 - serialisation;
        self.jitter += ((delay - self.last).abs().min(1.0) - self.jitter) / 16.0;
        self.last = delay;
        self.base.push(now, delay, (60.0 * rtt).max(30.0));
        if self.last_above_base() <= newest {
            self.recent.push(now, delay, (rtt / 4.0).max(0.01));
        }
    }

    /// q: the smallest delay of the last max(R/4, 10 ms) above the base.
    pub(super) fn queue(&self) -> f64 {
        match (self.recent.get(), self.base.get()) {
            (Some(recent), Some(base)) => (recent - base).max(0.0),
            _ => 0.0,
        }
    }

    /// The delay of the last packet above the base.
    pub(super) fn last_above_base(&self) -> f64 {
        (self.last - self.base.get().unwrap_or(self.last)).max(0.0)
    }

    /// Forgets recent delays, which a stall has falsified; the base stays.
    pub(super) fn forget_recent(&mut self) {
        self.recent.clear();
    }
}
