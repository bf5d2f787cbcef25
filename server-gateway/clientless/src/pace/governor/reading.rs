//! What a governor knows of the last time.
use std::time::Duration;

use crate::pace::meter::Arrived;

/// What was learnt of the connections of a client since the last time.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::pace) struct Reading {
    /// Bytes that were acknowledged.
    pub(in crate::pace) delivered: u64,
    /// When the last of them was, since the start of the governor.
    pub(in crate::pace) delivered_at: Duration,
    /// The shortest round trip of data, and the bytes of its last packet.
    pub(in crate::pace) round_trip: Option<(Duration, u64)>,
    /// Bytes that were written and not acknowledged.
    pub(in crate::pace) outstanding: u64,
    /// True if somebody has more to write than is permitted.
    pub(in crate::pace) is_held_back: bool,
    /// True if nothing was read for so long that it is unknown what happened in the meantime.
    pub(in crate::pace) is_after_pause: bool,
}

impl Reading {
    /// Adds what was measured of a connection.
    pub(in crate::pace) fn add(&mut self, arrived: &Arrived) {
        if arrived.bytes > 0 {
            self.delivered += arrived.bytes;
            self.delivered_at = self.delivered_at.max(arrived.at);
        }
        self.round_trip = match (self.round_trip, arrived.round_trip) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// A queue that has to fall.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unfallen {
    pub(super) queue: f64,
    pub(super) rate: f64,
    pub(super) since: Duration,
}

/// A measurement of the rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measurement {
    /// The acknowledgement from which bytes count.
    pub(super) start: Option<Duration>,
    pub(super) bytes: u64,
    pub(super) readings: u32,
    pub(super) held_back: u32,
    pub(super) least_queue: Option<f64>,
}
