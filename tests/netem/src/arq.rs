//! Frame loss that the link layer repairs itself.
use std::time::Duration;

use longhaul_types::ByteCount;

use crate::{Probability, random::Stream};

/// A link layer that cuts packets into frames, repeats lost frames and releases packets in order, as the RLC
/// acknowledged mode of UMTS does (3GPP TS 25.322).
///
/// A repeated frame occupies the link again, so the packet rate falls to `1 - frame_loss` of the link rate, and
/// each round of repeats holds the packet, and with it all later ones, for `repair_delay`.
/// The repeats of a packet are sent right behind it, where a real link layer interleaves them with later packets:
/// the capacity used is the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arq {
    /// Probability that one transmission of a frame is lost.
    pub frame_loss: Probability,
    /// Bytes in a full frame. Frames are not shared between packets.
    pub frame_size: ByteCount,
    /// From the end of a frame's transmission to its repeat's arrival, beyond the ordinary delay.
    pub repair_delay: Duration,
    /// Transmissions of one frame after which the link layer discards the packet. At least 1.
    pub max_transmissions: u32,
}

/// What ARQ makes of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transmission {
    /// Bytes that cross the link, repeats included.
    pub(crate) bytes: u64,
    /// Extra time until the packet is complete at the far end.
    pub(crate) repair: Duration,
    pub(crate) outcome: ArqOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArqOutcome {
    Complete,
    GaveUp,
}

impl Transmission {
    /// A packet of this length on a link without ARQ.
    pub(crate) fn plain(len: u64) -> Self {
        Self {
            bytes: len,
            repair: Duration::ZERO,
            outcome: ArqOutcome::Complete,
        }
    }
}

impl Arq {
    /// Draws the transmissions of a packet of `len` bytes.
    pub(crate) fn transmit(&self, len: u64, random: &mut Stream) -> Transmission {
        let frame_size = self.frame_size.bytes().max(1);
        let mut sent = Transmission::plain(len);
        let mut left = len;
        let mut rounds = 0;
        while left > 0 {
            let frame = left.min(frame_size);
            left -= frame;
            let mut repeats = 0;
            while random.happens(self.frame_loss) {
                if repeats + 1 >= self.max_transmissions.max(1) {
                    sent.outcome = ArqOutcome::GaveUp;
                    break;
                }
                repeats += 1;
            }
            sent.bytes = sent
                .bytes
                .saturating_add(frame.saturating_mul(u64::from(repeats)));
            rounds = rounds.max(repeats);
        }
        sent.repair = self.repair_delay.saturating_mul(rounds);
        sent
    }
}
