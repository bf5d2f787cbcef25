//! Congestion controller of the receiver: the window W and the grants (congestion.md sections 3 to 9). Variables
//! have the names of congestion.md.
mod losses;

use std::time::Duration;

use longhaul_types::{BitRate, LinkProfile, Timestamp};

use self::losses::{LossCap, relaxed_queue};
use super::{
    FULL_PACKET, delay::DelayMeter, feedback_interval, initial_grant, loop_time::LoopMeter, loss::LossMeter,
    rate::RateMeter,
};
use crate::wire::{Activity, Stamp};

/// Least base of the target queueing delay in seconds: programs on busy machines are late by as much.
const LEAST_TARGET: f64 = 0.01;
/// Factor of the pacing rate above W/(E + Qh/2), so that the window and not the pacer limits a bulk transfer.
const PACING_GAIN: f64 = 1.25;
/// Least pacing rate, as a share of the estimated capacity C.
const CAPACITY_MARGIN: f64 = 1.05;

/// Queueing delay in seconds below which an outage did not hold a packet back.
const NOT_HELD: f64 = 0.5;
/// Maximum number of missing packet numbers that count as full packets for the loop time.
const MOST_SKIPPED: u64 = 1000;
/// Share of the loop above which late feedback (u) prevents the ramp: r then says little about W.
const LATE: f64 = 0.1;

/// Seconds without a ramp after heavy losses: the first session to ramp would take all of a crowded link.
const CROWDED: f64 = 10.0;

/// Number of packets in W below which W grows more slowly as the queue nears its target.
const FEW_PACKETS: f64 = 32.0;

/// Data of one received packet for the controller.
#[derive(Clone, Copy, Debug)]
pub struct PacketSample {
    /// Arrival time.
    pub now: Timestamp,
    /// Size with IP and UDP headers.
    pub size: u64,
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
}

/// Grant to the sender of data (transport.md section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Bytes that the sender may have outstanding beyond the largest reported packet.
    pub credit: u64,
    /// Pacing rate.
    pub rate: BitRate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Slow start: the link is unknown and W doubles every round.
    SlowStart,
    /// Congestion avoidance: cuts and growth of congestion.md section 6.
    CongestionAvoidance,
}

/// State of the ramp: fast growth while the queue stays empty and the delivery rate follows.
#[derive(Clone, Copy, Debug, Default)]
struct Ramp {
    /// Time since which the queue is nearly empty.
    low_since: Option<Timestamp>,
    /// Current round of fast growth, or the completed round whose effect on r is awaited.
    check: Option<Check>,
}

/// A round of fast growth and its effect: r follows W one loop later.
#[derive(Clone, Copy, Debug)]
struct Check {
    /// Start of the round; `window` and `rate` are W and r at that time.
    at: Timestamp,
    window: f64,
    rate: f64,
    /// End of the round and the relative growth of W in it, while r is expected to follow.
    waits: Option<(Timestamp, f64)>,
}

/// The last cut.
#[derive(Clone, Copy, Debug, Default)]
struct Cut {
    at: Timestamp,
    queue: f64,
    /// Time at which the data in flight beyond the new window has drained; until then it can still raise the
    /// queue.
    drained: Timestamp,
    /// Smallest queueing delay since the cut.
    least_since: f64,
    /// Number of successive cuts that did not reduce the queue.
    nofall: u32,
    /// W at the first cut of this series.
    series_window: f64,
}

/// Congestion controller of one direction of incoming data.
#[derive(Clone, Debug)]
pub struct Controller {
    reverse: Option<BitRate>,
    /// m: size of the largest packet received, at least 1,280.
    packet: f64,
    window: f64,
    start_window: f64,
    phase: Phase,
    rate: RateMeter,
    delay: DelayMeter,
    loss: LossMeter,
    loop_time: LoopMeter,
    /// u at the last adjustment of W to it.
    late: f64,
    rtt: f64,
    hold: Timestamp,
    cut: Cut,
    ramp: Ramp,
    /// Upper bound for the target queueing delay after a shallow buffer was found, and the time of this
    /// finding.
    queue_cap: Option<(f64, Timestamp)>,
    /// Upper bound for W after losses.
    loss_cap: Option<LossCap>,
    stepped_at: Timestamp,
    arrived_at: Option<Timestamp>,
    backlog_since: Option<Timestamp>,
    resumed_at: Option<Timestamp>,
}

impl Controller {
    /// Creates a controller before the first packet. `rate` is the profile's rate of the incoming direction,
    /// `reverse` that of the feedback's direction.
    pub fn new(profile: Option<&LinkProfile>, rate: Option<BitRate>, reverse: Option<BitRate>) -> Self {
        let (window, pace) = initial_grant(rate, profile, reverse);
        let rtt = profile.map_or(0.3, |profile| profile.rtt.as_secs_f64().min(10.0));
        Self {
            reverse,
            packet: FULL_PACKET,
            window,
            start_window: window,
            phase: if rate.is_some() {
                Phase::CongestionAvoidance
            } else {
                Phase::SlowStart
            },
            rate: RateMeter::new(rate.map_or(pace, BitRate::bytes_per_second)),
            delay: DelayMeter::default(),
            loss: LossMeter::default(),
            loop_time: LoopMeter::default(),
            late: 0.0,
            rtt,
            hold: Timestamp::ZERO,
            cut: Cut::default(),
            ramp: Ramp::default(),
            queue_cap: None,
            loss_cap: None,
            stepped_at: Timestamp::ZERO,
            arrived_at: None,
            backlog_since: None,
            resumed_at: None,
        }
    }

    /// F: feedback interval.
    pub fn feedback_interval(&self) -> Duration {
        Duration::from_secs_f64(feedback_interval(self.rate.max(), self.rtt, self.reverse))
    }

    /// s: transmission time of a full packet at the estimated capacity.
    pub fn packet_time(&self) -> Duration {
        Duration::from_secs_f64((self.packet / self.rate.capacity.max(1.0)).min(2.0))
    }

    /// Control loop of an empty link without u: R + F + s.
    fn empty_loop(&self) -> f64 {
        self.rtt + self.feedback_interval().as_secs_f64() + self.packet_time().as_secs_f64()
    }

    /// Window of rmax in seconds. It includes 2 u because a sender that waits for late feedback reaches the
    /// link's rate only once per loop.
    fn rate_memory(&self) -> f64 {
        (4.0 * self.rtt).max(1.05) + 2.0 * self.loop_time.excess()
    }

    /// Possible error of a product of a rate and u, in bytes: the interval of the rate may contain one packet
    /// too many, which in a long loop would be a long queue (congestion.md section 3.1).
    fn doubtful(&self) -> f64 {
        self.packet / self.rate.window(self.rtt) * self.loop_time.excess()
    }

    /// E: control loop without the queue in the direction of the data.
    fn control_loop(&self) -> f64 {
        self.empty_loop() + self.loop_time.excess()
    }

    /// Qh: target queueing delay in seconds (congestion.md section 5).
    fn target(&self, now: Timestamp, q: f64) -> f64 {
        let cv = self.rate.variability();
        let s = self.packet * (self.control_loop() + q) / self.window;
        let n = self.window / self.packet;
        let base = (0.8 * self.rtt).clamp(LEAST_TARGET, 0.06).max(0.25 * self.rtt) + (0.2 * cv).min(0.08);
        let target = (base * (100.0 / n).powf(0.17).clamp(0.6, 2.0)).min(0.6);
        let target = target
            .max(((5.0 - 6.0 * cv) * s).min(0.7).max(2.5 * s))
            .min((8.0 * s).max(0.6));
        match self.queue_cap {
            Some((cap, since)) => {
                let cap = cap * relaxed_queue(now, since);
                target.min(cap.max(2.5 * s))
            }
            None => target,
        }
    }

    /// Processes an eliciting packet.
    pub fn on_packet(&mut self, sample: &PacketSample) {
        let now = sample.now;
        self.rtt = sample.min_rtt.as_secs_f64().clamp(0.001, 10.0);
        let loop_time = self.loop_time(sample);
        self.after_silence(now, self.waited_for_feedback(sample));
        let newest = self
            .resumed_at
            .map_or(f64::INFINITY, |at| now.saturating_since(at).as_secs_f64() + 0.01);
        #[expect(clippy::cast_precision_loss, reason = "packets are small")]
        let (size, received, lost) = (sample.size as f64, sample.received as f64, sample.lost as f64);
        self.packet = self.packet.max(size);
        let byte_time = match self.phase {
            Phase::SlowStart => 0.0,
            Phase::CongestionAvoidance => 1.0 / self.rate.capacity.max(self.packet),
        };
        self.delay
            .on_packet(now, sample.stamp, size, byte_time, self.rtt, newest);
        let memory = self.rate_memory();
        self.rate.on_arrival(now, size, self.rtt, memory);
        // Losses of an outage say nothing about the queue.
        let after_outage = self
            .resumed_at
            .is_some_and(|at| now.saturating_since(at).as_secs_f64() < 2.0 * self.rtt + 0.2);
        let lost = if after_outage { 0.0 } else { lost };
        self.loss.on_packets(now, received, lost, self.delay.queue());
        if let Some(activity) = sample.activity {
            self.on_activity(now, activity);
        }
        if let Some(time) = loop_time.filter(|_| self.resumed_at != Some(now)) {
            self.measure_loop(now, time);
        }
        let backlog = self
            .backlog_since
            .map_or(0.0, |since| now.saturating_since(since).as_secs_f64());
        if self.phase == Phase::CongestionAvoidance {
            self.rate.learn(backlog, memory);
        }
        let interval = (self.rtt / 8.0).max(0.01);
        let passed = now.saturating_since(self.stepped_at).as_secs_f64();
        if passed >= interval {
            self.stepped_at = now;
            let longest = (2.0 * interval).max(4.0 * self.packet_time().as_secs_f64());
            self.step(now, passed.min(longest));
        }
        self.arrived_at = Some(now);
    }

    /// Time of the control loop, if the packet is the first one that only the newest feedback permitted.
    #[expect(clippy::cast_precision_loss, reason = "packets are few and small")]
    fn loop_time(&mut self, sample: &PacketSample) -> Option<f64> {
        let skipped = sample.skipped?;
        let bytes = sample.size as f64 + skipped.min(MOST_SKIPPED) as f64 * self.packet;
        let told = self.loop_time.on_newest(sample.now, bytes, self.backlog_since);
        // If numbers before this packet are missing, the first permitted packet may be among them.
        told.filter(|_| skipped == 0)
    }

    /// Returns true if the sender only waited for feedback: no packet number is missing and the packet was
    /// not held back. With many losses, the sender may have waited for the detection of a loss instead.
    #[expect(clippy::cast_precision_loss, reason = "packets are small")]
    fn waited_for_feedback(&self, sample: &PacketSample) -> bool {
        let held = self
            .delay
            .above_base(sample.now, sample.stamp, sample.size as f64);
        sample.skipped == Some(0) && held < NOT_HELD && self.loss.is_quiet()
    }

    /// Processes a sample of the loop time, after the queueing delay of its packet was measured.
    fn measure_loop(&mut self, now: Timestamp, loop_time: f64) {
        let rest = loop_time - self.delay.waited;
        if rest < 0.5 * self.rtt {
            self.delay.forget_lasting();
            self.forget_loop();
            self.loop_time.restart();
            return;
        }
        let interval = self.feedback_interval().as_secs_f64();
        let is_full = self.delay.waited > self.target(now, self.delay.queue()) || !self.loss.is_quiet();
        self.loop_time.take(now, rest.max(self.rtt), interval, is_full);
    }

    /// Records a grant that was sent.
    #[expect(clippy::cast_precision_loss, reason = "credits are far below 2^52")]
    pub fn on_granted(&mut self, now: Timestamp, grant: &Grant) {
        if self.phase == Phase::CongestionAvoidance {
            self.loop_time.on_feedback(now, grant.credit as f64);
        }
    }

    /// Records the activity flag of the sender's newest packet, which may carry only feedback.
    pub fn on_activity(&mut self, now: Timestamp, activity: Activity) {
        match activity {
            Activity::More => {
                self.backlog_since.get_or_insert(now);
            }
            Activity::Idle => self.backlog_since = None,
        }
    }

    /// Stall and idle of congestion.md section 8.
    fn after_silence(&mut self, now: Timestamp, was_late: bool) {
        let Some(last) = self.arrived_at else { return };
        let silence = now.saturating_since(last).as_secs_f64();
        let q = self.delay.queue();
        if self.backlog_since.is_none() {
            if silence > (4.0 * self.rtt).max(0.5) {
                let share = (1.0 - 2.0 * self.rate.variability()).clamp(0.7, 1.0);
                let idle = share * self.rate.capacity * self.empty_loop() + 2.0 * self.packet;
                self.window = self.window.min(idle.max(10.0 * self.packet));
                self.delay.forget_recent();
                self.forget_loop();
                self.ramp = Ramp::default();
                self.resumed_at = None;
            }
            return;
        }
        let f = self.feedback_interval().as_secs_f64();
        if !was_late && silence > (3.0 * (self.rtt + q) + f).max(1.0) {
            let target = self.target(now, 0.0);
            self.window = self
                .window
                .min((self.rate.max() * (self.empty_loop() + target)).max(4.0 * self.packet));
            self.delay.forget_recent();
            self.forget_loop();
            self.ramp = Ramp::default();
            self.resumed_at = Some(now);
            self.hold = now + Duration::from_secs_f64(self.rtt);
            self.backlog_since = Some(now);
        }
    }

    /// One update of the window, `dt` seconds after the last one.
    fn step(&mut self, now: Timestamp, dt: f64) {
        let q = self.delay.queue();
        let e = self.control_loop();
        let t = e + q;
        let f = (dt / t).min(1.0);
        let qh = self.target(now, q);
        let cv = self.rate.variability();
        if q > 0.01 {
            self.rate.sample_variability(now, self.rtt);
        }
        let heavy = self.on_loss(now, q, qh, t, e);
        if self.phase == Phase::SlowStart {
            self.double(now, f, q, qh, e, heavy);
            return;
        }
        self.follow_loop();
        self.cut.least_since = self.cut.least_since.min(q);
        if q < 0.25 * qh {
            self.cut.nofall = 0;
        }
        let again = q > 1.8 * self.cut.queue
            && now.saturating_since(self.cut.at).as_secs_f64() > 0.5 * self.rtt
            && now > self.cut.drained
            && self.cut.queue > 0.0;
        if q > qh && (now > self.hold || again) {
            self.reduce(now, q, qh, e, cv);
        } else if q <= qh && now > self.hold && self.backlog_since.is_some() && !self.loss.on_trial() {
            self.grow(now, f, q, qh, e, cv);
        }
        let quiet = self
            .loss
            .heavy_at
            .is_none_or(|at| now.saturating_since(at).as_secs_f64() > 3.0 * t);
        if self.cut.nofall == 0 && q < 1.8 * qh && quiet && self.backlog_since.is_some() {
            let floor = self.rate.max() * e - self.doubtful();
            self.window = self.window.max(floor.min(self.most(now)));
        }
    }

    /// Adjusts W to a change of u at once; otherwise the end of an upload would leave a queue.
    fn follow_loop(&mut self) {
        let late = self.loop_time.excess();
        let rate = (self.rate.max() - self.packet / self.rate.window(self.rtt)).max(0.0);
        let change = (late - std::mem::replace(&mut self.late, late)) * rate;
        self.window = (self.window + change).max((2.0 * self.packet).min(self.window));
    }

    /// Discards u after W was reduced in another way or the measured loops became invalid.
    fn forget_loop(&mut self) {
        self.loop_time.forget();
        self.late = 0.0;
    }

    fn double(&mut self, now: Timestamp, f: f64, q: f64, qh: f64, e: f64, heavy: bool) {
        let r = self.rate.max().max(2.0 * self.packet / e);
        if q > 0.5 * qh || heavy {
            let before = self.window;
            self.window = (r * (e + 0.33 * qh)).max(2.0 * self.packet);
            self.phase = Phase::CongestionAvoidance;
            self.rate.capacity = r;
            self.drain(now, before, e + q);
        } else if self.backlog_since.is_some() {
            self.window += f * self.window;
        }
    }

    /// CUT of congestion.md section 6.
    fn reduce(&mut self, now: Timestamp, q: f64, qh: f64, e: f64, cv: f64) {
        let k = (0.33 + cv).min(0.8);
        let aim = e + k * qh;
        let by_rate = self.rate.current * aim - self.doubtful();
        let to = 0.97 * (self.window * aim / (e + q)).min(by_rate);
        let least = if self.cut.nofall >= 2 {
            0.5 * self.cut.series_window
        } else {
            0.0
        };
        if self.cut.queue > 0.0 && self.cut.least_since > (0.6 * qh).max(0.4 * self.cut.queue) {
            self.cut.nofall += 1;
            if self.cut.nofall == 1 {
                self.cut.series_window = self.window;
            }
        } else {
            self.cut.nofall = 0;
        }
        let before = self.window;
        self.window = self.window.min(to.max(2.0 * self.packet).max(least));
        self.hold = now + Duration::from_secs_f64(e + 1.1 * q);
        self.drain(now, before, e);
        self.cut.at = now;
        self.cut.queue = q;
        self.cut.least_since = q;
    }

    /// Sets `drained` and `hold` after a reduction of W: data in flight beyond the new window leaves first,
    /// one `round` later. Until then queue and losses belong to the previous window.
    fn drain(&mut self, now: Timestamp, before: f64, round: f64) {
        let excess = (before - self.window).max(0.0) / self.rate.max().max(1.0);
        let drained = now + Duration::from_secs_f64((round + excess).min(60.0));
        self.cut.drained = drained;
        self.hold = self.hold.max(drained);
        if excess > round {
            self.loss.expect_until(drained);
        }
    }

    /// GROW of congestion.md section 6, with the ramp.
    fn grow(&mut self, now: Timestamp, f: f64, q: f64, qh: f64, e: f64, cv: f64) {
        let before = self.window;
        let n = self.window / self.packet;
        let mut step = f * 0.5 * self.packet * n.sqrt() * (1.0 + 4.0 * cv);
        if n < FEW_PACKETS {
            // One more packet is much queue here and shows only a round later: grow more slowly near the
            // target.
            step *= (2.0 * (qh - q) / qh).clamp(0.2, 1.0);
        }
        let s = self.packet * (e + q) / self.window;
        let late = self.loop_time.excess();
        let is_late = late > LATE * e;
        let is_crowded = self
            .loss
            .heavy_at
            .is_some_and(|at| now.saturating_since(at).as_secs_f64() < CROWDED.max(20.0 * self.rtt));
        if !is_late && !is_crowded && q < (0.3 * qh).min((2.0 * s).max(0.004).max(0.05 * self.rtt)) {
            let since = *self.ramp.low_since.get_or_insert(now);
            let extra = now.saturating_since(since).as_secs_f64() / self.rtt - 5.0;
            if extra > 0.0 && self.rate_follows(now, e + q) {
                step = step.max(f * self.window * (0.35 * (1.0 + extra)).min(1.0));
            }
        } else {
            self.ramp = Ramp::default();
        }
        let bound = self.rate.max() * (2.0 * (e + qh) - late) - self.doubtful() + 4.0 * self.packet;
        self.window = (self.window + step).min(bound.min(self.most(now)).max(before));
    }

    /// Returns true if the ramp may run: for one round, and again as soon as r has risen by 0.3 of the
    /// relative growth of W in it.
    fn rate_follows(&mut self, now: Timestamp, round: f64) -> bool {
        let begin = Check {
            at: now,
            window: self.window,
            rate: self.rate.current,
            waits: None,
        };
        let check = *self.ramp.check.get_or_insert(begin);
        let Some((since, grown)) = check.waits else {
            if now.saturating_since(check.at).as_secs_f64() < round {
                return true;
            }
            let grown = (self.window - check.window) / check.window;
            self.ramp.check = Some(Check {
                waits: Some((now, grown)),
                ..check
            });
            return false;
        };
        if self.rate.current >= (1.0 + 0.3 * grown) * check.rate {
            self.ramp.check = Some(begin);
            return true;
        }
        if now.saturating_since(since).as_secs_f64() > round {
            self.ramp = Ramp {
                low_since: Some(now),
                check: None,
            };
        }
        false
    }

    /// Returns the current grant; `room` is the free space of the receive buffer in bytes.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "windows are positive and far below 2^63"
    )]
    pub fn grant(&self, now: Timestamp, room: u64) -> Grant {
        let e = self.control_loop();
        let pace = match self.phase {
            Phase::SlowStart => self.window / e,
            Phase::CongestionAvoidance => {
                let qh = self.target(now, self.delay.queue());
                let late = self.loop_time.excess();
                let by_window = self.window / ((e - late + qh / 2.0) / PACING_GAIN + late);
                by_window.max((self.window / e).min(CAPACITY_MARGIN * self.rate.capacity))
            }
        };
        Grant {
            credit: (self.window as u64).min(room),
            rate: BitRate::bps((pace * 8.0) as u64),
        }
    }

    /// Discards delays, rates and losses after a network change and reduces W to at most its initial value.
    pub fn on_path_change(&mut self) {
        self.window = self.window.min(self.start_window);
        self.packet = FULL_PACKET;
        self.delay = DelayMeter::default();
        self.rate = RateMeter::new(self.rate.capacity);
        self.loss = LossMeter::default();
        self.forget_loop();
        self.loop_time = LoopMeter::default();
        self.cut = Cut::default();
        self.ramp = Ramp::default();
        self.queue_cap = None;
        self.loss_cap = None;
        self.backlog_since = None;
    }

    /// Returns true if the sender is backlogged.
    pub const fn sender_has_backlog(&self) -> bool {
        self.backlog_since.is_some()
    }
    /// W in bytes.
    pub const fn window(&self) -> f64 {
        self.window
    }
    /// Estimated queueing delay q.
    pub fn queue(&self) -> Duration {
        Duration::from_secs_f64(self.delay.queue())
    }
    /// Queueing delay of a packet that arrives now.
    pub fn queue_of(&self, now: Timestamp, stamp: Stamp, size: u64) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "packets are small")]
        let waited = self.delay.above_base(now, stamp, size as f64);
        Duration::from_secs_f64(waited.min(60.0))
    }
    /// rmax: maximum delivery rate in byte/s.
    pub fn rate(&self) -> f64 {
        self.rate.max()
    }
    /// C: estimated capacity in byte/s.
    pub const fn capacity(&self) -> f64 {
        self.rate.capacity
    }
    /// Interarrival jitter (RFC 3550).
    pub fn jitter(&self) -> Duration {
        Duration::from_secs_f64(self.delay.jitter.clamp(0.0, 1.0))
    }
}
