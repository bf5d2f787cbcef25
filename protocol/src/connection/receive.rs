//! Packets from the peer (transport.md sections 2, 4, 5).
mod feedback;
mod frames;

use std::time::Duration;

use longhaul_types::{ByteCount, Timestamp};

use self::frames::Elicits;
use super::{
    Connection, IP_UDP_HEADERS, Keys, Lifecycle, held_packets::HeldPacketDetector, link_meter::Observation,
    mtu::path_mtu, path::PeerPath, path_probe::is_probing,
};
use crate::{
    congestion::PacketSample,
    endpoint::Event,
    path::Path,
    recovery::Arrival,
    wire::{Activity, KeySpace, ShortHeader, Stamp, expand_packet_number},
};

/// Least time without declared losses after a silence: base stations deliver packets late that they held back
/// (transport.md section 5.2).
const STALL_PATIENCE: Duration = Duration::from_millis(50);

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
        if !matches!(self.lifecycle, Lifecycle::Open) {
            self.on_late_packet();
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
        let arrival = self.record_arrival(now, packet);
        if self.is_gateway() {
            self.measure_uplink(now, number, packet.size);
        }
        self.process_frames(now, packet, arrival, frames);
        if !self.is_gateway() && matches!(self.lifecycle, Lifecycle::Open) {
            self.measure_link(now, stamp, packet.size);
            self.warm_up(packet.size);
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

    /// Records the arrival of a packet for acknowledgement, and ends a stall.
    fn record_arrival(&mut self, now: Timestamp, packet: Incoming) -> Arrival {
        let silence = now.saturating_since(self.last_received_at);
        self.on_authenticated(now);
        let overfull = self.streams.recv_buffered() > 2 * self.config.receive_buffer.bytes();
        let arrival = if overfull {
            Arrival::Refused
        } else {
            self.gaps.on_packet(now, packet.number)
        };
        self.note_overtaking(now);
        if arrival == Arrival::OpenedGap && silence > self.rtt.smoothed() * 2 {
            let wait = (self.controller.packet_time() * 2).max(STALL_PATIENCE);
            self.gaps.be_patient(now + wait);
        }
        if silence > Duration::from_secs(1).max(self.rtt.smoothed() * 3) {
            self.pending_ack.now |= self.controller.sender_has_backlog();
        }
        if self.gaps.largest() == Some(packet.number) {
            self.pending_ack.echo = Some((packet.stamp, now));
            self.gaps.set_ended(packet.activity == Activity::Idle);
        }
        arrival
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
            self.mtu = path_mtu(self.mtu.limit(), remote);
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

    /// Records an eliciting packet for feedback and congestion control.
    fn record_eliciting(
        &mut self,
        now: Timestamp,
        packet: Incoming,
        activity: Option<Activity>,
        elicits: Elicits,
    ) {
        self.pending_ack.pending = true;
        self.tail_reports = 0;
        self.keepalive_pings = 0;
        if packet.activity == Activity::Idle && elicits == Elicits::AtOnce {
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
            is_ordered: self.is_ordered(),
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
}
