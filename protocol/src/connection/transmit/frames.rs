//! The frames of a packet, each as far as the packet has room (transport.md section 4).
use std::time::Duration;

use longhaul_types::{ByteCount, Priority, Timestamp};

use super::{FEEDBACK_LEN, GAP_LEN, Packet, permit::Permit};
use crate::{
    connection::{Connection, IP_UDP_HEADERS, Keys},
    recovery::SentContent,
    streams::{Origin, StreamRequest},
    wire::{Data, DataHeader, Datagram, Extent, Feedback, Frame, RateFloat, TAG_LEN, stamp, varint},
};

/// Least remaining space for another DATA frame.
const WORTHWHILE: usize = 16;
/// Largest encoding of a control frame of the streams: type and three varints.
const REQUEST_LEN: usize = 25;

/// End of the last DATA frame of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataEnd {
    /// The end of the packet.
    EndOfPacket,
    /// The length in the frame, so that padding can follow.
    Delimited,
}

/// Whether the packet takes further frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    More,
    Full,
}

impl Connection {
    pub(super) fn write_feedback(&mut self, now: Timestamp, packet: &mut Packet<'_>) {
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
        let mut grant = self.controller.grant(now, room);
        grant.rate = self.within_limit(grant.rate);
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
        packet.reports = true;
        self.controller.on_granted(now, &grant);
        self.pending_ack.pending = false;
        self.pending_ack.now = false;
        self.pending_ack.little_room =
            Some(self.room()).filter(|room| *room < self.config.receive_buffer.bytes() / 8);
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

    pub(super) fn write_forward(&self, number: u64, packet: &mut Packet<'_>) {
        let floor = self.sent_packets.floor().min(number);
        if self.sent_packets.forward_due() && packet.room() > 9 {
            Frame::Forward {
                distance: number - floor,
            }
            .encode(packet.out);
        }
    }

    pub(super) fn write_path(&mut self, now: Timestamp, packet: &mut Packet<'_>) {
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

    pub(super) fn write_ping(&mut self, permit: Permit, packet: &mut Packet<'_>) {
        let probe = matches!(permit, Permit::Probe(_));
        if packet.room() > 0 && (std::mem::take(&mut self.ping_due) || probe) {
            packet.push(&Frame::Ping);
        }
        while packet.room() > 1
            && let Some(packets) = self.probing.train_due.take()
        {
            packet.push(&Frame::Train { packets });
            self.probing.train_due = self.probing.warm_up.take_train();
        }
    }

    /// Pads the packet after a network change: an unvalidated address gets three times the bytes received
    /// from it.
    pub(super) fn write_padding(&mut self, start: usize, packet: &mut Packet<'_>) {
        self.pad_due = false;
        let size = self.short_packet().min(packet.end + TAG_LEN - start);
        let end = (start + size).saturating_sub(TAG_LEN);
        if packet.out.len() < end {
            // PAD is a zero byte, as are all bytes after it.
            packet.out.resize(end, 0);
        }
    }

    /// Fills the packet: with data if the credit permits a full packet, and with padding.
    pub(super) fn write_full(&mut self, now: Timestamp, packet: &mut Packet<'_>) {
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

    pub(super) fn write_requests(&mut self, packet: &mut Packet<'_>) {
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

    pub(super) fn write_token(&mut self, packet: &mut Packet<'_>) {
        if packet.room() >= 33
            && let Some(token) = self.tokens.pop_front()
        {
            packet.push(&Frame::Token(token));
            packet.contents.push(SentContent::Token(token));
        }
    }

    /// Writes data. The scheduler selects the stream here, as late as possible (section 4.2).
    pub(super) fn write_data(&mut self, now: Timestamp, packet: &mut Packet<'_>) {
        self.write_frames_of_data(now, packet, DataEnd::EndOfPacket);
    }

    fn write_frames_of_data(&mut self, now: Timestamp, packet: &mut Packet<'_>, end: DataEnd) {
        let mut charged = false;
        while let Some(id) = self.streams.next_sender() {
            if let Some(class) = self.streams.datagram_class(id) {
                let before = self.stats.datagrams_sent;
                let progress = self.write_datagram(class, packet, end);
                if self.stats.datagrams_sent > before && !charged {
                    charged = true;
                    self.streams.charge(class, now);
                }
                match progress {
                    Progress::More => continue,
                    Progress::Full => return,
                }
            }
            let Some(sender) = self.streams.sender(id) else {
                return;
            };
            let (offset, total) = (sender.next_offset(), sender.total_to_send());
            let class = sender.priority();
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
                self.streams.charge(class, now);
            }
            packet.contents.push(SentContent::Data {
                stream: id,
                range: segment.range.clone(),
                fin: segment.fin,
            });
            (packet.eliciting, packet.asks) = (true, true);
            let is_last =
                (max as u64).saturating_sub(len) < WORTHWHILE as u64 || self.streams.next_sender().is_none();
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

    /// Writes the next datagram of a class, if it fits.
    fn write_datagram(&mut self, class: Priority, packet: &mut Packet<'_>, end: DataEnd) -> Progress {
        let Some(len) = self.streams.next_datagram_len(class) else {
            return Progress::Full;
        };
        let length_field = varint::len(len as u64);
        let needed = match end {
            DataEnd::EndOfPacket => 1 + len,
            DataEnd::Delimited => 1 + length_field + len,
        };
        let Some(left) = packet.room().checked_sub(needed) else {
            // It is the first one of the next packet. If it does not fit a packet with nothing else, it never does.
            if packet.eliciting || packet.reports {
                return Progress::Full;
            }
            self.streams.drop_datagram(class);
            return Progress::More;
        };
        let Some(bytes) = self.streams.take_datagram(class) else {
            return Progress::Full;
        };
        self.stats.datagrams_sent += 1;
        let is_last = left < length_field + WORTHWHILE || self.streams.next_sender().is_none();
        let extent = if is_last && end == DataEnd::EndOfPacket {
            Extent::ToEnd
        } else {
            Extent::Delimited
        };
        Datagram(&bytes).encode(extent, packet.out);
        packet.eliciting = true;
        if is_last { Progress::Full } else { Progress::More }
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
}
