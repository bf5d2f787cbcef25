//! What a connection counts and estimates.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, Timestamp};

use super::{Connection, Keys, Life, rate_of, whole};

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Agent only: no RESP yet; early data flows.
    Early,
    /// Open.
    Open,
    /// Open, but nothing is heard (transport.md 7.3).
    Stalled,
    /// Closed.
    Closed,
}

/// Counters and estimates of a connection. Bytes count IP and UDP headers (28 bytes a packet).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConnectionStats {
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Smallest round-trip time of the last half minute or longer.
    pub min_rtt: Option<Duration>,
    /// Rate at which this side may send.
    pub send_rate: BitRate,
    /// Bytes that this side may have outstanding.
    pub send_credit: ByteCount,
    /// Bytes outstanding.
    pub outstanding: ByteCount,
    /// Measured rate of the incoming data.
    pub receive_rate: BitRate,
    /// Window W of the incoming data.
    pub window: ByteCount,
    /// Estimated delay that incoming data spends in the bottleneck's queue.
    pub queue_delay: Duration,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received and authenticated.
    pub bytes_received: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received and authenticated.
    pub packets_received: u64,
    /// Bytes in packets that carried nothing but feedback and FORWARD.
    pub feedback_bytes_sent: u64,
    /// Packets sent that were lost or taken for lost.
    pub packets_lost: u64,
    /// Stream bytes sent again.
    pub retransmitted_bytes: u64,
    /// Packets received after they had been declared lost.
    pub spurious: u64,
    /// Probes sent (transport.md 5.3).
    pub probes: u64,
    /// Stalls.
    pub stalls: u64,
    /// Since when the connection is stalled.
    pub stalled_since: Option<Timestamp>,
    /// Packets dropped because they did not authenticate or were replayed.
    pub packets_dropped: u64,
    /// Received data that the user has not read, with bookkeeping.
    pub receive_buffered: ByteCount,
    /// Data that is not acknowledged.
    pub send_buffered: ByteCount,
    /// The largest UDP payload that the path is known to take.
    pub path_payload: usize,
    /// How often this side has replaced the key that it seals with (transport.md 2.3).
    pub keys_replaced: u32,
    /// Entries in the book of sent packets and gaps in the list of missing ones.
    pub bookkeeping: (usize, usize),
}

impl Connection {
    /// Counters and estimates.
    pub fn stats(&self) -> ConnectionStats {
        ConnectionStats {
            srtt: self.rtt.smoothed(),
            min_rtt: self.rtt.min(),
            send_rate: rate_of(self.granted.rate),
            send_credit: ByteCount::new(self.granted.credit),
            outstanding: ByteCount::new(self.book.outstanding()),
            receive_rate: rate_of(self.controller.rate()),
            window: ByteCount::new(whole(self.controller.window())),
            queue_delay: self.controller.queue(),
            spurious: self.gaps.spurious(),
            stalled_since: self.prober.stalled_since,
            receive_buffered: ByteCount::new(self.streams.recv_buffered()),
            send_buffered: ByteCount::new(self.streams.send_buffered()),
            path_payload: self.mtu.payload(),
            keys_replaced: match &self.keys {
                Keys::Early { .. } => 0,
                Keys::Full { phases, .. } => phases.replaced(),
            },
            bookkeeping: (self.book.len(), self.gaps.count()),
            ..self.stats
        }
    }

    /// Where the connection stands.
    pub fn state(&self) -> State {
        match (&self.life, &self.keys) {
            (Life::Closing { .. } | Life::Draining | Life::Drained, _) => State::Closed,
            (Life::Open, Keys::Early { .. }) => State::Early,
            (Life::Open, Keys::Full { .. }) if self.prober.stalled_since.is_some() => State::Stalled,
            (Life::Open, Keys::Full { .. }) => State::Open,
        }
    }
}
