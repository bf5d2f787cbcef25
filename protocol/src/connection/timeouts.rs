//! Timeouts of a connection and their handling (transport.md sections 5.2, 5.3, 7.3).
use std::time::Duration;

use longhaul_types::{ByteCount, Timestamp};

use super::{
    Connection, Keys, Lifecycle, TAIL_SLACK,
    probe::ProbeAction,
    timer::{Timer, Timers},
};
use crate::{
    congestion::feedback_interval,
    endpoint::{CloseReason, Event},
    streams::Role,
    wire::Activity,
};

/// Allowance in the probe timeout for timers of 1 ms and for scheduling (transport.md section 5.3).
const PROBE_SLACK: Duration = Duration::from_millis(25);
/// Upper bounds of the probe timeout and of the interval of further probes: an RTT that an outage or a full
/// buffer increased must not cause a silence of minutes. An unnecessary probe costs one packet.
const LONGEST_PROBE_TIMEOUT: Duration = Duration::from_secs(6);
const LONGEST_PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of reports about one missing tail, at doubling intervals; after them the sender's probes
/// recover the tail.
const TAIL_REPORTS: u32 = 3;
/// Silence after which an agent that waits for data sends PING (transport.md section 7.3). A shorter time
/// would cause PINGs in the pauses of ordinary pages. With the repetitions, a gateway that lost the session
/// is detected within two seconds.
const FIRST_KEEPALIVE: Duration = Duration::from_secs(1);
/// Maximum interval of a sender's PINGs while the receiver's buffer is full.
const LONGEST_PERSIST: Duration = Duration::from_secs(15);
/// Longest estimate of the time in which a missing tail arrives.
const LONGEST_TAIL: Duration = Duration::from_secs(3600);
/// Maximum number of doublings of [`FIRST_KEEPALIVE`]; more exceed every keepalive interval.
const MAX_DOUBLINGS: u32 = 16;
/// Least budget of an unvalidated address at which the gateway sends: feedback and a control frame must fit.
const MIN_BUDGET: u64 = 120;

impl Connection {
    /// Time of the next call of [`Connection::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        if self.timers_stale {
            self.planned_timers().next()
        } else {
            self.timers.next()
        }
    }

    /// Recomputes the timers if anything changed on which they depend.
    pub(crate) fn settle_timers(&mut self) {
        if std::mem::take(&mut self.timers_stale) {
            self.timers = self.planned_timers();
        }
    }

    /// Handles expired timers. The caller then polls for packets to send.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        self.settle_timers();
        if let Keys::Full { phases, .. } = &mut self.keys {
            phases.forget(now);
        }
        if self.timers.take_expired(Timer::Drain, now) {
            self.lifecycle = Lifecycle::Drained;
        }
        if !matches!(self.lifecycle, Lifecycle::Open) {
            self.rearm();
            return;
        }
        if self.timers.take_expired(Timer::Silence, now) {
            self.end(CloseReason::TimedOut);
            return;
        }
        if self.timers.take_expired(Timer::Reorder, now) {
            self.declare_gaps(now);
        }
        if self.timers.take_expired(Timer::Tail, now) {
            self.tail_reports += 1;
            self.pending_ack.now = true;
        }
        if self.timers.take_expired(Timer::Watch, now) {
            self.ping_due = true;
            let answer = self.timeout_of(Activity::Idle);
            self.prober
                .on_watch_ping(now, self.last_received_at, self.rtt.smoothed(), answer);
        }
        if self.timers.take_expired(Timer::Keepalive, now) {
            self.ping_due = true;
            self.verify_idle_link();
            self.keepalive_pings = self.keepalive_pings.saturating_add(1);
        }
        if self.timers.take_expired(Timer::Probe, now) {
            self.on_probe_deadline(now);
        }
        if self.timers.take_expired(Timer::PathProbe, now) {
            self.end_path_probe();
        }
        self.rearm();
    }

    fn on_probe_deadline(&mut self, now: Timestamp) {
        if !self.sent_packets.is_awaiting() {
            // Nothing is outstanding, but the credit is too small for the waiting data: ask for more.
            self.ping_due = true;
            self.prober.due = true;
            self.granted.persist = (self.granted.persist * 3 / 2)
                .clamp(self.rtt.smoothed().min(LONGEST_PROBE_INTERVAL), LONGEST_PERSIST);
            return;
        }
        let interval = self.rtt.smoothed().min(LONGEST_PROBE_INTERVAL);
        let srtt = self.rtt.smoothed();
        let answer = srtt + self.rtt.variation() * 4;
        match self
            .prober
            .on_deadline(now, self.last_received_at, srtt, interval, answer)
        {
            ProbeAction::Probe => {}
            ProbeAction::Stall => {
                self.stats.stalls += 1;
                self.events.push_back(Event::Stalled);
            }
        }
        // What is outstanding on an ordered path is late, not lost: only a question is sent.
        if self.is_ordered() {
            self.ping_due = true;
            return;
        }
        // During a stall, the contents of one packet suffice as probe: the other packets may still arrive
        // late.
        if self.prober.is_thin() && self.prober.last.is_none() && self.streams.has_output() {
            return;
        }
        if let Some(packet) = self.sent_packets.take_for_probe(self.prober.last) {
            self.send_again(packet.contents);
        }
    }

    /// Probe timeout of the last eliciting packet (transport.md section 5.3).
    pub(super) fn probe_timeout(&self) -> Duration {
        self.timeout_of(self.last_eliciting)
    }

    /// SRTT + 4 RTTVAR + F + 25 ms, without F after an IDLE packet, at most 6 s (section 5.3).
    fn timeout_of(&self, activity: Activity) -> Duration {
        let interval = match activity {
            Activity::More => self.peer_interval(),
            Activity::Idle => Duration::ZERO,
        };
        let timeout = self.rtt.smoothed() + self.rtt.variation() * 4 + interval + PROBE_SLACK;
        timeout.min(LONGEST_PROBE_TIMEOUT)
    }

    /// Estimate of the peer's feedback interval.
    fn peer_interval(&self) -> Duration {
        let reverse = self.profile.map(|profile| match self.role {
            Role::Agent => profile.down,
            Role::Gateway => profile.up,
        });
        feedback_interval(
            &self.config.congestion.feedback,
            self.granted.delivered.min(self.granted.rate),
            self.path_rtt(),
            reverse,
        )
    }

    /// R: round-trip time without queues. The RTT of the profile applies if it is smaller, because samples of
    /// a transfer contain the queue of this transfer.
    pub(super) fn path_rtt(&self) -> Duration {
        let rtt = self.rtt.min_or_expected();
        self.profile.map_or(rtt, |profile| profile.rtt.min(rtt))
    }

    /// Marks the timers as outdated. They are recomputed when they are needed, which is once for many
    /// packets.
    pub(super) const fn rearm(&mut self) {
        self.timers_stale = true;
    }

    /// Computes the expiry of each timer.
    fn planned_timers(&self) -> Timers {
        let mut timers = self.timers.clone();
        match self.lifecycle {
            Lifecycle::Open => {}
            Lifecycle::Closing { .. } | Lifecycle::Draining => {
                let drain = timers.get(Timer::Drain);
                timers.clear();
                timers.set(Timer::Drain, drain);
                return timers;
            }
            Lifecycle::Drained => {
                timers.clear();
                return timers;
            }
        }
        timers.set(Timer::Pace, None);
        if self.blocked {
            return self.blocked_timers(timers);
        }
        if matches!(self.keys, Keys::Early { .. }) {
            // The endpoint repeats the INIT; nothing else can be answered before RESP.
            if self.can_send_early() && self.streams.has_output() && self.has_credit() {
                timers.set(Timer::Pace, Some(self.pacer.opens_at()));
            }
            return timers;
        }
        if self.path_budget() < MIN_BUDGET {
            // Only a packet from the peer can change that (section 7.2); the gateway's limit for half-open
            // sessions ends the state.
            timers.clear();
            timers.set(Timer::Silence, Some(self.silence_at()));
            return timers;
        }
        if self.prober.stalled_since.is_none() && self.wants_packet() && self.has_credit() {
            timers.set(Timer::Pace, Some(self.pacer.opens_at()));
        }
        timers.set(Timer::Feedback, self.feedback_at());
        timers.set(Timer::Reorder, self.next_declaration());
        timers.set(Timer::Tail, self.tail_at());
        let timeout = self.probe_timeout();
        let probe = if self.sent_packets.is_awaiting() {
            Some(self.prober.deadline(timeout, self.timeout_of(Activity::More)))
        } else if self.wants_packet() && !self.has_credit() {
            let wait = timeout.max(self.granted.persist);
            Some(self.last_sent_at.max(self.last_received_at) + wait)
        } else {
            None
        };
        timers.set(Timer::Probe, probe);
        // A PING that waits for the pacer is not asked for again.
        let watch =
            self.controller.sender_has_backlog() && !self.sent_packets.is_awaiting() && !self.ping_due;
        timers.set(Timer::Watch, watch.then(|| self.last_news_at + self.watch_time()));
        timers.set(Timer::Keepalive, self.keepalive_at());
        timers.set(Timer::Challenge, self.path.challenge_at());
        timers.set(Timer::PathProbe, self.path_probes.deadline());
        timers.set(Timer::Silence, Some(self.silence_at()));
        debug_assert!(timers.next().is_some(), "a connection without a timer");
        timers
    }

    /// Time at which a gap is declared lost.
    fn next_declaration(&self) -> Option<Timestamp> {
        let (srtt, packet_time) = (self.rtt.smoothed(), self.controller.packet_time());
        self.gaps
            .next_declaration(srtt, packet_time)
            .filter(|_| self.reports_losses())
    }

    /// Timers while the link accepts no packet: those that need no packet, and the probe timer, which detects
    /// a stall. The endpoint wakes the connection when the link accepts packets.
    fn blocked_timers(&self, mut timers: Timers) -> Timers {
        timers.clear();
        timers.set(Timer::PathProbe, self.path_probes.deadline());
        if matches!(self.keys, Keys::Early { .. }) {
            return timers;
        }
        timers.set(Timer::Reorder, self.next_declaration());
        if self.sent_packets.is_awaiting() {
            let deadline = self
                .prober
                .deadline(self.probe_timeout(), self.timeout_of(Activity::More));
            timers.set(Timer::Probe, Some(deadline));
        }
        timers.set(Timer::Silence, Some(self.silence_at()));
        timers
    }

    /// Time at which the connection ends if nothing is received until then (transport.md section 7.3).
    fn silence_at(&self) -> Timestamp {
        /// Each end has one for as long as the session.
        const CONTROL_STREAMS: usize = 2;
        let (sending, receiving) = self.streams.open_count();
        let in_use = sending + receiving > CONTROL_STREAMS;
        let limits = &self.config;
        let limit = if in_use {
            limits.max_silence.max(limits.max_silence_in_use)
        } else {
            limits.max_silence
        };
        self.last_received_at + limit
    }

    /// Silence of a backlogged peer after which a PING is sent (transport.md section 7.3).
    fn watch_time(&self) -> Duration {
        // The peer sends continuously, or at the latest when the feedback for its last packets arrives.
        let round = self.path_rtt() + self.controller.feedback_interval() + self.controller.jitter() * 4;
        round.clamp(Duration::from_millis(500), LONGEST_PROBE_TIMEOUT) + self.controller.packet_time() * 4
    }

    /// Time of the next PING of an agent with nothing outstanding (section 7.3).
    fn keepalive_at(&self) -> Option<Timestamp> {
        if self.role != Role::Agent || self.sent_packets.is_awaiting() || self.ping_due {
            return None;
        }
        let idle = self.last_sent_at + self.config.keepalive;
        let Some(since) = self.expecting_since else {
            return Some(idle);
        };
        // Answers without data show that the peer is alive but has no data yet: each doubles the interval.
        let longest = self.config.keepalive;
        let doubled = FIRST_KEEPALIVE * 2_u32.saturating_pow(self.keepalive_pings.min(MAX_DOUBLINGS));
        let patience = doubled.max(self.watch_time()).min(longest);
        Some(idle.min(self.last_received_at.max(self.last_sent_at).max(since) + patience))
    }

    /// Time of the next report about the missing tail of a stream (section 5.3).
    fn tail_at(&self) -> Option<Timestamp> {
        let (_, arrived) = self.pending_ack.echo?;
        if self.tail_reports >= TAIL_REPORTS || self.is_ordered() || !self.reports_losses() {
            return None;
        }
        let missing = self.streams.missing();
        if missing == 0 {
            return None;
        }
        // The capacity, not the current rate: at the start of a message few bytes have arrived.
        let capacity = self.controller.capacity();
        let needed = capacity.transmission_time(ByteCount::new(missing), LONGEST_TAIL);
        // More than the margin of the sender's tail rule, which would otherwise not act on the report.
        let slack = (self.controller.jitter() * 2)
            .max(TAIL_SLACK)
            .max(self.controller.packet_time())
            + TAIL_SLACK / 4;
        // A report that was lost or came too early is repeated when the sender could have answered it.
        let again = self.controller.packet_time().max(self.path_rtt() / 2);
        Some(arrived + needed + slack + again * self.tail_reports)
    }

    /// Time at which pending feedback is due.
    pub(super) fn feedback_at(&self) -> Option<Timestamp> {
        self.pending_ack.echo?;
        let last = self.pending_ack.last;
        let interval = self.controller.feedback_interval();
        if self.pending_ack.now || (self.pending_ack.pending && last.is_none()) {
            return Some(Timestamp::ZERO);
        }
        // The first report of a gap is sent at once, but not for every packet of a burst of losses.
        if self.gaps.has_news() || self.pending_ack.soon {
            return Some(last.map_or(Timestamp::ZERO, |last| last + interval / 4));
        }
        let last = last?;
        self.pending_ack.pending.then(|| last + interval)
    }
}
