//! Start on an unknown link: the window follows the estimate, until data refutes it (congestion.md section 2.1).
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, Timestamp};

use super::{Controller, Phase, update::Update};
use crate::{
    congestion::{
        ByteRate, FULL_PACKET_BYTES,
        byte_rate::as_bytes,
        feedback_seconds,
        start::{Estimate, Finding, Start},
    },
    wire::Stamp,
};

/// Round-trip times behind the RESP within which the pair arrives: on the slowest links a packet takes more than one.
const PAIR_PATIENCE: f64 = 2.0;

/// Result of a measurement: a new estimate is in force, of which the peer should hear, or a train is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimated {
    /// Number of packets of a train that would improve the estimate.
    pub train: Option<u8>,
    /// True for the first estimate of the session.
    pub is_first: bool,
    /// True if data contradicts the told rate, so that the train is requested also while data is loaded, which fills it.
    pub is_doubt: bool,
}

/// Initial congestion window of TCP in packets (RFC 6928).
const TCP_INITIAL_PACKETS: f64 = 10.0;
/// Factor by which slow start of TCP grows in the next round trip.
const OPENED: f64 = 2.0;
/// Maximum time in seconds that a train is given at the told rate.
const LONGEST_TRAIN: f64 = 4.0;

impl Estimated {
    /// A train of `packets` is needed, and there is no estimate.
    const fn without(packets: u8, is_doubt: bool) -> Self {
        Self {
            train: Some(packets),
            is_first: false,
            is_doubt,
        }
    }
}

impl Controller {
    /// Begins to measure an unknown link: INIT asks for a packet behind the RESP.
    pub fn probe_rate(&mut self) {
        if self.probe.state == Start::SlowStart {
            self.probe.state = Start::Pair;
        }
    }

    /// State of the start.
    pub const fn start(&self) -> Start {
        self.probe.state
    }

    /// C once it was told or estimated; `None` during slow start and before the first estimate.
    pub fn estimated_capacity(&self) -> Option<BitRate> {
        let is_known = self.window.phase == Phase::CongestionAvoidance || self.probe.estimate.is_some();
        is_known.then(|| ByteRate::new(self.path.rate.capacity).bit_rate())
    }

    /// Records the RESP; `arrived` is `None` if packets behind it arrived earlier.
    pub fn on_resp(&mut self, arrived: Option<Timestamp>, is_supported: bool) {
        self.probe.on_resp(arrived, is_supported);
    }

    /// Returns true if a train can verify the told rate.
    pub fn can_verify(&self) -> bool {
        self.probe.can_verify(self.path.rate.capacity)
    }

    /// Returns true if a pair verifies the told rate in so short a time that a page may wait for it.
    pub fn verifies_quickly(&self) -> bool {
        self.probe.verifies_quickly(self.path.rate.capacity)
    }

    /// Looks for data that contradicts the told rate, until a train is requested.
    pub const fn watch_told_rate(&mut self) {
        self.probe.watch();
    }

    /// Records that a train was requested.
    pub fn on_train_requested(&mut self, packets: u8) {
        self.probe.on_train_requested(packets);
    }

    /// Records that a train of `packets` was requested to open the window of a TCP connection below the carrier.
    pub fn on_warm_up(&mut self, packets: u32) {
        self.probe.on_warm_up(packets);
    }

    /// Raises the window of a lower bound after an ordered path has `carried` these bytes of trains. Its TCP connection has
    /// grown its own window by them, doubles it in the next round trip, and bounds what is in flight. The window is at most
    /// twice what the link was seen to deliver in a control loop. Returns true if the peer should hear of it.
    pub fn open_window(&mut self, carried: ByteCount) -> bool {
        let delivered = self.path.rate.max() * self.path.control_loop();
        let window = OPENED * as_bytes(carried).min(delivered);
        let opens =
            self.window.phase == Phase::SlowStart && self.probe.is_bound() && window > self.window.bytes;
        if opens {
            self.window.bytes = window;
        }
        opens
    }

    /// Returns true if the rate in force is a lower bound: the link may be faster.
    pub fn is_rate_bound(&self) -> bool {
        self.probe.is_bound()
    }

    /// Records a packet of any content, after its frames were processed; `rtt` is the smallest round-trip time. If a TCP
    /// connection spaces the packets (`is_over_tcp`), an estimate that is not below its initial window for each round trip
    /// is a lower bound: it may be the rate of slow start instead of the link's.
    pub fn on_arrival(
        &mut self,
        now: Timestamp,
        stamp: Stamp,
        size: ByteCount,
        rtt: Duration,
        is_over_tcp: bool,
    ) -> Option<Estimated> {
        if self.probe.data_since.is_none() && self.sender.is_backlogged() {
            self.probe.data_since = Some(now);
        }
        if !self.may_estimate(now) {
            return None;
        }
        let patience = PAIR_PATIENCE * rtt.as_secs_f64();
        let told = self.path.rate.capacity;
        let estimate = match self.probe.on_arrival(now, stamp, size, patience, told)? {
            Finding::Estimate(mut estimate) => {
                let flight = estimate.window_rate * rtt.as_secs_f64();
                estimate.is_bound |= is_over_tcp && flight >= TCP_INITIAL_PACKETS * FULL_PACKET_BYTES;
                if is_over_tcp
                    && self
                        .probe
                        .estimate
                        .is_some_and(|earlier| estimate.is_slower(earlier))
                {
                    return None;
                }
                estimate
            }
            Finding::NeedsTrain(packets) => return Some(Estimated::without(packets, false)),
            Finding::Doubt(packets) => {
                // The train is sent in any case: data fills it.
                let bytes = f64::from(packets) * self.path.full_packet;
                self.window.bytes += bytes;
                // The time in which runs are measured begins behind the train.
                let time = (bytes / told).min(LONGEST_TRAIN);
                self.probe.data_since = Some(now + Duration::from_secs_f64(time));
                return Some(Estimated::without(packets, true));
            }
        };
        self.path.set_rtt(rtt);
        self.adopt(now, estimate);
        Some(Estimated {
            train: estimate.train,
            is_first: estimate.is_first,
            is_doubt: false,
        })
    }

    /// Adjusts the window to a sample of the round-trip time; returns true if the peer should hear of it.
    pub fn on_rtt(&mut self, now: Timestamp, rtt: Duration) -> bool {
        let Some(estimate) = self.probe.estimate.filter(|_| self.probe.state == Start::Steady) else {
            return false;
        };
        let before = self.window.bytes;
        if self.probe.data_since.is_none() {
            self.path.set_rtt(rtt);
            self.adopt(now, estimate);
        } else if !estimate.is_bound && now < self.probe.effective_at && rtt.as_secs_f64() < self.path.rtt {
            self.path.set_rtt(rtt);
            self.shorten(now, estimate);
        }
        (self.window.bytes - before).abs() > self.path.full_packet
    }

    /// Reduces the window to a smaller round-trip time while data arrives. The sample of the INIT contains what the link
    /// did before: a queue of others, or an outage. Queue and losses would otherwise refute the window only after that
    /// time.
    fn shorten(&mut self, now: Timestamp, estimate: Estimate) {
        let (before, held) = (self.window.bytes, self.window.hold);
        self.adopt(now, estimate);
        self.window.bytes = self.window.bytes.min(before);
        self.window.initial = self.window.bytes;
        self.window.hold = held;
        self.window.hold_at_most_until(self.probe.effective_at);
    }

    /// Returns true while runs of packets are measured: until the loop of the first data and some R more have passed.
    fn may_estimate(&self, now: Timestamp) -> bool {
        let time = self.path.empty_loop() + self.parameters.probing.retreat_rtts * self.path.rtt;
        self.probe
            .data_since
            .is_none_or(|since| now.saturating_since(since).as_secs_f64() <= time)
    }

    /// Sets C and the window of congestion.md section 2 for it. The packets of the measurement are a queue of this
    /// side's own making, so neither a cut nor growth follows before they have left. If the shortest dispersion limits the
    /// estimate, slow start goes on from it.
    fn adopt(&mut self, now: Timestamp, estimate: Estimate) {
        let capacity = estimate.capacity;
        self.probe.estimate = Some(estimate);
        let path = &mut self.path;
        path.rate.adopt(capacity, self.probe.data_since.is_none());
        let interval = feedback_seconds(&self.parameters.feedback, capacity, path.rtt, path.reverse());
        let standing = self.parameters.start.standing_packets;
        let control_loop = path.rtt + interval;
        self.window.bytes = estimate.window_rate * control_loop + (1.0 + standing) * path.full_packet;
        self.window.initial = self.window.bytes;
        if !estimate.is_bound {
            self.window.phase = Phase::CongestionAvoidance;
        }
        let effect = control_loop + path.delay.queue();
        self.probe.effective_at = now + Duration::from_secs_f64(effect);
        self.window.hold_until(self.probe.effective_at);
        self.path.loss.expect_unmeasured_until(self.probe.effective_at);
    }

    /// Returns true if the first data refutes the estimate: queue or losses are far above what the law aims at.
    pub(super) fn refutes_estimate(&self, update: &Update, is_heavy: bool) -> bool {
        let parameters = &self.parameters.probing;
        let is_queue = update.queue > parameters.retreat_queue * update.target;
        let is_loss = is_heavy && self.path.loss.last_ratio() > parameters.retreat_loss;
        self.probe.state == Start::Steady
            && self.probe.data_since.is_some()
            && !self.window.is_held(update.now)
            && (self.may_estimate(update.now) || self.has_just_had_effect(update.now))
            && (is_queue || is_loss)
    }

    /// Returns true in the first R after the window of the estimate has had its effect.
    fn has_just_had_effect(&self, now: Timestamp) -> bool {
        let time = self.parameters.probing.retreat_rtts * self.path.rtt;
        now.saturating_since(self.probe.effective_at).as_secs_f64() <= time
    }

    /// Replaces the estimate by the delivery rate (RETREAT of congestion.md section 2.1).
    pub(super) fn retreat(&mut self, update: &Update) {
        let before = self.window.bytes;
        let rate = self.path.rate.current;
        let window = rate * (update.control_loop + self.parameters.start.kept_queue * update.target);
        self.window.bytes = before.min(window.max(self.least_window()));
        self.path.rate.capacity = rate.max(self.least_window() / update.control_loop);
        self.probe.state = Start::Retreat;
        self.drain(update.now, before, update.round);
    }
}
