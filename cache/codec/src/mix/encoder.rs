//! Coding a body.
use longhaul_types::ByteCount;

use super::memory::{MixMemory, Permit};
use super::model::Model;
use super::range::RangeEncoder;
use super::table::TableSize;
use super::{STORED, VERSION};

/// Codes one body, window by window.
pub(crate) struct MixEncoder {
    model: Box<Model>,
    /// The first byte of the body, until it is written.
    header: Option<u8>,
    _memory: [Permit; 2],
}

impl MixEncoder {
    /// An encoder for a body of about this length, which decides how much memory both ends take; `None` if that is too
    /// much now.
    pub(crate) fn new(length: Option<ByteCount>, memory: &MixMemory) -> Option<Self> {
        let table = TableSize::for_length(length.map(ByteCount::bytes));
        let memory = memory.for_encoder(table.memory())?;
        Some(Self {
            model: Box::new(Model::new(table)),
            header: Some(VERSION << 4 | table.code()),
            _memory: memory,
        })
    }

    /// Codes a window: appends at least one byte if there is one in the window.
    pub(crate) fn code(&mut self, window: &[u8], out: &mut Vec<u8>) {
        if window.is_empty() {
            return;
        }
        out.extend(self.header.take());
        let start = out.len();
        let mut range = RangeEncoder::new();
        // Not stored: the lower end of the code is kept free of all windows that begin like those.
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
