//! Hash of the events of a run.
use longhaul_types::Timestamp;

use crate::DropCause;

/// A running hash of events: FNV-1a over 64-bit words, with a rotation so that high bits reach low ones.
pub(crate) struct EventHash(u64);

impl Default for EventHash {
    fn default() -> Self {
        /// The offset basis of FNV-1a with 64 bits.
        const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        Self(OFFSET_BASIS)
    }
}

impl EventHash {
    pub(crate) fn enqueued(&mut self, at: Timestamp, len: u64) {
        self.event(1, at, len);
    }

    pub(crate) fn delivered(&mut self, at: Timestamp, len: u64) {
        self.event(2, at, len);
    }

    pub(crate) fn dropped(&mut self, at: Timestamp, cause: DropCause, len: u64) {
        self.event(16 + cause as u64, at, len);
    }

    /// Adds a word, for example another hash.
    pub(crate) fn word(&mut self, word: u64) {
        /// The prime of FNV-1a with 64 bits.
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        self.0 = (self.0 ^ word).wrapping_mul(PRIME).rotate_left(29);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0
    }

    fn event(&mut self, kind: u64, at: Timestamp, len: u64) {
        self.word(kind);
        self.word(at.as_nanos());
        self.word(len);
    }
}
