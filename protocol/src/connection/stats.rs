//! Counters and estimates of a connection.
use std::{net::SocketAddr, time::Duration};

use longhaul_types::{BitRate, ByteCount, Timestamp};

use super::{Connection, IP_UDP_HEADERS, Keys, Lifecycle, LinkSummary};
use crate::congestion::Start;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Agent before RESP; early data may be sent.
    Early,
    /// Open.
    Open,
    /// Open, but stalled (transport.md section 7.3).
    Stalled,
    /// Closed.
    Closed,
}

/// Counters and estimates of a connection. Bytes include IP and UDP headers (28 bytes a packet).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConnectionStats {
    /// Smoothed round-trip time; before the first sample, the profile's or an assumed one.
    pub srtt: Duration,
    /// Smoothed round-trip time, once there is a sample.
    pub measured_srtt: Option<Duration>,
    /// Smallest round-trip time of the last half minute or longer.
    pub min_rtt: Option<Duration>,
    /// Rate of the link towards the peer: the profile's, the peer's grant, or a bound from the agent's uplink. `None`
    /// while the link is unknown.
    pub link_rate: Option<BitRate>,
    /// How the rate of the incoming data came to be known.
    pub start: Start,
    /// Capacity of the incoming direction once it was told or estimated.
    pub estimated_capacity: Option<BitRate>,
    /// Granted sending rate.
    pub send_rate: BitRate,
    /// Granted credit in bytes.
    pub send_credit: ByteCount,
    /// Bytes outstanding.
    pub outstanding: ByteCount,
    /// Rate of the incoming data; before the first arrivals, the profile's or an assumed one.
    pub receive_rate: BitRate,
    /// Rate of the incoming data, once enough packets have arrived in one interval to measure it.
    pub measured_receive_rate: Option<BitRate>,
    /// Congestion window W of the incoming data.
    pub window: ByteCount,
    /// Estimated queueing delay of incoming data.
    pub queue_delay: Duration,
    /// True if losses without a queue bound the rate of the incoming data (congestion.md section 7.1).
    pub is_loss_limited: bool,
    /// Bytes sent, including all datagrams of the handshake.
    pub bytes_sent: u64,
    /// Bytes received and authenticated.
    pub bytes_received: u64,
    /// Packets sent; a datagram of the handshake counts as one.
    pub packets_sent: u64,
    /// Packets received and authenticated.
    pub packets_received: u64,
    /// Bytes of packets that are not eliciting (feedback and FORWARD only).
    pub feedback_bytes_sent: u64,
    /// Sent packets that were declared lost.
    pub packets_lost: u64,
    /// Retransmitted stream bytes.
    pub retransmitted_bytes: u64,
    /// Packets of the peer that were declared lost.
    pub packets_missing: u64,
    /// Packets received after they had been declared lost.
    pub spurious: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Datagrams of this side that were dropped before they were sent, and received ones that the user did not take.
    pub datagrams_dropped: u64,
    /// Largest datagram that can be sent at present; `None` if the peer receives none.
    pub max_datagram: Option<usize>,
    /// Probes sent (transport.md section 5.3).
    pub probes: u64,
    /// Number of stalls.
    pub stalls: u64,
    /// Start of the current stall.
    pub stalled_since: Option<Timestamp>,
    /// Packets dropped because they did not authenticate or were replayed.
    pub packets_dropped: u64,
    /// Received data that the user has not read, including overhead.
    pub receive_buffered: ByteCount,
    /// Unacknowledged data.
    pub send_buffered: ByteCount,
    /// Largest UDP payload that the path is known to take.
    pub path_payload: usize,
    /// Number of updates of this side's sealing key (transport.md section 2.3).
    pub keys_replaced: u32,
    /// Recorded sent packets, and gaps of missing packets.
    pub bookkeeping: (usize, usize),
    /// Address of the peer; until the RESP arrives, the first of the gateway's addresses.
    pub remote: Option<SocketAddr>,
    /// True if the path is an ordered link.
    pub is_ordered: bool,
    /// What the session has found out about the link (agent).
    pub link: LinkSummary,
}

impl Connection {
    /// Returns counters and estimates.
    pub fn stats(&self) -> ConnectionStats {
        ConnectionStats {
            srtt: self.rtt.smoothed(),
            measured_srtt: self.rtt.min().map(|_| self.rtt.smoothed()),
            min_rtt: self.rtt.min(),
            link_rate: self.link_rate(),
            start: self.controller.start(),
            estimated_capacity: self.controller.estimated_capacity(),
            send_rate: self.granted.rate.bit_rate(),
            send_credit: ByteCount::new(self.granted.credit),
            outstanding: ByteCount::new(self.sent_packets.outstanding()),
            receive_rate: self.controller.rate(),
            measured_receive_rate: self.controller.measured_rate(),
            window: self.controller.window(),
            queue_delay: self.controller.queue(),
            is_loss_limited: self.controller.is_loss_limited(),
            packets_missing: self.gaps.lost(),
            spurious: self.gaps.spurious(),
            datagrams_dropped: self.streams.dropped_datagrams() + self.received_datagrams.dropped(),
            max_datagram: self.max_datagram(),
            stalled_since: self.prober.stalled_since,
            receive_buffered: ByteCount::new(self.streams.recv_buffered()),
            send_buffered: ByteCount::new(self.streams.send_buffered()),
            path_payload: self.mtu.payload(),
            keys_replaced: match &self.keys {
                Keys::Early { .. } => 0,
                Keys::Full { phases, .. } => phases.replaced(),
            },
            bookkeeping: (self.sent_packets.len(), self.gaps.count()),
            remote: self.path.remote.udp(),
            is_ordered: self.is_ordered(),
            link: self
                .link_meter
                .as_ref()
                .map_or_else(LinkSummary::default, |meter| meter.summary()),
            ..self.stats
        }
    }

    /// Sending rate that the peer granted.
    pub fn send_rate(&self) -> BitRate {
        self.granted.rate.bit_rate()
    }

    /// Arrival time of the last authentic packet; before the first one, the creation time.
    pub const fn last_received_at(&self) -> Timestamp {
        self.last_received_at
    }

    /// Returns true if a probe is unanswered for its interval or longer, or the peer's reports show that it does not
    /// receive this side's packets, so that another path is worth a try
    /// (transport.md section 8.3).
    pub const fn is_path_silent(&self) -> bool {
        self.prober.is_unanswered() || self.late_packets.is_dead()
    }

    /// Returns true if nothing has arrived since a probe was sent, or the peer has not received the newest packets, or the
    /// path is silent: another path may soon be needed
    /// (transport.md section 8.3).
    pub const fn is_path_doubtful(&self) -> bool {
        self.prober.is_doubtful() || self.late_packets.is_doubtful() || self.is_path_silent()
    }

    /// Counts an INIT or a RESP that the endpoint sends in a datagram of its own.
    pub(crate) const fn count_handshake_sent(&mut self, len: usize) {
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += len as u64 + IP_UDP_HEADERS;
    }

    /// Counts the bytes of a RESP that precedes a short packet in its datagram.
    pub(crate) const fn count_resp_sent_ahead(&mut self, len: usize) {
        self.stats.bytes_sent += len as u64;
    }

    /// Counts the bytes of an authenticated handshake message; `datagram` is the number of datagrams that
    /// contain nothing else.
    pub(crate) const fn count_handshake_received(&mut self, len: usize, datagrams: u64) {
        self.stats.packets_received += datagrams;
        self.stats.bytes_received += len as u64 + IP_UDP_HEADERS * datagrams;
    }

    /// State of the connection.
    pub fn state(&self) -> State {
        match (&self.lifecycle, &self.keys) {
            (Lifecycle::Closing { .. } | Lifecycle::Draining | Lifecycle::Drained, _) => State::Closed,
            (Lifecycle::Open, Keys::Early { .. }) => State::Early,
            (Lifecycle::Open, Keys::Full { .. }) if self.prober.stalled_since.is_some() => State::Stalled,
            (Lifecycle::Open, Keys::Full { .. }) => State::Open,
        }
    }
}
