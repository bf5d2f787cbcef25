//! Packets from the peer (transport.md sections 2, 4, 5).
use std::time::Duration;

use longhaul_types::{ByteCount, Timestamp};

use super::{
    Connection, IP_UDP_HEADERS, Keys, Lifecycle, STALL_PATIENCE, TAIL_SLACK, UNHEARD,
    held_packets::HeldPacketDetector, link_meter::Observation, path::PeerPath, path_probe::is_probing,
};
use crate::{
    congestion::{ByteRate, FULL_PACKET, PacketSample},
    endpoint::{CloseReason, Event},
    path::Path,
    recovery::{Arrival, MAX_TAIL},
    streams::{Role, StreamViolation},
    wire::{
        Activity, Feedback, Frame, FrameError, KeySpace, ShortHeader, Stamp, expand_packet_number,
        stamp::hold_time,
    },
};

/// Least credit under the circuit breaker, unless the grant is smaller: two packets.
const LEAST_CREDIT: u64 = 2 * 1280;

/// Longest packet time in the margin of the tail rule.
const LONGEST_PACKET_TIME: Duration = Duration::from_secs(5);
/// Least time in seconds over which the delivery rate is measured: a shorter one measures a burst.
const LEAST_DELIVERY_TIME: f64 = 0.01;
/// Weight of the earlier measurements in the smoothed delivery rate.
const DELIVERY_SMOOTHING: f64 = 4.0;

/// Error codes of CLOSE (transport.md section 7.4).
const ERROR_MALFORMED: u64 = 2;
const ERROR_LIMIT: u64 = 3;

fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(now.as_nanos().saturating_sub(by))
}

/// A violation that ends the session.
enum Violation {
    Frame(FrameError),
    Stream(StreamViolation),
}

impl From<FrameError> for Violation {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}
impl From<StreamViolation> for Violation {
    fn from(error: StreamViolation) -> Self {
        Self::Stream(error)
    }
}

/// An authenticated packet.
#[derive(Clone, Copy)]
struct Incoming {
    number: u64,
    size: u64,
    stamp: Stamp,
    activity: Activity,
    early: bool,
    /// True if the link held the packet back.
    was_held: bool,
    /// Missing numbers between the previous highest number and this one, if this one is the highest.
    skipped: Option<u64>,
}

impl Connection {
    /// Processes the frames of an INIT whose early data was accepted (gateway; packet number 0).
    pub(crate) fn handle_init_frames(&mut self, now: Timestamp, stamp: Stamp, frames: &[u8]) {
        if frames.is_empty() {
            return;
        }
        let packet = Incoming {
            number: 0,
            size: frames.len() as u64 + IP_UDP_HEADERS,
            stamp,
            activity: Activity::More,
            early: true,
            was_held: false,
            skipped: Some(0),
        };
        self.pending_ack.echo = Some((stamp, now));
        self.process_frames(now, packet, Arrival::InOrder, frames);
        self.rearm();
    }

    /// Records that packets were dropped because a buffer was full: packets missing before the next one are
    /// no losses of the link.
    pub(crate) const fn dropped_packets(&mut self) {
        self.dropped = true;
    }

    /// Processes a short packet with a decoded header.
    pub(crate) fn handle_short(
        &mut self,
        now: Timestamp,
        remote: Path,
        header: ShortHeader,
        header_len: usize,
        datagram: &mut [u8],
    ) {
        let datagram_len = datagram.len();
        let size = datagram_len as u64;
        let largest = self.replay.largest();
        let number = expand_packet_number(header.truncated, largest);
        let Some((stamp, frames)) = self.open_packet(now, number, header, header_len, datagram) else {
            self.stats.packets_dropped += 1;
            return;
        };
        self.replay.mark(number);
        if let Lifecycle::Closing { due, answers, .. } = &mut self.lifecycle {
            if *answers > 0 {
                *answers -= 1;
                *due = true;
            }
            return;
        }
        if !matches!(self.lifecycle, Lifecycle::Open) {
            return;
        }
        self.stats.packets_received += 1;
        self.stats.bytes_received += size + IP_UDP_HEADERS;
        if remote != self.path.remote && header.keys == KeySpace::Full && is_probing(frames) {
            self.on_probing_packet(now, remote, number, datagram_len, frames);
            return;
        }
        let earlier_path = self.path.remote;
        self.follow_address(
            now,
            remote,
            header.keys,
            size,
            largest.is_none_or(|largest| number > largest),
        );
        let packet = Incoming {
            number,
            size: size + IP_UDP_HEADERS,
            stamp,
            activity: header.activity,
            early: header.keys == KeySpace::Early,
            was_held: self.held_packets.was_held(now, stamp, self.rtt.smoothed()),
            skipped: number.checked_sub(largest.map_or(0, |largest| largest + 1)),
        };
        if largest.is_none() || std::mem::take(&mut self.dropped) {
            self.unopened = packet.skipped.unwrap_or(0);
        }
        let silence = now.saturating_since(self.last_received_at);
        self.on_authenticated(now);
        let overfull = self.streams.recv_buffered() > 2 * self.config.receive_buffer.bytes();
        let arrival = if overfull {
            Arrival::Refused
        } else {
            self.gaps.on_packet(now, number)
        };
        self.note_overtaking(now);
        if arrival == Arrival::OpenedGap && silence > self.rtt.smoothed() * 2 {
            let wait = (self.controller.packet_time() * 2).max(STALL_PATIENCE);
            self.gaps.be_patient(now + wait);
        }
        if silence > Duration::from_secs(1).max(self.rtt.smoothed() * 3) {
            self.pending_ack.now |= self.controller.sender_has_backlog();
        }
        if self.gaps.largest() == Some(number) {
            self.pending_ack.echo = Some((stamp, now));
            self.gaps.set_ended(header.activity == Activity::Idle);
        }
        if self.is_gateway() {
            self.measure_uplink(now, number, packet.size);
        }
        self.process_frames(now, packet, arrival, frames);
        if !self.is_gateway() && matches!(self.lifecycle, Lifecycle::Open) {
            self.measure_link(now, stamp, packet.size);
        }
        if !self.path.remote.is_same_network(earlier_path) && matches!(self.lifecycle, Lifecycle::Open) {
            // After the report in this packet: the other packets are in flight on the old path and must
            // not hold credit.
            let report = self.sent_packets.lose_all();
            self.apply_report(now, report);
            self.pacer.drain(now);
        }
        self.rearm();
    }

    fn open_packet<'a>(
        &mut self,
        now: Timestamp,
        number: u64,
        header: ShortHeader,
        header_len: usize,
        datagram: &'a mut [u8],
    ) -> Option<(Stamp, &'a [u8])> {
        self.replay.check(number).ok()?;
        let opened = match (&mut self.keys, header.keys) {
            (Keys::Early { .. }, _) => return None,
            (Keys::Full { phases, .. }, KeySpace::Full) => {
                phases.open(now, number, header.phase, datagram, header_len)
            }
            (Keys::Full { early, .. }, KeySpace::Early) => {
                early.as_deref()?.open(number, datagram, header_len)
            }
        };
        let plain: &'a [u8] = opened.ok()?;
        let (stamp, frames) = plain.split_first_chunk::<3>()?;
        let stamp = Stamp::from_raw(u32::from_be_bytes([0, stamp[0], stamp[1], stamp[2]]));
        Some((stamp, frames))
    }

    /// Follows the peer's path (section 7.1) and updates its validation (section 7.2).
    fn follow_address(&mut self, now: Timestamp, remote: Path, space: KeySpace, size: u64, newest: bool) {
        // Only agents roam: an agent always sends to the address to which it connected.
        if self.is_gateway() && remote != self.path.remote {
            if !newest {
                return;
            }
            let same_network = remote.is_same_network(self.path.remote);
            let data = self.next_challenge();
            self.path = PeerPath::moved(remote, data, now);
            self.probing.end_train();
            self.mtu = super::path_mtu(self.mtu.limit(), remote);
            self.held_packets = HeldPacketDetector::default();
            self.notify(Event::Moved);
            // Another port of a NAT is the same network; another IP address or carrier is a new one.
            if !same_network {
                self.controller.on_path_change();
            }
        }
        self.path.on_received(size);
        if space == KeySpace::Full {
            self.path.on_full_keys();
            if !self.confirmed {
                self.confirmed = true;
                if let Keys::Full { early, .. } = &mut self.keys {
                    *early = None;
                }
            }
        }
    }

    fn process_frames(&mut self, now: Timestamp, packet: Incoming, arrival: Arrival, mut frames: &[u8]) {
        let mut eliciting = false;
        while !frames.is_empty() {
            match self.process_frame(now, packet, arrival, &mut frames) {
                Ok(asks) => eliciting |= asks,
                Err(violation) => {
                    self.close_for_violation(now, &violation);
                    return;
                }
            }
            if !matches!(self.lifecycle, Lifecycle::Open) {
                return;
            }
        }
        self.declare_gaps(now);
        if arrival == Arrival::Refused {
            // Counts as lost: the packet will be missing, reported and retransmitted.
            self.pending_ack.now = true;
            return;
        }
        let newest = self.gaps.largest() == Some(packet.number);
        let activity = newest.then_some(packet.activity);
        if eliciting {
            self.record_eliciting(now, packet, activity);
        } else if let Some(activity) = activity {
            self.controller.on_activity(now, activity);
        }
    }

    /// Records an eliciting packet for feedback and congestion control.
    fn record_eliciting(&mut self, now: Timestamp, packet: Incoming, activity: Option<Activity>) {
        self.pending_ack.pending = true;
        self.tail_reports = 0;
        self.keepalive_pings = 0;
        if packet.activity == Activity::Idle {
            self.schedule_feedback(packet);
        }
        let lost = self.newly_lost();
        // Packets that are missing on an ordered path were sent on another one: no losses of this path.
        let (lost, skipped) = if self.is_ordered() {
            (0, packet.skipped.map(|_| 0))
        } else {
            (lost, packet.skipped)
        };
        let total = self.gaps.received();
        let received = total.saturating_sub(self.received_seen);
        self.controller.on_packet(&PacketSample {
            now,
            size: ByteCount::new(packet.size),
            stamp: packet.stamp,
            activity,
            skipped,
            received,
            lost,
            min_rtt: self.path_rtt(),
        });
        self.received_seen = total;
        self.observe_link(now, packet.size, received, lost);
    }

    /// Passes an incoming packet to the link meter.
    fn observe_link(&mut self, now: Timestamp, size: u64, received: u64, lost: u64) {
        // A user that reads slowly limits the rate by its full buffer.
        let has_room = self.room() > self.controller.window().bytes();
        let rtt = self.path_rtt();
        if let Some(meter) = &mut self.link_meter {
            meter.on_packet(&Observation {
                now,
                size,
                is_backlogged: self.controller.sender_has_backlog() && has_room,
                rtt,
                queue: self.controller.queue(),
                packet_time: self.controller.packet_time(),
                received,
                lost,
            });
        }
    }

    /// Packets declared lost since the last call, without those that arrived but could not be opened.
    fn newly_lost(&mut self) -> u64 {
        let lost = self.gaps.lost();
        let new = lost.saturating_sub(self.lost_seen);
        self.lost_seen = lost;
        if new == 0 {
            return 0;
        }
        let forgiven = new.min(self.unopened);
        self.unopened -= forgiven;
        new - forgiven
    }

    /// Schedules feedback at once; when a link delivers many held packets, one answer for several is enough.
    fn schedule_feedback(&mut self, packet: Incoming) {
        if packet.was_held {
            self.pending_ack.soon = true;
        } else {
            self.pending_ack.now = true;
        }
    }

    /// Processes one frame; returns true if it is eliciting.
    fn process_frame(
        &mut self,
        now: Timestamp,
        packet: Incoming,
        arrival: Arrival,
        frames: &mut &[u8],
    ) -> Result<bool, Violation> {
        let frame = Frame::decode(frames)?;
        let refused = arrival == Arrival::Refused;
        match frame {
            Frame::Pad => return Ok(false),
            Frame::Feedback(feedback) => {
                self.process_feedback(now, packet, &feedback);
                return Ok(false);
            }
            Frame::Forward { distance } => {
                if let Some(floor) = packet.number.checked_sub(distance) {
                    self.gaps.forward(floor);
                }
                return Ok(false);
            }
            Frame::Close { error, reason } => {
                let reason = reason.to_owned();
                self.closed_by_peer(now, CloseReason::PeerClosed { error, reason });
                return Ok(false);
            }
            Frame::Ping => {
                self.question = Some(packet.number);
                self.schedule_feedback(packet);
            }
            _ if refused => {}
            Frame::Cancel {
                stream,
                error,
                final_offset,
            } => self.streams.on_cancel(stream, error, final_offset)?,
            Frame::Stop { stream, error } => self.streams.on_stop(stream, error)?,
            Frame::StreamLimit { stream, limit } => self.streams.on_stream_limit(stream, limit)?,
            Frame::Streams { count } => self.streams.on_streams(count),
            Frame::Token(token) => self.notify(Event::Token(token)),
            Frame::PathChallenge(data) => self.response_due = Some(data),
            Frame::PathResponse(data) => self.path.on_response(data),
            Frame::Train { packets } => {
                self.on_train(packets, packet.early);
                self.schedule_feedback(packet);
            }
            Frame::Data(data) => {
                let before = self.streams.recv_buffered();
                self.streams.on_data(
                    data.stream,
                    data.offset,
                    data.total,
                    data.fin,
                    data.bytes,
                    packet.early,
                )?;
                if self.streams.recv_buffered() > before && self.question != Some(packet.number) {
                    self.last_news_at = now;
                }
            }
        }
        Ok(true)
    }

    fn close_for_violation(&mut self, now: Timestamp, violation: &Violation) {
        let (error, reason) = match violation {
            Violation::Frame(error) => (ERROR_MALFORMED, error.to_string()),
            Violation::Stream(error @ StreamViolation::Limit) => (ERROR_LIMIT, error.to_string()),
            Violation::Stream(error) => (ERROR_MALFORMED, error.to_string()),
        };
        let event = CloseReason::PeerViolation {
            error,
            reason: reason.clone(),
        };
        self.close_with(now, error, reason, event);
    }

    /// Processes the peer's report and grant (transport.md sections 5.1, 5.3, 6).
    fn process_feedback(&mut self, now: Timestamp, packet: Incoming, feedback: &Feedback) {
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
            let sample = elapsed.saturating_sub(hold).max(Duration::from_micros(100));
            let queue = self
                .controller
                .queue_of(now, packet.stamp, ByteCount::new(packet.size));
            self.rtt.on_sample(now, sample, queue);
            if let Some(meter) = &mut self.link_meter {
                meter.on_rtt(sample);
            }
            self.adjust_to_rtt(now);
        }
        let mut progress = report.progress;
        if progress {
            self.last_news_at = now;
        }
        if report.acked_packets > 0 {
            self.unheard = 0;
        }
        self.report_losses(now, report.acked_packets, report.lost_packets);
        self.apply_report(now, report);
        self.apply_grant(now, feedback);
        if progress {
            self.measure_delivery(now, hold);
        }
        let rate = self.granted.rate.min(self.granted.delivered);
        let packet_time = rate.transmission_time(FULL_PACKET, LONGEST_PACKET_TIME);
        // The receiver waits longer than this, because it adds the jitter that it measures; the margin covers
        // the difference of the two rate estimates.
        let margin = TAIL_SLACK.max(packet_time / 2);
        // Feedback that the link held back describes the time before the link delivered the other packets.
        let was_held = packet.was_held
            && now.saturating_since(self.resumed_at) < self.rtt.smoothed() * 4 + Duration::from_secs(1);
        if hold > margin && !was_held && !self.is_ordered() {
            let tail = self
                .sent_packets
                .lose_tail(hold, margin, sent_largest, rate, self.tail_limit(now));
            progress |= tail.progress;
            self.note_unheard(tail.lost_packets);
            self.report_losses(now, 0, tail.lost_packets);
            self.apply_report(now, tail);
        }
        if progress {
            self.prober.on_progress(now);
        }
        if self.has_credit() {
            self.granted.persist = Duration::ZERO;
        }
    }

    /// Records that the peer has not received the newest packets. An agent that has nothing to repeat asks again at once.
    fn note_unheard(&mut self, lost_packets: u64) {
        if lost_packets == 0 || self.is_gateway() {
            return;
        }
        self.unheard = self.unheard.saturating_add(1);
        self.ping_due |= self.unheard < UNHEARD && !self.sent_packets.is_awaiting();
    }

    /// Applies the peer's grant, reduced by the circuit breaker (transport.md section 5.1).
    fn apply_grant(&mut self, now: Timestamp, feedback: &Feedback) {
        let halvings = self.breaker.halvings();
        if halvings == 0 && self.keeps_first_flight(feedback.credit) {
            return;
        }
        let rate = feedback.rate.rate().min(self.config.max_rate);
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

    /// Returns true for the gateway, which limits what it sends to unvalidated addresses; the agent keeps NAT
    /// mappings alive.
    pub(super) const fn is_gateway(&self) -> bool {
        matches!(self.role, Role::Gateway)
    }
}
