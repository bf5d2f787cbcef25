//! Start on an unknown link: the rate of the link from the spacing of packets that were sent back to back
//! (congestion.md section 2.1).
//!
//! Only the agent measures. Packets that leave the gateway together cross the bottleneck one behind the other, so they
//! arrive at the bottleneck's rate. A cross traffic makes the measured rate too low, which is the safe side.
use std::time::Duration;

use longhaul_types::{ByteCount, Timestamp};

use super::{
    ByteRate, FULL_PACKET_BYTES,
    byte_rate::{as_bytes, as_count},
    parameters::ProbingParameters,
};
use crate::wire::{Stamp, frame::TRAIN_PACKETS};

/// Packets of a pair.
const PAIR_PACKETS: f64 = 2.0;
/// Share of a run's dispersion that its sending may take: more, and the spacing is the sender's.
const MOST_SENDING_SHARE: f64 = 0.25;

/// State of the start: how the receiver came to the rate of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// A profile contains the rate, from the configuration or from an earlier session on this network.
    #[default]
    Told,
    /// Nothing tells the rate and nothing measures it: the peer does not support that, or this side does not ask.
    /// Slow start finds the rate.
    SlowStart,
    /// INIT asked for a full packet behind the RESP, whose distance from the RESP gives a first estimate.
    Pair,
    /// A TRAIN is requested. The estimate of the pair is in force if there was one.
    Train,
    /// The estimate is in force.
    Steady,
    /// Queue or losses have refuted the estimate: the measured delivery rate took its place.
    Retreat,
}

/// Result of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Finding {
    /// An estimate takes the place of what was known.
    Estimate(Estimate),
    /// Two packets neither confirm nor refute the told rate: a train of this length would.
    NeedsTrain(u8),
    /// Two packets of data came too close for the told rate: a train of this length, filled with data, would refute it.
    Doubt(u8),
}

/// Estimate of the rate of an unknown link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    /// Rate in byte/s, with its margin.
    pub(super) capacity: f64,
    /// Rate in byte/s for the window: that of a pair without its margin, because on the slowest links one packet less in
    /// flight leaves the link idle between two feedbacks.
    pub(super) window_rate: f64,
    /// True if the shortest dispersion limits the rate: the link may be faster.
    pub(super) is_bound: bool,
    /// Number of packets of a train that would improve the estimate.
    pub(super) train: Option<u8>,
    /// True for the first estimate.
    pub(super) is_first: bool,
}

impl Estimate {
    /// Returns true if it shows a lower rate than an earlier lower bound.
    pub(super) fn is_slower(self, earlier: Self) -> bool {
        earlier.is_bound && self.window_rate <= earlier.window_rate
    }
}

/// Packets that were sent together.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Arrival and stamp of the first packet.
    at: Timestamp,
    stamp: Stamp,
    packets: f64,
    /// Bytes behind the first packet.
    bytes: f64,
}

impl Run {
    const fn begin(at: Timestamp, stamp: Stamp) -> Self {
        Self {
            at,
            stamp,
            packets: 1.0,
            bytes: 0.0,
        }
    }
}

/// Measurement of an unknown link.
#[derive(Clone, Debug)]
pub(super) struct RateProbe {
    parameters: &'static ProbingParameters,
    pub(super) state: Start,
    /// Arrival of the RESP, until the next packet.
    resp: Option<Timestamp>,
    run: Option<Run>,
    /// Number of packets of the longest run that gave an estimate.
    counted: f64,
    /// Number of packets of the requested train.
    requested: f64,
    /// Estimate in force.
    pub(super) estimate: Option<Estimate>,
    /// Time at which the window of the estimate has had its effect on arriving packets.
    pub(super) effective_at: Timestamp,
    /// First packet of a backlogged sender.
    pub(super) data_since: Option<Timestamp>,
    /// True if data that contradicts the told rate is looked for.
    watches: bool,
    /// The told rate in byte/s that data has contradicted. The rate in force has grown when the train arrives, but the window
    /// still is that of this rate.
    doubted: Option<f64>,
}

impl RateProbe {
    pub(super) fn new(parameters: &'static ProbingParameters, state: Start) -> Self {
        Self {
            parameters,
            state,
            resp: None,
            run: None,
            counted: 0.0,
            requested: 0.0,
            estimate: None,
            effective_at: Timestamp::ZERO,
            data_since: None,
            watches: false,
            doubted: None,
        }
    }

    /// Records the RESP, which `arrived` before any packet or not. Without support at the peer slow start finds the
    /// rate.
    pub(super) fn on_resp(&mut self, arrived: Option<Timestamp>, is_supported: bool) {
        if self.state != Start::Pair {
            return;
        }
        self.resp = arrived;
        if !is_supported {
            self.state = Start::SlowStart;
        }
    }

    /// Looks for data that contradicts the told rate, until a train verifies the rate.
    pub(super) const fn watch(&mut self) {
        self.watches = true;
    }

    /// Records that a train of `packets` was requested. If the rate was told, the train verifies it.
    pub(super) fn on_train_requested(&mut self, packets: u8) {
        if self.state == Start::Told {
            (self.run, self.counted) = (None, 0.0);
        } else {
            self.state = Start::Train;
        }
        self.requested = f64::from(packets);
        self.watches = false;
    }

    /// Records that a train of `packets` was requested that opens a window below the carrier. It shows more than earlier
    /// trains did, whose estimate is a lower bound.
    pub(super) fn on_warm_up(&mut self, packets: u32) {
        if self.is_bound() {
            (self.run, self.counted) = (None, 0.0);
            self.requested = f64::from(packets);
        }
    }

    /// Returns true if the estimate in force is a lower bound.
    pub(super) fn is_bound(&self) -> bool {
        self.state == Start::Steady && self.estimate.is_some_and(|estimate| estimate.is_bound)
    }

    /// Records a packet of any content; returns an estimate if the packet gives a better one.
    /// A pair more than `patience` seconds behind the RESP is none. `told` is the rate in force in byte/s, which a train
    /// verifies if it was told.
    pub(super) fn on_arrival(
        &mut self,
        now: Timestamp,
        stamp: Stamp,
        size: ByteCount,
        patience: f64,
        told: f64,
    ) -> Option<Finding> {
        let bytes = as_bytes(size);
        match self.state {
            Start::Told if self.watches => return self.doubt(now, stamp, bytes, told),
            Start::Told if self.requested < 1.0 => return None,
            Start::SlowStart | Start::Retreat => return None,
            Start::Told | Start::Pair | Start::Train | Start::Steady => {}
        }
        if self.state == Start::Told && bytes < FULL_PACKET_BYTES {
            // The train consists of full packets; others were sent before.
            return None;
        }
        if let Some(resp) = self.resp {
            self.run = Some(Run::begin(now, stamp));
            if bytes < FULL_PACKET_BYTES && now == resp {
                // This packet came in the datagram of the RESP.
                return None;
            }
            self.resp = None;
            // A shorter packet is not the requested one, and a late one has not left with the RESP.
            let is_pair = bytes >= FULL_PACKET_BYTES && now.saturating_since(resp).as_secs_f64() <= patience;
            return is_pair.then(|| Finding::Estimate(self.of_pair(now, resp, bytes)));
        }
        let Some(run) = self.run.as_mut().filter(|run| {
            let sent_after = stamp.seconds_above(run.stamp);
            (0.0..=self.parameters.run_spread).contains(&sent_after)
        }) else {
            self.run = Some(Run::begin(now, stamp));
            return None;
        };
        run.packets += 1.0;
        run.bytes += bytes;
        let run = *run;
        if self.state == Start::Told {
            return self.verify(now, stamp, run, told);
        }
        self.of_run(now, stamp, run).map(Finding::Estimate)
    }

    /// Compares the told rate with the distance of two packets of data. The second one crosses the link after the first, so
    /// that the link carries it in this time or in less, whatever the distance at the sender. Two packets come too close
    /// also where a link layer held the first one, so that they only give a reason for a train.
    fn doubt(&mut self, now: Timestamp, stamp: Stamp, bytes: f64, told: f64) -> Option<Finding> {
        let parameters = self.parameters;
        let before = self.run.replace(Run::begin(now, stamp))?;
        let dispersion = seconds_between(before.at, now).max(parameters.least_dispersion);
        let is_in_order = stamp.seconds_above(before.stamp) >= 0.0;
        let rate = bytes / dispersion;
        if bytes < FULL_PACKET_BYTES || !is_in_order || rate <= parameters.refuted_factor * told {
            return None;
        }
        self.doubted = Some(told);
        let assumed = rate.min(parameters.doubted_factor * told);
        let packets = (parameters.train_time * assumed / FULL_PACKET_BYTES)
            .clamp(parameters.run_packets, parameters.train_most);
        Some(Finding::Doubt(whole_packets(packets)))
    }

    /// Compares the told rate with the train that was requested to verify it.
    fn verify(&mut self, now: Timestamp, stamp: Stamp, run: Run, told: f64) -> Option<Finding> {
        let parameters = self.parameters;
        // A lost packet must not make the train useless.
        if run.packets < (parameters.verified_share * self.requested).max(PAIR_PACKETS) {
            return None;
        }
        self.requested = 0.0;
        let told = self.doubted.take().unwrap_or(told);
        let (state, estimate) = (self.state, self.of_run_if(now, stamp, run, true)?);
        let agrees = (told / parameters.refuted_factor..=told * parameters.refuted_factor)
            .contains(&estimate.window_rate);
        // The shortest dispersion makes an estimate too low: it refutes only a lower rate.
        let is_open = estimate.is_bound && estimate.window_rate <= told * parameters.refuted_factor;
        if !is_open && !agrees {
            return Some(Finding::Estimate(estimate));
        }
        self.state = state;
        let train = estimate.train.filter(|_| is_open)?;
        Some(Finding::NeedsTrain(train))
    }

    /// First estimate, from the packet behind the RESP.
    fn of_pair(&mut self, now: Timestamp, resp: Timestamp, bytes: f64) -> Estimate {
        let parameters = self.parameters;
        let dispersion = seconds_between(resp, now);
        let rate = bytes / dispersion.max(parameters.least_dispersion);
        let train = self.train_at(rate);
        self.state = Start::Steady;
        Estimate {
            capacity: parameters.pair_share * rate,
            window_rate: rate,
            is_bound: dispersion < parameters.least_dispersion,
            train,
            is_first: true,
        }
    }

    /// Returns true if the told rate is not higher than the shortest dispersion can show.
    pub(super) const fn can_verify(&self, told: f64) -> bool {
        let parameters = self.parameters;
        told < parameters.train_most * FULL_PACKET_BYTES / parameters.least_dispersion
    }

    /// Returns true if a pair takes at most as long as a train may: on slower links it would delay a page that is requested
    /// meanwhile more than a wrong rate is likely to.
    pub(super) const fn verifies_quickly(&self, told: f64) -> bool {
        self.parameters.train_time * told >= PAIR_PACKETS * FULL_PACKET_BYTES
    }

    /// Number of packets of a train that improves a first estimate.
    fn train_at(&self, rate: f64) -> Option<u8> {
        let parameters = self.parameters;
        let packets = (parameters.train_time * rate / FULL_PACKET_BYTES).min(parameters.train_most);
        (packets >= parameters.train_least).then(|| whole_packets(packets))
    }

    /// Estimate from a run, each time that the run is twice as long as the last one that counted, and at the end of a
    /// train.
    fn of_run(&mut self, now: Timestamp, stamp: Stamp, run: Run) -> Option<Estimate> {
        let is_train_complete = self.requested > self.counted && run.packets >= self.requested;
        let is_longer = run.packets >= self.parameters.run_packets.max(2.0 * self.counted);
        self.of_run_if(now, stamp, run, is_longer || is_train_complete)
    }

    /// Estimate from a run that `is_due`, unless the sender has spaced its packets.
    fn of_run_if(&mut self, now: Timestamp, stamp: Stamp, run: Run, is_due: bool) -> Option<Estimate> {
        let parameters = self.parameters;
        let measured = seconds_between(run.at, now);
        let dispersion = measured.max(parameters.least_dispersion);
        let is_together = stamp.seconds_above(run.stamp) <= MOST_SENDING_SHARE * dispersion;
        if !is_due || !is_together {
            return None;
        }
        let is_first = self.counted < 1.0 && self.state != Start::Steady;
        let is_pair = run.packets < parameters.train_least;
        let share = if is_pair {
            parameters.pair_share
        } else {
            parameters.train_share
        };
        self.counted = run.packets;
        self.state = Start::Steady;
        let rate = run.bytes / dispersion;
        Some(Estimate {
            capacity: share * rate,
            window_rate: if is_pair { rate } else { share * rate },
            is_bound: measured < parameters.least_dispersion,
            train: self.train_at(rate).filter(|_| is_pair),
            is_first,
        })
    }
}

/// What a gateway sends to an unknown link before the first report: a burst, and what follows at a multiple of the uplink's
/// rate.
#[derive(Clone, Copy, Debug)]
pub struct FirstFlight {
    /// Rate of the agent's uplink, at most that of a full packet in the shortest dispersion that counts.
    pub uplink: ByteRate,
    /// Bytes that are sent back to back, by which the agent measures the link.
    pub burst: ByteCount,
    /// Bytes that follow the burst.
    pub paced: ByteCount,
    /// Their rate.
    pub rate: ByteRate,
}

impl FirstFlight {
    /// The first flight if the packet behind the INIT arrived `dispersion` after it.
    pub fn new(parameters: &ProbingParameters, dispersion: Duration) -> Self {
        let uplink = FULL_PACKET_BYTES / dispersion.as_secs_f64().max(parameters.least_dispersion);
        let burst = (parameters.flight_time * uplink).min(parameters.flight_most * FULL_PACKET_BYTES);
        Self {
            uplink: ByteRate::new(uplink),
            burst: as_count(burst),
            paced: as_count(parameters.paced_time * parameters.paced_gain * uplink),
            rate: ByteRate::new(parameters.paced_gain * uplink),
        }
    }

    /// Size of the whole flight.
    pub const fn bytes(&self) -> u64 {
        self.burst.bytes() + self.paced.bytes()
    }
}

fn seconds_between(first: Timestamp, last: Timestamp) -> f64 {
    last.saturating_since(first).as_secs_f64()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most 32, and `as` saturates"
)]
fn whole_packets(packets: f64) -> u8 {
    (packets as u8).clamp(*TRAIN_PACKETS.start(), *TRAIN_PACKETS.end())
}

#[cfg(test)]
mod tests;
