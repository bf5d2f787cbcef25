//! Packets of a session whose RESP has not come yet: they wait for its keys (transport.md 3.2).
//!
//! The gateway's first window follows its RESP without waiting. If the RESP is lost or overtaken, that window is on this
//! side all the same, and needs nothing but the keys (RFC 9000 section 5.7 has the same for QUIC).
use longhaul_types::Timestamp;

/// The most bytes that wait: what a gateway may send unasked over a satellite at 50 Mbit/s. They are not authenticated.
const MAX_BYTES: usize = 4 << 20;
/// The most packets that wait, whatever their length.
const MAX_PACKETS: usize = 4096;
/// With so many waiting, the RESP is not just late: the INIT is repeated at once, and with it the RESP.
const OVERTAKING: usize = 3;

/// A packet that waits.
pub(super) struct Kept {
    /// When it arrived, which is what its delay is measured by.
    pub(super) at: Timestamp,
    pub(super) datagram: Vec<u8>,
}

/// The packets that wait, in the order of their arrival.
#[derive(Default)]
pub(super) struct Ahead {
    packets: Vec<Kept>,
    bytes: usize,
    overflowed: bool,
}

impl Ahead {
    /// Keeps a packet; `false` if there is no room for it.
    pub(super) fn keep(&mut self, at: Timestamp, datagram: &[u8]) -> bool {
        let bytes = self.bytes + datagram.len();
        // Nothing behind what is missing: the gap must show when it is known where it comes from.
        let fits = !self.overflowed && bytes <= MAX_BYTES && self.packets.len() < MAX_PACKETS;
        if fits {
            self.bytes = bytes;
            let datagram = datagram.to_vec();
            self.packets.push(Kept { at, datagram });
        }
        self.overflowed |= !fits;
        fits
    }

    /// Whether the packet kept last tells that the RESP is lost; once.
    pub(super) fn misses_resp(&self) -> bool {
        self.packets.len() == OVERTAKING
    }

    /// When the first one arrived.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.packets.first().map(|first| first.at)
    }

    /// Whether there was no room for a packet: that it is missing is not the link's doing.
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
    fn keeps_no_more_than_its_bounds() {
        let mut ahead = Ahead::default();
        let kept = (0..4000)
            .filter(|_| ahead.keep(Timestamp::ZERO, &[0; 1472]))
            .count();
        assert_eq!(kept, MAX_BYTES / 1472);
        assert!(ahead.has_overflowed());
        let mut ahead = Ahead::default();
        let kept = (0..5000)
            .filter(|_| ahead.keep(Timestamp::ZERO, &[0; 20]))
            .count();
        assert_eq!(kept, MAX_PACKETS);
        assert_eq!(ahead.into_packets().len(), MAX_PACKETS);
    }
}
