//! Counters of the transport, summed over the sessions of the gateway.
use longhaul_driver::ConnectionStats;

use super::metrics::LinkBytes;

/// Sums over sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportTotals {
    /// Bytes with IP and UDP headers.
    pub bytes: LinkBytes,
    /// Packets sent to agents.
    pub packets_sent: u64,
    /// Packets received from agents.
    pub packets_received: u64,
    /// Packets to agents that were declared lost.
    pub packets_lost: u64,
    /// Packets of agents that were declared lost.
    pub packets_missing: u64,
    /// Bytes of streams that were sent again.
    pub retransmitted_bytes: u64,
    /// Stalls of the hop.
    pub stalls: u64,
}

impl TransportTotals {
    /// The sum with a session.
    pub const fn plus(self, stats: &ConnectionStats) -> Self {
        let session = LinkBytes {
            sent: stats.bytes_sent,
            received: stats.bytes_received,
        };
        Self {
            bytes: self.bytes.plus(session),
            packets_sent: self.packets_sent + stats.packets_sent,
            packets_received: self.packets_received + stats.packets_received,
            packets_lost: self.packets_lost + stats.packets_lost,
            packets_missing: self.packets_missing + stats.packets_missing,
            retransmitted_bytes: self.retransmitted_bytes + stats.retransmitted_bytes,
            stalls: self.stalls + stats.stalls,
        }
    }
}
