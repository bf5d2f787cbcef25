//! Feedback of the peer: acknowledgements, losses and the grant (transport.md sections 5.1, 5.3, 6).
use std::time::Duration;

use longhaul_types::{ByteCount, Timestamp};

use super::Incoming;
use crate::{
    congestion::{ByteRate, FULL_PACKET},
    connection::{Connection, TAIL_SLACK, late_packets::LateReport},
    recovery::MAX_TAIL,
    wire::{Feedback, Stamp, expand_packet_number, stamp::hold_time},
};

/// Least credit under the circuit breaker, unless the grant is smaller: two packets.
const LEAST_CREDIT: u64 = 2 * 1280;

/// Longest packet time in the margin of the tail rule.
const LONGEST_PACKET_TIME: Duration = Duration::from_secs(5);
/// Least time in seconds over which the delivery rate is measured: a shorter one measures a burst.
const LEAST_DELIVERY_TIME: f64 = 0.01;
/// Weight of the earlier measurements in the smoothed delivery rate.
const DELIVERY_SMOOTHING: f64 = 4.0;

impl Connection {
    /// Processes the peer's report and grant (transport.md sections 5.1, 5.3, 6).
    pub(super) fn process_feedback(&mut self, now: Timestamp, packet: Incoming, feedback: &Feedback) {
        let number = packet.number;
        if self.granted.by.is_some_and(|by| number < by) {
            return;
        }
        let Some(last) = self.sent_packets.next_number().checked_sub(1) else {
            return;
        };
        let largest = expand_packet_number(feedback.largest, Some(last));
        let before = self.sent_packets.largest();
        let Some(report) = self.sent_packets.on_feedback(largest, &feedback.gaps) else {
            return;
        };
        self.granted.by = Some(number);
        let hold = hold_time(feedback.hold);
        let elapsed = Stamp::of(now).since(feedback.echo);
        let sent_largest = earlier(now, elapsed);
        // Packet 0 is the INIT, which is repeated with the same stamp and gives no sample. A packet sent
        // before the end of a stall would only measure the stall.
        let fresh = before.is_none_or(|before| largest > before) && sent_largest >= self.resumed_at;
        if fresh && largest > 0 && feedback.hold < u16::MAX {
            self.sample_rtt(now, packet, elapsed.saturating_sub(hold));
        }
        let mut progress = report.progress;
        if progress {
            self.last_news_at = now;
        }
        if report.acked_packets > 0 || before.is_none_or(|before| largest > before) {
            self.late_packets.on_heard(largest);
        }
        self.report_losses(now, report.acked_packets, report.lost_packets);
        self.apply_report(now, report);
        self.apply_grant(now, feedback);
        if progress {
            self.measure_delivery(now, hold);
        }
        progress |= self.lose_tail(now, packet, hold, sent_largest);
        if progress {
            self.prober.on_progress(now);
        }
        if self.has_credit() {
            self.granted.persist = Duration::ZERO;
        }
    }

    /// Measures the round-trip time without the time at the receiver.
    fn sample_rtt(&mut self, now: Timestamp, packet: Incoming, elapsed: Duration) {
        let sample = elapsed.max(Duration::from_micros(100));
        let queue = self
            .controller
            .queue_of(now, packet.stamp, ByteCount::new(packet.size));
        self.rtt.on_sample(now, sample, queue);
        if let Some(meter) = &mut self.link_meter {
            meter.on_rtt(sample);
        }
        self.adjust_to_rtt(now);
    }

    /// Applies the tail rule (transport.md section 5.3); returns true if it made progress. `hold` is the time for which
    /// the receiver held the feedback back, `sent_largest` the time at which the largest reported packet was sent.
    fn lose_tail(
        &mut self,
        now: Timestamp,
        packet: Incoming,
        hold: Duration,
        sent_largest: Timestamp,
    ) -> bool {
        let rate = self.granted.rate.min(self.granted.delivered);
        let packet_time = rate.transmission_time(FULL_PACKET, LONGEST_PACKET_TIME);
        // The receiver waits longer than this, because it adds the jitter that it measures; the margin covers
        // the difference of the two rate estimates.
        let margin = TAIL_SLACK.max(packet_time / 2);
        // Feedback that the link held back describes the time before the link delivered the other packets.
        let was_held = packet.was_held
            && now.saturating_since(self.resumed_at) < self.rtt.smoothed() * 4 + Duration::from_secs(1);
        if hold <= margin || was_held || self.is_ordered() || !self.reports_losses() {
            return false;
        }
        self.note_late(now, hold, margin, sent_largest);
        let tail = self
            .sent_packets
            .lose_tail(hold, margin, sent_largest, rate, self.tail_limit(now));
        let progress = tail.progress;
        self.report_losses(now, 0, tail.lost_packets);
        self.apply_report(now, tail);
        progress
    }

    /// Records how long the peer has received nothing (agent). At the first sign that its packets are lost, an agent asks
    /// again at once.
    fn note_late(&mut self, now: Timestamp, hold: Duration, margin: Duration, sent: Timestamp) {
        let Some(largest) = self.sent_packets.largest().filter(|_| !self.is_gateway()) else {
            return;
        };
        let report = LateReport {
            largest,
            sent,
            counter: self.sent_packets.reported_bytes(),
            hold,
            margin,
            rate: self.granted.rate.min(self.granted.delivered),
        };
        self.ping_due |= self.late_packets.on_report(now, &report);
    }

    /// Applies the peer's grant, reduced by the circuit breaker (transport.md section 5.1).
    fn apply_grant(&mut self, now: Timestamp, feedback: &Feedback) {
        let halvings = self.breaker.halvings();
        self.end_first_flight(now);
        let first_flight = self.first_flight_credit();
        if halvings == 0 && feedback.credit < first_flight {
            self.granted.credit = first_flight;
            return;
        }
        let rate = self.within_limit(feedback.rate.rate().min(self.config.max_rate));
        self.granted.rate = ByteRate::at_least_one(rate.bytes_per_second() / f64::from(1 << halvings));
        let least = feedback.credit.min(LEAST_CREDIT);
        self.granted.credit = (feedback.credit >> halvings).max(least);
        self.pacer.set_rate(now, self.granted.rate);
    }

    /// Reports losses to the circuit breaker; losses of a stall say nothing about the path.
    fn report_losses(&mut self, now: Timestamp, acked: u64, lost: u64) {
        let srtt = self.rtt.smoothed();
        let stalled = self.stats.stalls > 0
            && now.saturating_since(self.resumed_at) < srtt * 2 + Duration::from_millis(200);
        if stalled {
            self.breaker.restart(now);
        } else {
            self.breaker.on_report(now, acked, lost, srtt);
        }
    }

    /// Maximum number of outstanding packets for the tail rule; no limit after a stall.
    fn tail_limit(&self, now: Timestamp) -> usize {
        if self.stats.stalls > 0 && now.saturating_since(self.resumed_at) < self.rtt.smoothed() * 2 {
            usize::MAX
        } else {
            MAX_TAIL
        }
    }

    /// Measures the rate at which the peer receives.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn measure_delivery(&mut self, now: Timestamp, hold: Duration) {
        let arrived = earlier(now, hold);
        let bytes = self.sent_packets.reported_bytes();
        let (is_backlogged, rtt) = (self.streams.has_output(), self.path_rtt());
        if let Some(meter) = &mut self.link_meter {
            meter.on_report(arrived, bytes, is_backlogged, rtt);
        }
        if let Some((since, from)) = self.granted.delivered_from {
            let time = arrived.saturating_since(since).as_secs_f64();
            if time < LEAST_DELIVERY_TIME {
                return;
            }
            let rate = bytes.saturating_sub(from) as f64 / time;
            // While little is sent, little arrives, which says nothing about the path.
            if self.sent_packets.is_awaiting() {
                let delivered = self.granted.delivered.bytes_per_second();
                let change = (rate - delivered) / DELIVERY_SMOOTHING;
                self.granted.delivered = ByteRate::new(delivered + change);
            }
        }
        self.granted.delivered_from = Some((arrived, bytes));
    }
}

fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(now.as_nanos().saturating_sub(by))
}
