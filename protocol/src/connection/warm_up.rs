//! Warm-up of an ordered path (transport.md section 8.2.1): the agent asks for trains while the path is idle, so that the
//! congestion window of the TCP connection below it is open when a page is requested.
use std::time::Duration;

use super::{
    Connection,
    rate_probing::{MAX_TRAINS, RateProbing},
};
use crate::{
    congestion::{FULL_PACKET, Start},
    wire::frame::TRAIN_PACKETS,
};

/// Smallest round-trip time of a path that is warmed up. On shorter ones the round trips of slow start are too short to justify
/// the bytes of a train.
const LEAST_RTT: Duration = Duration::from_millis(150);
/// Packets that a TCP connection sends in its first two round trips (RFC 6928: ten segments, then twenty). A path that holds
/// no more needs no warm-up.
const FIRST_PACKETS: u64 = 30;
/// Packets that the trains of a session can have together.
const MOST_PACKETS: u64 = MAX_TRAINS as u64 * *TRAIN_PACKETS.end() as u64;
/// Tenths of a train's bytes after which it counts as arrived: its packets have at least [`FULL_PACKET`] bytes.
const ARRIVED_TENTHS: u64 = 9;

/// State of the warm-up of one path (agent).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WarmUp {
    /// Bytes that have arrived over the path.
    arrived: u64,
    /// Value of `arrived` at which the last train is complete.
    complete_at: u64,
}

impl WarmUp {
    /// Number of packets of the next train, if a path that holds `window` bytes, or an unknown number, needs one.
    fn next_train(&self, window: Option<u64>) -> Option<u8> {
        let full = FULL_PACKET.bytes();
        let window = window.unwrap_or(u64::MAX);
        let needed = window.min(MOST_PACKETS * full);
        if window <= FIRST_PACKETS * full || self.arrived < self.complete_at {
            return None;
        }
        let packets = needed.saturating_sub(self.arrived) / full;
        let packets = u8::try_from(packets).unwrap_or(u8::MAX).min(*TRAIN_PACKETS.end());
        (packets >= *TRAIN_PACKETS.start()).then_some(packets)
    }

    fn on_request(&mut self, packets: u8) {
        let bytes = u64::from(packets) * FULL_PACKET.bytes();
        self.complete_at = self.arrived + bytes * ARRIVED_TENTHS / 10;
    }
}

impl Connection {
    /// Records a packet of `size` bytes (agent), and asks for a train if the path is ordered, idle and not warm.
    pub(super) fn warm_up(&mut self, size: u64) {
        if !self.is_ordered() {
            return;
        }
        self.probing.warm_up.arrived += size;
        if !self.may_warm_up() {
            return;
        }
        // The window of a lower bound is too small.
        let is_bound = self.controller.is_rate_bound();
        let window = (!is_bound).then(|| self.controller.window().bytes());
        if let Some(packets) = self.probing.warm_up.next_train(window) {
            self.probing.warm_up.on_request(packets);
            self.controller.on_warm_up(packets);
            self.probing.train_due = Some(packets);
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

    #[test]
    fn trains_follow_each_other_until_the_window_has_arrived() {
        let mut path = WarmUp::default();
        let mut trains = Vec::new();
        while let Some(packets) = path.next_train(Some(80 * FULL)) {
            trains.push(packets);
            path.on_request(packets);
            assert_eq!(path.next_train(Some(80 * FULL)), None, "a train is under way");
            path.arrived += u64::from(packets) * FULL;
        }
        assert_eq!(trains, [32, 32, 16]);
    }

    #[test]
    fn slow_paths_and_paths_that_have_carried_data_need_no_train() {
        let mut path = WarmUp::default();
        assert_eq!(path.next_train(Some(FIRST_PACKETS * FULL)), None);
        path.arrived = 200 * FULL;
        assert_eq!(path.next_train(Some(1_000 * FULL)), None);
    }

    #[test]
    fn a_large_window_costs_no_more_than_the_trains_of_a_session() {
        let mut path = WarmUp::default();
        let mut packets = 0;
        while let Some(train) = path.next_train(None) {
            packets += u64::from(train);
            path.on_request(train);
            path.arrived += u64::from(train) * FULL;
        }
        assert_eq!(packets, MOST_PACKETS);
    }
}
