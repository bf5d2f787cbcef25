//! Estimates of the path, from which the window is computed (congestion.md sections 1, 3 to 5).
use std::time::Duration;

use longhaul_types::{BitRate, LinkProfile, Timestamp};

use super::{Controller, PacketSample, Phase};
use crate::congestion::{
    CongestionParameters, FULL_PACKET_BYTES,
    byte_rate::{LEAST_RATE, as_bytes},
    delay::DelayMeter,
    feedback_seconds,
    loop_delay::LoopDelayMeter,
    loss::LossMeter,
    loss_burst::{Arrivals, BurstFilter},
    rate::RateMeter,
};

/// Estimates of one path.
#[derive(Clone, Debug)]
pub(super) struct PathEstimates {
    parameters: &'static CongestionParameters,
    /// The profile's rate of the feedback's direction.
    reverse: Option<BitRate>,
    /// m: size of the largest packet received, at least 1,280.
    pub(super) full_packet: f64,
    /// R: smallest round-trip time.
    pub(super) rtt: f64,
    pub(super) rate: RateMeter,
    pub(super) delay: DelayMeter,
    pub(super) loss: LossMeter,
    bursts: BurstFilter,
    pub(super) loop_delay: LoopDelayMeter,
}

impl PathEstimates {
    /// Estimates before the first packet; `capacity` is the first C in byte/s.
    pub(super) fn new(
        parameters: &'static CongestionParameters,
        profile: Option<&LinkProfile>,
        capacity: f64,
        reverse: Option<BitRate>,
    ) -> Self {
        Self {
            parameters,
            reverse,
            full_packet: FULL_PACKET_BYTES,
            rtt: profile.map_or(parameters.start.unknown_rtt, |profile| {
                profile.rtt.as_secs_f64().min(parameters.path.longest_rtt)
            }),
            rate: RateMeter::new(&parameters.rate, capacity),
            delay: DelayMeter::new(parameters),
            loss: LossMeter::new(parameters),
            bursts: BurstFilter::new(&parameters.burst),
            loop_delay: LoopDelayMeter::new(&parameters.late_feedback),
        }
    }

    /// Discards all measurements after a network change, except the capacity and the round-trip time.
    pub(super) fn restart(&mut self, parameters: &'static CongestionParameters) {
        self.full_packet = FULL_PACKET_BYTES;
        self.rate = RateMeter::new(&parameters.rate, self.rate.capacity);
        self.delay = DelayMeter::new(parameters);
        self.loss = LossMeter::new(parameters);
        self.bursts = BurstFilter::new(&parameters.burst);
        self.loop_delay = LoopDelayMeter::new(&parameters.late_feedback);
    }

    /// The profile's rate of the feedback's direction.
    pub(super) const fn reverse(&self) -> Option<BitRate> {
        self.reverse
    }

    pub(super) fn set_rtt(&mut self, rtt: Duration) {
        let path = &self.parameters.path;
        self.rtt = rtt.as_secs_f64().clamp(path.least_rtt, path.longest_rtt);
    }

    /// F: feedback interval.
    pub(super) fn feedback_interval(&self) -> Duration {
        let interval = feedback_seconds(&self.parameters.feedback, self.rate.max(), self.rtt, self.reverse);
        Duration::from_secs_f64(interval)
    }

    /// s: transmission time of a full packet at the estimated capacity.
    pub(super) fn packet_time(&self) -> Duration {
        let seconds = self.full_packet / self.rate.capacity.max(LEAST_RATE);
        Duration::from_secs_f64(seconds.min(self.parameters.path.longest_packet_time))
    }

    /// Control loop of an empty link without u: R + F + s.
    pub(super) fn empty_loop(&self) -> f64 {
        self.rtt + self.feedback_interval().as_secs_f64() + self.packet_time().as_secs_f64()
    }

    /// E: control loop without the queue in the direction of the data.
    pub(super) fn control_loop(&self) -> f64 {
        self.empty_loop() + self.loop_delay.excess()
    }

    /// Window of rmax in seconds.
    pub(super) fn rate_memory(&self) -> f64 {
        let parameters = &self.parameters.rate;
        (parameters.memory_rtts * self.rtt).max(parameters.memory_least)
            + parameters.memory_late * self.loop_delay.excess()
    }

    /// Possible error of r in byte/s: its interval may contain one packet too many, which in a long loop would
    /// be a long queue (section 3.1).
    pub(super) fn rate_error(&self) -> f64 {
        self.full_packet / self.rate.interval(self.rtt)
    }

    /// Possible error of a product of a rate and u, in bytes.
    pub(super) fn late_bytes_error(&self) -> f64 {
        self.rate_error() * self.loop_delay.excess()
    }

    /// Delay of the control loop, if the packet is the first one that only the newest feedback permitted.
    #[expect(clippy::cast_precision_loss, reason = "packets are few")]
    pub(super) fn loop_delay_sample(
        &mut self,
        sample: &PacketSample,
        backlog_since: Option<Timestamp>,
    ) -> Option<f64> {
        let skipped = sample.skipped?;
        let counted = (skipped as f64).min(self.parameters.late_feedback.skipped_most);
        let bytes = as_bytes(sample.size) + counted * self.full_packet;
        let delay = self.loop_delay.on_newest(sample.now, bytes, backlog_since);
        // If numbers before this packet are missing, the first permitted packet may be among them.
        delay.filter(|_| skipped == 0)
    }

    /// Returns true if the sender only waited for feedback: no packet number is missing and the packet was
    /// not held back. With many losses, the sender may have waited for the detection of a loss instead.
    pub(super) fn sender_waited_for_feedback(&self, sample: &PacketSample) -> bool {
        let held = self.delay.above_base(sample.now, sample.stamp, sample.size);
        sample.skipped == Some(0) && held < self.parameters.silence.held_least && self.loss.is_quiet()
    }
}

impl Controller {
    /// Measures delay, rate and losses at a packet.
    #[expect(clippy::cast_precision_loss, reason = "packets are few")]
    pub(super) fn measure(&mut self, sample: &PacketSample, rate_memory: f64) {
        let now = sample.now;
        let size = as_bytes(sample.size);
        let since_resume = self.sender.since_resume(now);
        let newest = since_resume.map_or(f64::INFINITY, |since| {
            since + self.parameters.silence.resume_slack
        });
        let path = &mut self.path;
        path.full_packet = path.full_packet.max(size);
        let byte_time = match self.window.phase {
            Phase::SlowStart => 0.0,
            Phase::CongestionAvoidance => 1.0 / path.rate.capacity.max(path.full_packet),
        };
        path.delay.set_ordered(sample.is_ordered);
        let base_rise = path
            .delay
            .on_packet(now, sample.stamp, size, byte_time, path.rtt, newest);
        path.loss.on_base_rise(base_rise);
        path.rate.on_arrival(now, size, path.rtt, rate_memory);
        let lost = path.bursts.on_arrival(&Arrivals {
            now,
            skipped: sample.skipped,
            lost: sample.lost as f64,
            packet_time: path.packet_time().as_secs_f64(),
        });
        // Losses of an outage say nothing about the queue.
        let loss = &self.parameters.loss;
        let is_after_outage =
            since_resume.is_some_and(|since| since < loss.outage_rtts * path.rtt + loss.outage_time);
        let lost = if is_after_outage { 0.0 } else { lost };
        path.loss
            .on_packets(now, sample.received as f64, lost, path.delay.queue());
    }

    /// Processes a sample of the loop delay, after the queueing delay of its packet was measured.
    pub(super) fn measure_loop(&mut self, now: Timestamp, loop_delay: f64) {
        let without_queue = loop_delay - self.path.delay.waited;
        if without_queue < self.parameters.late_feedback.clock_jump * self.path.rtt {
            self.path.delay.forget_lasting();
            self.forget_late_feedback();
            self.path.loop_delay.restart();
            return;
        }
        let interval = self.feedback_interval().as_secs_f64();
        let target = self.target(now, self.path.delay.queue());
        let is_full = self.path.delay.waited > target || !self.path.loss.is_quiet();
        let least = without_queue.max(self.path.rtt);
        self.path.loop_delay.on_sample(now, least, interval, is_full);
    }

    /// Discards u after W was reduced in another way or the measured loops became invalid.
    pub(super) fn forget_late_feedback(&mut self) {
        self.path.loop_delay.forget();
        self.window.late_feedback = 0.0;
    }
}
