//! Congestion controller of the receiver: the window W and the grants (congestion.md sections 3 to 9).
//!
//! A packet passes these steps: silence before it ([`silence`]), measurements ([`estimates`]), and, once the time
//! for it has come, one update of the window ([`update`]): losses ([`losses`]), then slow start
//! ([`slow_start`]), or a cut ([`cut`]) or growth ([`growth`], [`ramp`]). On an unknown link the estimates of
//! [`unknown_link`] replace slow start.
mod cut;
mod estimates;
mod growth;
mod loss_bounds;
mod losses;
mod ramp;
mod silence;
mod slow_start;
mod target;
mod unknown_link;
mod update;

use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, LinkProfile, Timestamp};

use self::{cut::CutSeries, estimates::PathEstimates, loss_bounds::LossBounds, ramp::Ramp};
use super::{
    CongestionParameters, InitialGrant,
    byte_rate::{ByteRate, as_bytes, as_count},
    start::{RateProbe, Start},
};
use crate::wire::{Activity, Stamp};
pub use unknown_link::Estimated;

/// Longest queueing delay of a single packet that is reported, in seconds: a stamp from before a jump of a clock
/// can claim more.
const LONGEST_REPORTED_QUEUE: f64 = 60.0;
/// Largest jitter that is reported, in seconds.
const LARGEST_REPORTED_JITTER: f64 = 1.0;

/// Data of one received packet for the controller.
#[derive(Clone, Copy, Debug)]
pub struct PacketSample {
    /// Arrival time.
    pub now: Timestamp,
    /// Size with IP and UDP headers.
    pub size: ByteCount,
    /// Stamp of the packet: the sender's clock.
    pub stamp: Stamp,
    /// Activity of the sender; `None` for a packet that arrived after a higher-numbered one, because its flag
    /// is outdated.
    pub activity: Option<Activity>,
    /// Missing packet numbers between the previous highest number and this one; `None` for a packet that
    /// arrived after a higher-numbered one.
    pub skipped: Option<u64>,
    /// Packets of all kinds received since the last sample.
    pub received: u64,
    /// Packets declared lost since the last sample.
    pub lost: u64,
    /// Smallest round-trip time.
    pub min_rtt: Duration,
    /// True if the packet came over an ordered path (TCP), which may have kept it waiting.
    pub is_ordered: bool,
}

/// What a receiver grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowPolicy {
    /// The window that the measurements suggest.
    #[default]
    Measured,
    /// Always the window and the rate of the start (congestion.md section 2).
    Initial,
}

/// Grant to the sender of data (transport.md section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Bytes that the sender may have outstanding beyond the largest reported packet.
    pub credit: ByteCount,
    /// Pacing rate.
    pub rate: BitRate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The link is unknown and W doubles every round (section 2).
    SlowStart,
    /// Cuts and growth (section 6).
    CongestionAvoidance,
}

/// W and the times that its next change awaits.
#[derive(Clone, Copy, Debug)]
struct CongestionWindow {
    /// W.
    bytes: f64,
    /// W at the start.
    initial: f64,
    phase: Phase,
    /// No growth and no ordinary cut before this time: the last change has not shown its effect.
    hold: Timestamp,
    /// Time at which the data in flight beyond W has drained after a reduction; until then it can still raise the
    /// queue. No growth and no cut before it.
    drained: Timestamp,
    /// A packet that would have arrived at this time or later without a queue was sent under the reduced W.
    reduced_at_sender: Timestamp,
    updated_at: Timestamp,
    /// u at the last adjustment of W to it.
    late_feedback: f64,
}

impl CongestionWindow {
    /// Postpones growth and ordinary cuts until `time` at least.
    fn hold_until(&mut self, time: Timestamp) {
        self.hold = self.hold.max(time);
    }

    /// Permits growth and ordinary cuts from `time` on at the latest.
    fn hold_at_most_until(&mut self, time: Timestamp) {
        self.hold = self.hold.min(time);
        self.drained = self.drained.min(time);
    }

    /// Returns true if growth and ordinary cuts still wait for the effect of the last change.
    fn is_held(&self, now: Timestamp) -> bool {
        now <= self.hold.max(self.drained)
    }
}

/// Activity of the sender as its packets show it.
#[derive(Clone, Copy, Debug, Default)]
struct SenderActivity {
    arrived_at: Option<Timestamp>,
    /// Start of the current backlog.
    backlog_since: Option<Timestamp>,
    /// End of the last stall.
    resumed_at: Option<Timestamp>,
}

impl SenderActivity {
    const fn is_backlogged(&self) -> bool {
        self.backlog_since.is_some()
    }

    /// Duration of the current backlog in seconds.
    fn backlogged_for(&self, now: Timestamp) -> f64 {
        self.backlog_since
            .map_or(0.0, |since| now.saturating_since(since).as_secs_f64())
    }

    /// Time since the last stall in seconds.
    fn since_resume(&self, now: Timestamp) -> Option<f64> {
        self.resumed_at.map(|at| now.saturating_since(at).as_secs_f64())
    }
}

/// Congestion controller of one direction of incoming data.
#[derive(Clone, Debug)]
pub struct Controller {
    parameters: &'static CongestionParameters,
    path: PathEstimates,
    window: CongestionWindow,
    cuts: CutSeries,
    ramp: Ramp,
    /// Bounds of queue and window after losses.
    bounds: LossBounds,
    sender: SenderActivity,
    /// Measurement of an unknown link.
    probe: RateProbe,
    /// The only grant, if the policy is [`WindowPolicy::Initial`].
    fixed: Option<InitialGrant>,
}

impl Controller {
    /// Creates a controller before the first packet. `rate` is the profile's rate of the incoming direction,
    /// `reverse` that of the feedback's direction.
    pub fn new(
        parameters: &'static CongestionParameters,
        profile: Option<&LinkProfile>,
        rate: Option<BitRate>,
        reverse: Option<BitRate>,
    ) -> Self {
        let initial = InitialGrant::new(parameters, rate, profile, reverse);
        let capacity = rate.map_or(initial.rate, ByteRate::from).bytes_per_second();
        Self {
            parameters,
            path: PathEstimates::new(parameters, profile, capacity, reverse),
            window: CongestionWindow {
                bytes: initial.window,
                initial: initial.window,
                phase: if rate.is_some() {
                    Phase::CongestionAvoidance
                } else {
                    Phase::SlowStart
                },
                hold: Timestamp::ZERO,
                drained: Timestamp::ZERO,
                reduced_at_sender: Timestamp::ZERO,
                updated_at: Timestamp::ZERO,
                late_feedback: 0.0,
            },
            cuts: CutSeries::default(),
            ramp: Ramp::default(),
            bounds: LossBounds::default(),
            sender: SenderActivity::default(),
            probe: RateProbe::new(
                &parameters.probing,
                if rate.is_some() {
                    Start::Told
                } else {
                    Start::SlowStart
                },
            ),
            fixed: None,
        }
    }

    /// The same controller with this policy. `rate` and `reverse` are those of [`Controller::new`].
    #[must_use]
    pub(crate) fn with_policy(
        mut self,
        policy: WindowPolicy,
        profile: Option<&LinkProfile>,
        rate: Option<BitRate>,
        reverse: Option<BitRate>,
    ) -> Self {
        let initial = || InitialGrant::new(self.parameters, rate, profile, reverse);
        self.fixed = (policy == WindowPolicy::Initial).then(initial);
        self
    }

    /// Processes an eliciting packet.
    pub fn on_packet(&mut self, sample: &PacketSample) {
        let now = sample.now;
        self.path.set_rtt(sample.min_rtt);
        let loop_delay = self.path.loop_delay_sample(sample, self.sender.backlog_since);
        let was_waiting = self.path.sender_waited_for_feedback(sample);
        self.after_silence(now, was_waiting);
        let rate_memory = self.path.rate_memory();
        self.measure(sample, rate_memory);
        self.observe_drain(sample);
        if let Some(activity) = sample.activity {
            self.on_activity(now, activity);
        }
        if let Some(delay) = loop_delay.filter(|_| self.sender.resumed_at != Some(now)) {
            self.measure_loop(now, delay);
        }
        if self.window.phase == Phase::CongestionAvoidance {
            let backlogged_for = self.sender.backlogged_for(now);
            self.path.rate.learn(backlogged_for, rate_memory);
        }
        self.update_if_due(now);
        self.sender.arrived_at = Some(now);
    }

    /// Records a grant that was sent.
    pub fn on_granted(&mut self, now: Timestamp, grant: &Grant) {
        if self.window.phase == Phase::CongestionAvoidance {
            self.path.loop_delay.on_feedback(now, as_bytes(grant.credit));
        }
    }

    /// Records the activity flag of the sender's newest packet, which may carry only feedback.
    pub fn on_activity(&mut self, now: Timestamp, activity: Activity) {
        match activity {
            Activity::More => {
                self.sender.backlog_since.get_or_insert(now);
            }
            Activity::Idle => self.sender.backlog_since = None,
        }
    }

    /// Discards delays, rates and losses after a network change and reduces W to at most its initial value.
    pub fn on_path_change(&mut self) {
        self.window.bytes = self.window.bytes.min(self.window.initial);
        self.window.late_feedback = 0.0;
        self.path.restart(self.parameters);
        self.cuts = CutSeries::default();
        self.ramp = Ramp::default();
        self.bounds = LossBounds::default();
        self.sender.backlog_since = None;
    }

    /// Returns the current grant; `room` is the free space of the receive buffer (section 9).
    pub fn grant(&self, now: Timestamp, room: ByteCount) -> Grant {
        if let Some(initial) = self.fixed {
            return Grant {
                credit: initial.credit().min(room),
                rate: initial.rate.bit_rate(),
            };
        }
        let window = self.window.bytes;
        let control_loop = self.path.control_loop();
        let rate = match self.window.phase {
            Phase::SlowStart => window / control_loop,
            Phase::CongestionAvoidance => {
                let pacing = &self.parameters.pacing;
                let target = self.target(now, self.path.delay.queue());
                let late = self.path.loop_delay.excess();
                let by_window =
                    window / ((control_loop - late + pacing.queue_share * target) / pacing.gain + late);
                by_window.max((window / control_loop).min(pacing.capacity_margin * self.path.rate.capacity))
            }
        };
        Grant {
            credit: as_count(window).min(room),
            rate: ByteRate::new(rate).bit_rate(),
        }
    }

    /// F: feedback interval.
    pub fn feedback_interval(&self) -> Duration {
        self.path.feedback_interval()
    }

    /// s: transmission time of a full packet at the estimated capacity.
    pub fn packet_time(&self) -> Duration {
        self.path.packet_time()
    }

    /// Returns true if the sender is backlogged.
    pub const fn sender_has_backlog(&self) -> bool {
        self.sender.is_backlogged()
    }

    /// Returns true if losses bound W although no queue grows: a trial has shown that the sender causes them, or they were
    /// too heavy (section 7.1). A policer has this effect.
    pub const fn is_loss_limited(&self) -> bool {
        self.bounds.has_window()
    }

    /// W.
    pub const fn window(&self) -> ByteCount {
        as_count(self.window.bytes)
    }

    /// Estimated queueing delay q.
    pub fn queue(&self) -> Duration {
        Duration::from_secs_f64(self.path.delay.queue())
    }

    /// Queueing delay of a packet that arrives now.
    pub fn queue_of(&self, now: Timestamp, stamp: Stamp, size: ByteCount) -> Duration {
        let waited = self.path.delay.above_base(now, stamp, size);
        Duration::from_secs_f64(waited.min(LONGEST_REPORTED_QUEUE))
    }

    /// rmax: maximum delivery rate.
    pub fn rate(&self) -> BitRate {
        ByteRate::new(self.path.rate.max()).bit_rate()
    }

    /// rmax, once it rests on a measurement.
    pub fn measured_rate(&self) -> Option<BitRate> {
        let rate = &self.path.rate;
        rate.is_measured().then(|| ByteRate::new(rate.max()).bit_rate())
    }

    /// C: estimated capacity.
    pub const fn capacity(&self) -> ByteRate {
        ByteRate::new(self.path.rate.capacity)
    }

    /// Interarrival jitter (RFC 3550).
    pub fn jitter(&self) -> Duration {
        Duration::from_secs_f64(self.path.delay.jitter.clamp(0.0, LARGEST_REPORTED_JITTER))
    }
}
