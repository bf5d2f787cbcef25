//! Encoder of context-mixed bodies.
use longhaul_types::ByteCount;

use super::model::Model;
use super::range::RangeEncoder;
use super::table::TableSize;
use super::{STORED, VERSION};
use crate::memory_shares::{MemoryReservation, MemoryShare};

/// Encodes one body, window by window.
pub(crate) struct MixEncoder {
    model: Box<Model>,
    /// First byte of the body, until it is written.
    header: Option<u8>,
    _memory: MemoryReservation,
}

impl MixEncoder {
    /// Returns an encoder for a body of about this length, which decides the memory at both ends; `None` if
    /// there is not enough memory left.
    pub(crate) fn new(length: Option<ByteCount>, memory: &MemoryShare) -> Option<Self> {
        let table = TableSize::for_length(length.map(ByteCount::bytes));
        let memory = memory.reserve(table.memory())?;
        Some(Self {
            model: Box::new(Model::new(table)),
            header: Some(VERSION << 4 | table.code()),
            _memory: memory,
        })
    }

    /// Codes a window; appends at least one byte unless the window is empty.
    pub(crate) fn code(&mut self, window: &[u8], out: &mut Vec<u8>) {
        if window.is_empty() {
            return;
        }
        out.extend(self.header.take());
        let start = out.len();
        let mut range = RangeEncoder::new();
        // A zero bit for "not stored": excludes the low end of the code, where stored windows begin.
        range.encode(0, 1, out);
        for &byte in window {
            for depth in (0..8).rev() {
                let bit = u32::from(byte >> depth & 1);
                range.encode(bit, self.model.p(), out);
                self.model.update(bit);
            }
        }
        range.finish(out);
        if out.len() - start > window.len() + STORED.len() {
            out.truncate(start);
            out.extend_from_slice(&STORED);
            out.extend_from_slice(window);
        }
    }
}
