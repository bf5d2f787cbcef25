//! Warm-up of an ordered path (transport.md section 8.2.1): the agent asks for trains while the path is idle, so that the
//! congestion window of the TCP connection below it is open when a page is requested.
use std::time::Duration;

use longhaul_types::ByteCount;

use super::{Connection, rate_probing::RateProbing};
use crate::{
    congestion::{FULL_PACKET, Start},
    wire::frame::TRAIN_PACKETS,
};

/// Smallest round-trip time of a path that is warmed up. On shorter ones the round trips of slow start are too short to justify
/// the bytes of a train.
const LEAST_RTT: Duration = Duration::from_millis(50);
/// Smallest round-trip time of a path that is warmed up by more than one train.
const LONG_RTT: Duration = Duration::from_millis(150);
/// Packets that a TCP connection sends in its first two round trips (RFC 6928: ten segments, then twenty). A path that holds
/// no more needs no warm-up.
const FIRST_PACKETS: u64 = 30;
/// Most packets of a warm-up.
const MOST_PACKETS: u32 = 4 * LONGEST_TRAIN;
const LONGEST_TRAIN: u32 = *TRAIN_PACKETS.end() as u32;
/// Tenths of the trains' bytes after which they count as arrived: their packets have at least [`FULL_PACKET`] bytes.
const ARRIVED_TENTHS: u64 = 9;

/// State of the warm-up of one path (agent).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WarmUp {
    /// Bytes that have arrived over the path.
    arrived: u64,
    /// Value of `arrived` at which the trains under way are complete.
    complete_at: u64,
    /// Packets for which a TRAIN is still to be sent.
    due: u32,
}

impl WarmUp {
    /// Number of packets to request next, if a path that holds `window` bytes, or an unknown number, needs any: a train, and
    /// all others at once when as much has arrived. TCP sends more than a train in a round trip by then, and the pace of BBR
    /// follows the most that it has sent in one.
    fn next_packets(&self, window: Option<u64>, rtt: Duration) -> Option<u32> {
        let full = FULL_PACKET.bytes();
        let window = window.unwrap_or(u64::MAX);
        let most = if rtt < LONG_RTT {
            LONGEST_TRAIN
        } else {
            MOST_PACKETS
        };
        let needed = window.min(u64::from(most) * full);
        if window <= FIRST_PACKETS * full || self.arrived < self.complete_at {
            return None;
        }
        let most = if self.arrived < arrived(LONGEST_TRAIN) {
            LONGEST_TRAIN
        } else {
            MOST_PACKETS
        };
        let packets = u32::try_from(needed.saturating_sub(self.arrived) / full)
            .map_or(most, |packets| packets.min(most));
        (packets >= u32::from(*TRAIN_PACKETS.start())).then_some(packets)
    }

    /// Records a packet of `size` bytes; returns true if it completes trains.
    const fn on_arrival(&mut self, size: u64) -> bool {
        let before = self.arrived;
        self.arrived += size;
        before < self.complete_at && self.complete_at <= self.arrived
    }

    fn on_request(&mut self, packets: u32) {
        self.complete_at = self.arrived + arrived(packets);
        self.due = packets;
    }

    /// Takes the length of the next train of those that are requested together.
    pub(super) fn take_train(&mut self) -> Option<u8> {
        let packets = u8::try_from(self.due.min(LONGEST_TRAIN)).ok()?;
        self.due -= u32::from(packets);
        TRAIN_PACKETS.contains(&packets).then_some(packets)
    }
}

/// Bytes after which `packets` of trains count as arrived.
const fn arrived(packets: u32) -> u64 {
    packets as u64 * FULL_PACKET.bytes() * ARRIVED_TENTHS / 10
}

impl Connection {
    /// Records a packet of `size` bytes (agent), and asks for a train if the path is ordered, idle and not warm.
    pub(super) fn warm_up(&mut self, size: u64) {
        if !self.is_ordered() {
            return;
        }
        let is_complete = self.probing.warm_up.on_arrival(size);
        let carried = ByteCount::new(self.probing.warm_up.arrived);
        if is_complete && self.controller.open_window(carried) {
            self.pending_ack.now = self.pending_ack.echo.is_some();
        }
        if !self.may_warm_up() {
            return;
        }
        // The window of a lower bound is too small.
        let is_bound = self.controller.is_rate_bound();
        let window = (!is_bound).then(|| self.controller.window().bytes());
        if let Some(packets) = self.probing.warm_up.next_packets(window, self.path_rtt()) {
            self.probing.warm_up.on_request(packets);
            self.controller.on_warm_up(packets);
            self.probing.train_due = self.probing.warm_up.take_train();
            self.rearm();
        }
    }

    /// Returns true if a train costs nothing, delays no data and is answered.
    fn may_warm_up(&self) -> bool {
        let is_rate_known = matches!(self.controller.start(), Start::Told | Start::Steady);
        self.config.rate_probing == RateProbing::Full
            && self.confirmed
            && self.probing.peer_probes
            && self.probing.train_due.is_none()
            && is_rate_known
            && !self.is_loading()
            && self.path_rtt() >= LEAST_RTT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u64 = FULL_PACKET.bytes();

    /// The numbers of packets that a path that holds `window` bytes requests together.
    fn all_packets(path: &mut WarmUp, window: Option<u64>) -> Vec<u32> {
        let mut all = Vec::new();
        while let Some(packets) = path.next_packets(window, LONG_RTT) {
            all.push(packets);
            path.on_request(packets);
            assert_eq!(path.next_packets(window, LONG_RTT), None, "trains are under way");
            path.arrived += u64::from(packets) * FULL;
        }
        all
    }

    #[test]
    fn trains_follow_a_first_one_until_the_window_has_arrived() {
        assert_eq!(all_packets(&mut WarmUp::default(), Some(80 * FULL)), [32, 48]);
        assert_eq!(all_packets(&mut WarmUp::default(), Some(50 * FULL)), [32, 18]);
        let mut measured = WarmUp {
            arrived: 33 * FULL,
            ..WarmUp::default()
        };
        assert_eq!(all_packets(&mut measured, Some(80 * FULL)), [47]);
    }

    #[test]
    fn packets_are_requested_in_trains() {
        let mut path = WarmUp::default();
        for (packets, trains) in [(32, vec![32]), (48, vec![32, 16]), (65, vec![32, 32])] {
            path.on_request(packets);
            let requested: Vec<u8> = std::iter::from_fn(|| path.take_train()).collect();
            assert_eq!(requested, trains, "{packets} packets");
        }
    }

    #[test]
    fn slow_paths_and_paths_that_have_carried_data_need_no_train() {
        let mut path = WarmUp::default();
        assert_eq!(path.next_packets(Some(FIRST_PACKETS * FULL), LONG_RTT), None);
        path.arrived = 200 * FULL;
        assert_eq!(path.next_packets(Some(1_000 * FULL), LONG_RTT), None);
    }

    #[test]
    fn a_large_window_costs_four_trains() {
        let all = all_packets(&mut WarmUp::default(), None);
        assert_eq!(all, [32, 96]);
    }
}
