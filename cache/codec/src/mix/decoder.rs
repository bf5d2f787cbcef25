//! Decoder of context-mixed bodies.
#![expect(clippy::cast_possible_truncation, reason = "eight bits make a byte")]

use std::sync::LazyLock;

use longhaul_types::{ByteCount, PublicKey};

use super::model::Model;
use super::range::RangeDecoder;
use super::table::TableSize;
use super::{MIX_SESSION_MEMORY, STORED, VERSION};
use crate::decompress::Corrupt;
use crate::memory_shares::{MemoryReservation, MemoryShare, MemoryShares};

/// Memory of all decoders of this process, whose bodies one peer sends: twice what the peer uses at a time, because it
/// finishes a body before its last windows are decoded. The total is twice that again: a device alone gets half of it.
static DECODERS: LazyLock<MemoryShare> = LazyLock::new(|| {
    let total = ByteCount::new(4 * MIX_SESSION_MEMORY.bytes());
    MemoryShares::new(total).of(PublicKey::from_bytes([0; 32]))
});

/// Decodes one body, window by window.
pub(crate) struct MixDecoder(State);

enum State {
    /// No window has arrived; no memory is allocated.
    Start,
    /// A body in progress.
    Body(Box<Model>, MemoryReservation),
    /// A window did not decode.
    Failed,
}

impl MixDecoder {
    /// Returns a decoder that allocates no model before the first window.
    pub(crate) const fn new() -> Self {
        Self(State::Start)
    }

    /// Decodes one window of `length` bytes, at least one; after an error no further window decodes.
    ///
    /// The code contains no check: damaged coded bytes may decode to wrong bytes without an error.
    pub(crate) fn decode(&mut self, coded: &[u8], length: usize) -> Result<Vec<u8>, Corrupt> {
        let (mut model, memory, coded) = match std::mem::replace(&mut self.0, State::Failed) {
            State::Start => {
                let (&header, coded) = coded.split_first().ok_or(Corrupt)?;
                let table = TableSize::from_code(header & 15).filter(|_| header >> 4 == VERSION);
                let table = table.ok_or(Corrupt)?;
                let memory = DECODERS.reserve(table.memory()).ok_or(Corrupt)?;
                (Box::new(Model::new(table)), memory, coded)
            }
            State::Body(model, memory) => (model, memory, coded),
            State::Failed => return Err(Corrupt),
        };
        let decoded = match coded.strip_prefix(&STORED) {
            Some(stored) if stored.len() == length => {
                model.train(stored);
                stored.to_vec()
            }
            Some(_) => return Err(Corrupt),
            None => bits(&mut model, coded, length)?,
        };
        self.0 = State::Body(model, memory);
        Ok(decoded)
    }
}

fn bits(model: &mut Model, coded: &[u8], length: usize) -> Result<Vec<u8>, Corrupt> {
    let mut range = RangeDecoder::new(coded);
    if coded.is_empty() || range.decode(1) != 0 {
        return Err(Corrupt);
    }
    let mut decoded = Vec::with_capacity(length);
    for _ in 0..length {
        let mut byte = 0;
        for _ in 0..8 {
            let bit = range.decode(model.p());
            model.update(bit);
            byte = byte << 1 | bit;
        }
        decoded.push(byte as u8);
        if range.is_exhausted() {
            return Err(Corrupt);
        }
    }
    if range.is_used_up() {
        Ok(decoded)
    } else {
        Err(Corrupt)
    }
}
