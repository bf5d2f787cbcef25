//! Packets to the peer: permission to send, and the frames in their order (transport.md sections 2, 4, 6).
use longhaul_types::{BitRate, ByteCount, Timestamp};

use self::permit::Permit;
use super::{Connection, IP_UDP_HEADERS, Keys, Lifecycle, STAMP_LEN};
use crate::{
    path::Path,
    recovery::SentContent,
    wire::{Activity, Frame, IndexLength, KeyPhase, KeySpace, ReceiverIndex, ShortHeader, Stamp, TAG_LEN},
};

mod frames;
mod permit;

/// Bytes of an INIT and its headers without the early frames.
const INIT_OVERHEAD: u64 = 220;
/// Largest encoding of FEEDBACK without gaps.
const FEEDBACK_LEN: usize = 24;
/// Largest encoding of one gap in FEEDBACK.
const GAP_LEN: usize = 4;

/// A packet under construction.
struct Packet<'a> {
    out: &'a mut Vec<u8>,
    /// Length at which the frames must end.
    end: usize,
    contents: Vec<SentContent>,
    /// True if the packet is eliciting.
    eliciting: bool,
    /// True if the packet contains an eliciting frame besides DATAGRAM.
    asks: bool,
    /// True if the packet requests feedback at once.
    pings: bool,
    /// True if the packet contains FEEDBACK.
    reports: bool,
}

impl Packet<'_> {
    fn room(&self) -> usize {
        self.end.saturating_sub(self.out.len())
    }

    /// Adds an eliciting frame.
    fn push(&mut self, frame: &Frame<'_>) {
        frame.encode(self.out);
        (self.eliciting, self.asks) = (true, true);
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
            asks: false,
            pings: false,
            reports: false,
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
        self.streams.expire_datagrams(now);
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
            asks: false,
            pings: false,
            reports: false,
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
            asks,
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
            // Answered at once, as an IDLE packet is; datagrams are answered at the usual interval.
            let answered = match (pings, asks) {
                (true, _) => Activity::Idle,
                (false, true) => activity,
                (false, false) => Activity::More,
            };
            self.on_eliciting_packet(now, answered, (out.len() - start) as u64);
        }
        let size = out.len() - start;
        if size > self.mtu.payload() {
            self.mtu.on_probe(size);
        }
        self.on_sent(now, permit, size as u64, eliciting, contents);
        Some(self.path.remote)
    }

    pub(in crate::connection) const fn header_len(&self) -> usize {
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
        if !self.is_gateway() {
            let (number, bytes) = (
                self.sent_packets.next_number() - 1,
                self.sent_packets.sent_bytes(),
            );
            self.late_packets.on_sent(now, number, bytes, self.rtt.smoothed());
        }
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
        } else {
            self.probing.on_paced_packet();
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
