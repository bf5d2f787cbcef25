//! Loss of link-layer frames that the link layer retransmits (ARQ).
use std::time::Duration;

use longhaul_types::ByteCount;

use crate::{Probability, random::Stream};

/// A link layer that divides packets into frames, retransmits lost frames and delivers packets in order, as
/// the RLC acknowledged mode of UMTS does (3GPP TS 25.322).
///
/// A retransmitted frame occupies the link again, so the packet rate falls to `1 - frame_loss` of the link
/// rate. Each round of retransmissions delays the packet and all later packets by `repair_delay`. The
/// retransmissions of a packet are sent immediately after it, whereas a real link layer interleaves them with
/// later packets: the capacity used is the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arq {
    /// Probability that one transmission of a frame is lost.
    pub frame_loss: Probability,
    /// Bytes in a full frame. Frames are not shared between packets.
    pub frame_size: ByteCount,
    /// Time from the end of a frame's transmission to the arrival of its retransmission, in addition to the
    /// ordinary delay.
    pub repair_delay: Duration,
    /// Number of transmissions of one frame after which the link layer discards the packet. At least 1.
    pub max_transmissions: u32,
}

/// Transmission of one packet by ARQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transmission {
    /// Bytes that cross the link, including retransmissions.
    pub(crate) bytes: u64,
    /// Additional time until the packet is complete at the receiver.
    pub(crate) repair: Duration,
    pub(crate) outcome: ArqOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArqOutcome {
    Complete,
    GaveUp,
}

impl Transmission {
    /// Returns the transmission of a packet of this length on a link without ARQ.
    pub(crate) fn plain(len: u64) -> Self {
        Self {
            bytes: len,
            repair: Duration::ZERO,
            outcome: ArqOutcome::Complete,
        }
    }
}

impl Arq {
    /// Draws the number of transmissions of each frame of a packet of `len` bytes.
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
