//! Buffer for short packets that arrive before the RESP with their keys (transport.md section 3.2).
//!
//! The gateway's first window follows its RESP without waiting. If the RESP is lost or overtaken, the packets
//! of this window arrive all the same and need only the keys (compare RFC 9000 section 5.7).
use longhaul_types::Timestamp;

/// Maximum size in bytes: the data that a gateway may send without feedback over a satellite link at 50
/// Mbit/s. The packets are not authenticated.
const MAX_BYTES: usize = 4 << 20;
/// Maximum number of packets, whatever their length.
const MAX_PACKETS: usize = 4096;
/// Number of packets that indicates that the RESP is lost and not late: the INIT is repeated at once, which
/// repeats the RESP.
const OVERTAKING: usize = 3;

/// A buffered packet.
pub(super) struct Kept {
    /// Arrival time, from which the packet's delay is measured.
    pub(super) at: Timestamp,
    pub(super) datagram: Vec<u8>,
}

/// Buffered packets in the order of their arrival.
#[derive(Default)]
pub(super) struct EarlyPackets {
    packets: Vec<Kept>,
    bytes: usize,
    overflowed: bool,
}

impl EarlyPackets {
    /// Buffers a packet; returns `false` if the buffer is full.
    pub(super) fn keep(&mut self, at: Timestamp, datagram: &[u8]) -> bool {
        let bytes = self.bytes + datagram.len();
        // Buffers no packet after a dropped one, so that the gap is a single one with a known cause.
        let fits = !self.overflowed && bytes <= MAX_BYTES && self.packets.len() < MAX_PACKETS;
        if fits {
            self.bytes = bytes;
            let datagram = datagram.to_vec();
            self.packets.push(Kept { at, datagram });
        }
        self.overflowed |= !fits;
        fits
    }

    /// Returns true if the last buffered packet indicates that the RESP is lost; true only once.
    pub(super) fn misses_resp(&self) -> bool {
        self.packets.len() == OVERTAKING
    }

    /// Arrival time of the first packet.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.packets.first().map(|first| first.at)
    }

    /// Returns true if a packet was dropped because the buffer was full, which is no loss of the link.
    pub(super) const fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    pub(super) fn into_packets(self) -> Vec<Kept> {
        self.packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_packets_are_bounded() {
        let mut ahead = EarlyPackets::default();
        let kept = (0..4000)
            .filter(|_| ahead.keep(Timestamp::ZERO, &[0; 1472]))
            .count();
        assert_eq!(kept, MAX_BYTES / 1472);
        assert!(ahead.has_overflowed());
        let mut ahead = EarlyPackets::default();
        let kept = (0..5000)
            .filter(|_| ahead.keep(Timestamp::ZERO, &[0; 20]))
            .count();
        assert_eq!(kept, MAX_PACKETS);
        assert_eq!(ahead.into_packets().len(), MAX_PACKETS);
    }
}
