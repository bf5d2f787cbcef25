//! Packets to the peer: permission to send, and the frames in their order (transport.md sections 2, 4, 6).
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, Timestamp};

use super::{Connection, IP_UDP_HEADERS, Keys, Lifecycle, STAMP_LEN};
use crate::{
    path::Path,
    recovery::SentContent,
    streams::{Origin, StreamRequest},
    wire::{
        Activity, Data, DataHeader, Feedback, Frame, IndexLength, KeyPhase, KeySpace, RateFloat,
        ReceiverIndex, ShortHeader, Stamp, TAG_LEN, stamp, varint,
    },
};

/// Least remaining space for another DATA frame.
const WORTHWHILE: u64 = 16;
/// UDP payload of a probe during a stall: a minute of probes is less than 4 kB (transport.md section 7.3).
const STALL_PROBE: usize = 62;
/// UDP payload of a packet with path frames, exempt from credit, with feedback.
const PATH_PACKET: usize = 110;
/// Transmission time, and least UDP payload, to which the first packet after a network change is
/// padded. The first packet after a stall is at most as large.
const SHORT_TIME: Duration = Duration::from_millis(100);
const SHORT_LEAST: usize = 400;
/// Bytes of an INIT and its headers without the early frames.
const INIT_OVERHEAD: u64 = 220;
/// Largest encodings of FEEDBACK without gaps and of one gap.
const FEEDBACK_LEN: usize = 24;
const GAP_LEN: usize = 4;
/// Largest encoding of a control frame of the streams: type and three varints.
const REQUEST_LEN: usize = 25;

/// Permission to send a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permit {
    /// Credit and pacer permit this UDP payload.
    Paced(usize),
    /// A probe of this UDP payload, exempt from credit and pacing (section 5.3).
    Probe(usize),
    /// A packet of exactly this UDP payload that measures the link, exempt from pacing (section 6.1).
    Full(usize),
    /// Only feedback and FORWARD (section 6).
    FeedbackOnly,
}

/// End of the last DATA frame of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataEnd {
    /// The end of the packet.
    EndOfPacket,
    /// The length in the frame, so that padding can follow.
    Delimited,
}

/// A packet under construction.
struct Packet<'a> {
    out: &'a mut Vec<u8>,
    /// Length at which the frames must end.
    end: usize,
    contents: Vec<SentContent>,
    /// True if the packet is eliciting.
    eliciting: bool,
    /// True if the packet requests feedback at once.
    pings: bool,
}

impl Packet<'_> {
    fn room(&self) -> usize {
        self.end.saturating_sub(self.out.len())
    }

    /// Adds an eliciting frame.
    fn push(&mut self, frame: &Frame<'_>) {
        frame.encode(self.out);
        self.eliciting = true;
        self.pings |= matches!(frame, Frame::Ping | Frame::Train { .. });
    }
}

impl Connection {
    /// Appends the frames of the agent's INIT, at most `budget` bytes, as packet number 0.
    pub(crate) fn init_frames(&mut self, now: Timestamp, budget: usize, out: &mut Vec<u8>) {
        let Keys::Early { early, init_sent } = &mut self.keys else {
            return;
        };
        if std::mem::replace(init_sent, true) {
            return;
        }
        let allowed = early.is_some();
        let end = out.len() + budget;
        let start = out.len();
        let mut packet = Packet {
            out,
            end,
            contents: Vec::new(),
            eliciting: false,
            pings: false,
        };
        if allowed {
            self.write_requests(&mut packet);
            self.write_data(now, &mut packet);
        }
        let Packet {
            contents, eliciting, ..
        } = packet;
        let size = if eliciting {
            (out.len() - start) as u64 + INIT_OVERHEAD
        } else {
            0
        };
        self.sent_packets.on_sent(now, size, contents);
        self.pacer.on_sent(ByteCount::new(size));
        self.last_sent_at = now;
        self.after_init(now);
        self.rearm();
    }

    /// Appends at most one packet to `out` and returns the destination. Bytes already in `out` (a RESP) count
    /// for the datagram's size.
    pub(crate) fn poll_transmit(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Option<Path> {
        if self.blocked {
            return None;
        }
        let sent = match &self.lifecycle {
            Lifecycle::Open => self.transmit_open(now, out),
            Lifecycle::Closing { due: true, .. } => self.transmit_close(now, out),
            Lifecycle::Closing { .. } | Lifecycle::Draining | Lifecycle::Drained => None,
        };
        self.rearm();
        sent
    }

    fn transmit_open(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Option<Path> {
        if let Some(path) = self.transmit_probing(now, out) {
            return Some(path);
        }
        let permit = self.permit(now, out.len())?;
        // After a stall the peer needs feedback to know which packets arrived before the stall.
        let after_stall = matches!(permit, Permit::Probe(_)) && self.pending_ack.echo.is_some();
        let feedback =
            self.feedback_at().is_some_and(|at| at <= now) || self.should_piggyback(now) || after_stall;
        let limit = match permit {
            Permit::Paced(limit) => self.mtu_probe(now, limit, out).unwrap_or(limit),
            Permit::Probe(limit) | Permit::Full(limit) => limit,
            Permit::FeedbackOnly => self.datagram_limit(),
        };
        let number = self.sent_packets.next_number();
        let (start, header_len) = (out.len(), self.header_len());
        out.resize(start + header_len, 0);
        out.extend_from_slice(&Stamp::of(now).raw().to_be_bytes()[1..]);
        let mut packet = Packet {
            end: limit.saturating_sub(TAG_LEN),
            out,
            contents: Vec::new(),
            eliciting: false,
            pings: false,
        };
        if feedback {
            self.write_feedback(now, &mut packet);
        }
        self.write_forward(number, &mut packet);
        if permit != Permit::FeedbackOnly {
            self.write_path(now, &mut packet);
            self.write_ping(permit, &mut packet);
            self.write_requests(&mut packet);
            self.write_token(&mut packet);
            // The last DATA frame extends to the packet's end, where padding would be: a packet contains only
            // one of them.
            if self.pad_due {
                self.write_padding(start, &mut packet);
            } else if matches!(permit, Permit::Full(_)) {
                self.write_full(now, &mut packet);
            } else {
                self.write_data(now, &mut packet);
            }
        }
        let empty = packet.out.len() == start + header_len + STAMP_LEN;
        let Packet {
            contents,
            eliciting,
            pings,
            ..
        } = packet;
        if empty {
            out.truncate(start);
            return None;
        }
        let activity = if self.wants_packet_now(now) {
            Activity::More
        } else {
            Activity::Idle
        };
        self.seal(now, number, activity, out, start, header_len);
        if eliciting {
            // Answered at once, as an IDLE packet is.
            let answered = if pings { Activity::Idle } else { activity };
            self.on_eliciting_packet(now, answered, (out.len() - start) as u64);
        }
        let size = out.len() - start;
        if size > self.mtu.payload() {
            self.mtu.on_probe(size);
        }
        self.on_sent(now, permit, size as u64, eliciting, contents);
        Some(self.path.remote)
    }

    /// UDP payload of a probe for a larger path MTU (section 7.5), if the available data fills the probe.
    fn mtu_probe(&self, now: Timestamp, limit: usize, out: &[u8]) -> Option<usize> {
        let size = self.mtu.candidate(now)?;
        let sendable = self.streams.sendable(self.streams.next_sender()?);
        let credit = self
            .granted
            .credit
            .saturating_sub(self.sent_packets.outstanding());
        let is_free = matches!(self.keys, Keys::Full { .. })
            && limit == self.mtu.payload()
            && out.is_empty()
            && !self.pad_due
            && self.path_budget() >= size as u64
            && credit >= size as u64 + IP_UDP_HEADERS
            && sendable >= size as u64;
        is_free.then_some(size)
    }

    /// Returns the permission to send a packet now.
    fn permit(&mut self, now: Timestamp, used: usize) -> Option<Permit> {
        if matches!(self.keys, Keys::Early { .. }) {
            if self.can_send_early() && self.probing.padding_due {
                return Some(Permit::Full(self.mtu.payload()));
            }
            let open = self.can_send_early() && self.streams.has_output() && self.pacer.is_open(now);
            let limit = open.then(|| self.credit_limit()).flatten()?;
            return Some(Permit::Paced(limit.min(self.mtu.payload())));
        }
        let limit = self.datagram_limit();
        if limit < used + self.header_len() + STAMP_LEN + TAG_LEN + FEEDBACK_LEN {
            return None;
        }
        if self.prober.due {
            // On an ordered path nothing is lost that a probe could repeat: it only elicits feedback.
            if self.is_ordered() {
                return Some(Permit::Probe((used + STALL_PROBE).min(limit)));
            }
            let size = match (self.pad_due, self.prober.is_thin(), self.prober.resuming) {
                (false, true, _) => used + STALL_PROBE,
                (false, false, true) => used + self.short_packet(),
                (true, ..) | (false, false, false) => limit,
            };
            return Some(Permit::Probe(size.min(limit)));
        }
        // Address validation must not wait for credit, which only a validated address gets.
        if self.response_due.is_some() || self.path.challenge_due(now).is_some() {
            return Some(Permit::Paced(limit.min(used + PATH_PACKET)));
        }
        // The RESP leaves before its pair, in a datagram of its own or with data.
        if self.probing.has_full_packet() && used == 0 && limit == self.mtu.payload() {
            return Some(Permit::Full(limit));
        }
        let is_feedback_due = self.feedback_at().is_some_and(|at| at <= now);
        // Data that is sent slightly early saves a packet for feedback; the mean rate is unchanged.
        if self.prober.stalled_since.is_none()
            && self.wants_packet_now(now)
            && (self.pacer.is_open(now) || is_feedback_due && self.pacer.is_open_soon(now))
            && let Some(credit) = self.credit_limit()
        {
            return Some(Permit::Paced(limit.min(credit)));
        }
        is_feedback_due.then_some(Permit::FeedbackOnly)
    }

    /// Amplification limit in bytes; only a gateway limits what it sends to unvalidated addresses (section
    /// 7.2).
    pub(super) fn path_budget(&self) -> u64 {
        if self.is_gateway() {
            self.path.budget()
        } else {
            u64::MAX
        }
    }

    /// Maximum UDP payload of a datagram by path MTU and amplification limit (section 7.2).
    fn datagram_limit(&self) -> usize {
        usize::try_from(self.path_budget())
            .unwrap_or(usize::MAX)
            .min(self.mtu.payload())
    }

    /// Returns true if pending output needs a packet of its own.
    pub(super) fn wants_packet(&self) -> bool {
        self.streams.has_output()
            || self.ping_due
            || self.probing.train_due.is_some()
            || self.response_due.is_some()
            || !self.tokens.is_empty()
    }

    fn wants_packet_now(&self, now: Timestamp) -> bool {
        self.wants_packet() || self.path.challenge_due(now).is_some()
    }

    /// Returns true if the credit permits a packet for the pending output.
    pub(super) fn has_credit(&self) -> bool {
        self.credit_limit().is_some()
    }

    /// UDP payload that the credit permits, if a full packet or all pending output fits.
    fn credit_limit(&self) -> Option<usize> {
        let left = self
            .granted
            .credit
            .saturating_sub(self.sent_packets.outstanding());
        let full = self.mtu.payload() as u64 + IP_UDP_HEADERS;
        if left >= full {
            return Some(self.mtu.payload());
        }
        let waiting = self
            .streams
            .next_sender()
            .map_or(0, |id| self.streams.sendable(id));
        let needed =
            waiting + IP_UDP_HEADERS + (self.header_len() + STAMP_LEN + TAG_LEN + FEEDBACK_LEN) as u64 + 64;
        let payload = usize::try_from(left.saturating_sub(IP_UDP_HEADERS)).unwrap_or(0);
        (needed <= left).then_some(payload)
    }

    /// Returns true if half the feedback interval has passed, so that feedback is piggybacked.
    fn should_piggyback(&self, now: Timestamp) -> bool {
        self.pending_ack.pending
            && self.pending_ack.echo.is_some()
            && self
                .pending_ack
                .last
                .is_none_or(|last| now.saturating_since(last) * 2 >= self.controller.feedback_interval())
    }

    pub(super) const fn header_len(&self) -> usize {
        match self.keys {
            Keys::Early { .. } => IndexLength::Gateway.header_len(),
            Keys::Full { peer, .. } => match peer {
                ReceiverIndex::Agent(_) => IndexLength::Agent.header_len(),
                ReceiverIndex::Gateway(_) => IndexLength::Gateway.header_len(),
            },
        }
    }

    /// Writes the header before the frames and seals the packet.
    pub(super) fn seal(
        &mut self,
        now: Timestamp,
        number: u64,
        activity: Activity,
        out: &mut Vec<u8>,
        start: usize,
        header_len: usize,
    ) {
        let acknowledged = self.sent_packets.largest();
        let (key, phase, keys, index) = match &mut self.keys {
            Keys::Early {
                early: Some(early), ..
            } => (
                &early.key,
                KeyPhase::Even,
                KeySpace::Early,
                ReceiverIndex::Gateway(early.index),
            ),
            Keys::Early { early: None, .. } => {
                out.truncate(start);
                return;
            }
            Keys::Full { phases, peer, .. } => {
                let (key, phase) = phases.sealing(now, number, acknowledged, self.config.rekey);
                (key, phase, KeySpace::Full, *peer)
            }
        };
        let header = ShortHeader {
            keys,
            phase,
            activity,
            index,
            truncated: u32::try_from(number & 0x00ff_ffff).unwrap_or(0),
        };
        let (encoded, len) = header.to_bytes();
        if let Some(place) = out.get_mut(start..start + len) {
            place.copy_from_slice(&encoded[..len]);
        }
        key.seal(number, out, start, start + header_len);
    }

    /// Records an eliciting packet of `len` bytes before it is sent.
    fn on_eliciting_packet(&mut self, now: Timestamp, activity: Activity, len: u64) {
        self.last_eliciting = activity;
        if self.sent_packets.is_awaiting() {
            return;
        }
        // An idle time says nothing about the path's rate, and the queue in SRTT has drained.
        self.granted.delivered_from = None;
        let rate = self.granted.rate.bit_rate().max(BitRate::bps(1));
        let sending = ByteCount::new(len + IP_UDP_HEADERS) / rate;
        // While data arrives, the queue of the other direction persists.
        if now.saturating_since(self.last_received_at) > self.rtt.smoothed() * 4 {
            self.rtt.after_idle(now, sending);
        }
    }

    fn on_sent(
        &mut self,
        now: Timestamp,
        permit: Permit,
        len: u64,
        eliciting: bool,
        contents: Vec<SentContent>,
    ) {
        let size = len + IP_UDP_HEADERS;
        let was_awaiting = self.sent_packets.is_awaiting();
        self.sent_packets
            .on_sent(now, if eliciting { size } else { 0 }, contents);
        self.path.on_sent(len);
        self.last_sent_at = now;
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += size;
        if matches!(permit, Permit::Probe(_)) {
            self.prober
                .on_probe_sent(self.sent_packets.next_number().checked_sub(1));
            self.stats.probes += 1;
        }
        let is_full = matches!(permit, Permit::Full(_));
        if is_full {
            self.probing.on_full_packet();
        }
        if eliciting {
            if !is_full {
                self.pacer.on_sent(ByteCount::new(size));
            }
            self.prober.on_sent(now, was_awaiting);
        } else if !is_full {
            self.stats.feedback_bytes_sent += size;
        }
    }

    fn write_feedback(&mut self, now: Timestamp, packet: &mut Packet<'_>) {
        let (Some((echo, arrived)), Some(largest)) = (self.pending_ack.echo, self.gaps.largest()) else {
            return;
        };
        // A gap takes 2 to 4 bytes; gaps that do not fit are left out of this report.
        if packet.room() < FEEDBACK_LEN {
            return;
        }
        // Missing data must always be able to arrive, or a full buffer would never empty; without gaps a full
        // buffer stops the sender.
        let least = if self.streams.has_holes() || self.room() > 0 {
            2 * self.mtu.payload() as u64 + 64
        } else {
            0
        };
        let room = ByteCount::new(self.room().max(least));
        let grant = self.controller.grant(now, room);
        let feedback = Feedback {
            largest: u32::try_from(largest & 0x00ff_ffff).unwrap_or(0),
            echo,
            hold: stamp::hold(now.saturating_since(arrived)),
            credit: grant.credit.bytes(),
            rate: RateFloat::of(grant.rate),
            gaps: self
                .gaps
                .report(packet.room().saturating_sub(FEEDBACK_LEN) / GAP_LEN),
        };
        let before = packet.out.len();
        Frame::Feedback(feedback).encode(packet.out);
        if packet.out.len() > packet.end {
            packet.out.truncate(before);
            return;
        }
        self.controller.on_granted(now, &grant);
        self.pending_ack.pending = false;
        self.pending_ack.now = false;
        self.pending_ack.soon = false;
        self.pending_ack.last = Some(now);
        // A receiver without recent RTT samples sends PING now and then, because its window depends on the
        // RTT; but not if this grant covers all remaining data, since the answer would only follow the end of
        // the transfer.
        let refresh = (self.rtt.smoothed() * 20).max(Duration::from_secs(10));
        let stale = self
            .rtt
            .last_sample_at()
            .is_none_or(|at| now.saturating_since(at) > refresh);
        let is_used =
            self.controller.sender_has_backlog() && self.streams.awaits_more_than(grant.credit.bytes());
        if stale && is_used && !self.sent_packets.is_awaiting() && packet.room() > 0 {
            packet.push(&Frame::Ping);
        }
    }

    fn write_forward(&self, number: u64, packet: &mut Packet<'_>) {
        let floor = self.sent_packets.floor().min(number);
        if self.sent_packets.forward_due() && packet.room() > 9 {
            Frame::Forward {
                distance: number - floor,
            }
            .encode(packet.out);
        }
    }

    fn write_path(&mut self, now: Timestamp, packet: &mut Packet<'_>) {
        if packet.room() < 18 {
            return;
        }
        if let Some(data) = self.response_due.take() {
            packet.push(&Frame::PathResponse(data));
        }
        if let Some(data) = self.path.challenge_due(now) {
            self.path.challenge_sent(now, self.rtt.smoothed() * 2);
            packet.push(&Frame::PathChallenge(data));
        }
    }

    fn write_ping(&mut self, permit: Permit, packet: &mut Packet<'_>) {
        let probe = matches!(permit, Permit::Probe(_));
        if packet.room() > 0 && (std::mem::take(&mut self.ping_due) || probe) {
            packet.push(&Frame::Ping);
        }
        if packet.room() > 1
            && let Some(packets) = self.probing.train_due.take()
        {
            packet.push(&Frame::Train { packets });
        }
    }

    /// UDP payload with a short transmission time at the granted rate and space for some data.
    fn short_packet(&self) -> usize {
        let size = self.granted.rate.amount_in(SHORT_TIME);
        size.as_usize()
            .clamp(SHORT_LEAST, self.mtu.payload().max(SHORT_LEAST))
    }

    /// Pads the packet after a network change: an unvalidated address gets three times the bytes received
    /// from it.
    fn write_padding(&mut self, start: usize, packet: &mut Packet<'_>) {
        self.pad_due = false;
        let size = self.short_packet().min(packet.end + TAG_LEN - start);
        let end = (start + size).saturating_sub(TAG_LEN);
        if packet.out.len() < end {
            // PAD is a zero byte, as are all bytes after it.
            packet.out.resize(end, 0);
        }
    }

    /// Fills the packet: with data if the credit permits a full packet, and with padding.
    fn write_full(&mut self, now: Timestamp, packet: &mut Packet<'_>) {
        let left = self
            .granted
            .credit
            .saturating_sub(self.sent_packets.outstanding());
        if left >= self.mtu.payload() as u64 + IP_UDP_HEADERS {
            self.write_frames_of_data(now, packet, DataEnd::Delimited);
        }
        // PAD is a zero byte, as are all bytes after it.
        packet.out.resize(packet.end.max(packet.out.len()), 0);
    }

    fn write_requests(&mut self, packet: &mut Packet<'_>) {
        while packet.room() >= REQUEST_LEN {
            let Some(request) = self.streams.next_request() else {
                return;
            };
            let frame = match request {
                StreamRequest::Cancel {
                    stream,
                    error,
                    final_offset,
                } => Frame::Cancel {
                    stream,
                    error,
                    final_offset,
                },
                StreamRequest::Stop { stream, error } => Frame::Stop { stream, error },
                StreamRequest::Limit { stream, limit } => Frame::StreamLimit { stream, limit },
                StreamRequest::Count { count } => Frame::Streams { count },
            };
            packet.push(&frame);
            let sent = self.streams.on_request_sent(&request);
            packet.contents.push(SentContent::Control(sent));
        }
    }

    fn write_token(&mut self, packet: &mut Packet<'_>) {
        if packet.room() >= 33
            && let Some(token) = self.tokens.pop_front()
        {
            packet.push(&Frame::Token(token));
            packet.contents.push(SentContent::Token(token));
        }
    }

    /// Writes data. The scheduler selects the stream here, as late as possible (section 4.2).
    fn write_data(&mut self, now: Timestamp, packet: &mut Packet<'_>) {
        self.write_frames_of_data(now, packet, DataEnd::EndOfPacket);
    }

    fn write_frames_of_data(&mut self, now: Timestamp, packet: &mut Packet<'_>, end: DataEnd) {
        let mut charged = false;
        while let Some(id) = self.streams.next_sender() {
            let Some(sender) = self.streams.sender(id) else {
                return;
            };
            let (offset, total) = (sender.next_offset(), sender.total_to_send());
            let length = match end {
                DataEnd::EndOfPacket => 0,
                DataEnd::Delimited => varint::len(packet.room() as u64),
            };
            let header = Data::header_len(id, offset, total, 0) - varint::len(0) + length;
            let Some(max) = packet.room().checked_sub(header).filter(|max| *max > 0) else {
                return;
            };
            let Some(segment) = self.streams.take_segment(id, max as u64) else {
                return;
            };
            let len = segment.range.end - segment.range.start;
            if segment.origin == Origin::Retransmission {
                self.stats.retransmitted_bytes += len;
            } else if !charged {
                charged = true;
                self.streams.charge(id, now);
            }
            packet.contents.push(SentContent::Data {
                stream: id,
                range: segment.range.clone(),
                fin: segment.fin,
            });
            packet.eliciting = true;
            let is_last =
                (max as u64).saturating_sub(len) < WORTHWHILE || self.streams.next_sender().is_none();
            let pings =
                segment.fin && self.ends_request_among_others(is_last, (max as u64).saturating_sub(len));
            let header = DataHeader {
                stream: id,
                offset: segment.range.start,
                total: segment.total,
                fin: segment.fin,
                length: (!is_last || pings || end == DataEnd::Delimited).then_some(len),
            };
            header.encode(packet.out);
            self.streams.copy_segment(id, &segment.range, packet.out);
            if pings && packet.room() > 0 {
                packet.push(&Frame::Ping);
            }
            if is_last {
                return;
            }
        }
    }

    /// Returns true if a frame that ends a request needs PING, because more output follows and the packet is therefore not
    /// answered at once (section 5.3). Only an agent asks: its packets are few, and the answers use the downlink. `left`
    /// bytes remain in the packet behind the frame without its length.
    fn ends_request_among_others(&self, is_last: bool, left: u64) -> bool {
        const LENGTH_AND_PING: u64 = 3;
        !self.is_gateway()
            && matches!(self.keys, Keys::Full { .. })
            && self.streams.next_sender().is_some()
            && (!is_last || left >= LENGTH_AND_PING)
    }

    fn transmit_close(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Option<Path> {
        let number = self.sent_packets.next_number();
        let (start, header_len) = (out.len(), self.header_len());
        let Lifecycle::Closing {
            error, reason, due, ..
        } = &mut self.lifecycle
        else {
            return None;
        };
        *due = false;
        out.resize(start + header_len, 0);
        out.extend_from_slice(&Stamp::of(now).raw().to_be_bytes()[1..]);
        Frame::Close {
            error: *error,
            reason,
        }
        .encode(out);
        self.sent_packets.on_sent(now, 0, Vec::new());
        self.seal(now, number, Activity::More, out, start, header_len);
        let len = (out.len() - start) as u64;
        if len > self.path_budget() {
            out.truncate(start);
            return None;
        }
        self.path.on_sent(len);
        Some(self.path.remote)
    }
}
