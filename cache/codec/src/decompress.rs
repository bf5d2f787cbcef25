//! Decompressors with one interface: each step fills at most one output buffer.
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState};
use zstd::stream::raw::{self, DParameter, Operation as _};

use crate::{charged_allocator::ChargedAllocator, memory_shares::MemoryShare};

/// Bytes that one step read and wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) read: usize,
    pub(crate) written: usize,
}

/// The input violates the coding's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

type BrotliDecoder = BrotliState<ChargedAllocator, ChargedAllocator, ChargedAllocator>;

/// Brotli decoder (RFC 7932). It reads no bytes after the end of the stream.
pub(crate) struct Brotli {
    state: Box<BrotliDecoder>,
    window_log: u8,
    started: bool,
    ended: bool,
    total_out: usize,
}

impl Brotli {
    /// Returns a decoder that rejects streams whose window exceeds 2^`window_log` bytes, and whose memory is charged to
    /// `share`, if there is one.
    pub(crate) fn new(window_log: u8, share: Option<&MemoryShare>) -> Self {
        let alloc = || ChargedAllocator::new(share.cloned());
        Self {
            state: Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())),
            window_log,
            started: false,
            ended: false,
            total_out: 0,
        }
    }

    pub(crate) const fn ended(&self) -> bool {
        self.ended
    }

    /// True if decoding failed because the share is used up.
    pub(crate) fn lacks_memory(&self) -> bool {
        self.state.alloc_u8.is_refused()
            || self.state.alloc_u32.is_refused()
            || self.state.alloc_hc.is_refused()
    }

    pub(crate) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress, Corrupt> {
        if self.ended {
            return Ok(Progress { read: 0, written: 0 });
        }
        if let (false, Some(first)) = (self.started, input.first()) {
            self.started = true;
            if brotli_window_log(*first) > self.window_log {
                return Err(Corrupt);
            }
        }
        let (mut left, mut read) = (input.len(), 0);
        let (mut room, mut written) = (output.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            input,
            &mut room,
            &mut written,
            output,
            &mut self.total_out,
            &mut self.state,
        );
        match result {
            BrotliResult::ResultSuccess => self.ended = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultFailure => return Err(Corrupt),
        }
        Ok(Progress { read, written })
    }
}

/// WBITS of RFC 7932 section 9.1, which the first byte of a stream contains.
const fn brotli_window_log(first: u8) -> u8 {
    match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, _, _) => 16,
        (_, 0, 0) => 17,
        // The escape to windows of more than 24 bits, which the decoder itself rejects.
        (_, 0, 1) => 30,
        (_, 0, low) => 8 + low,
        (_, high, _) => 17 + high,
    }
}

/// Decoder of consecutive Zstandard frames (RFC 8878).
pub(crate) struct Zstd {
    decoder: raw::Decoder<'static>,
    between_frames: bool,
    /// True if all output of the input so far has been taken.
    drained: bool,
}

impl Zstd {
    /// Returns a decoder that rejects frames whose window exceeds 2^`window_log` bytes. `base` is the
    /// encoder's base.
    pub(crate) fn new(window_log: u8, base: &[u8]) -> Result<Self, Corrupt> {
        let mut decoder = raw::Decoder::with_dictionary(base).map_err(|_| Corrupt)?;
        decoder
            .set_parameter(DParameter::WindowLogMax(u32::from(window_log)))
            .map_err(|_| Corrupt)?;
        Ok(Self {
            decoder,
            between_frames: true,
            drained: true,
        })
    }

    pub(crate) const fn ended(&self) -> bool {
        self.between_frames
    }

    pub(crate) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress, Corrupt> {
        // The library counts calls without progress as an error.
        if output.is_empty() || input.is_empty() && self.drained {
            return Ok(Progress { read: 0, written: 0 });
        }
        let status = self.decoder.run_on_buffers(input, output).map_err(|_| Corrupt)?;
        self.between_frames = status.remaining == 0;
        self.drained = self.between_frames || status.bytes_written < output.len();
        Ok(Progress {
            read: status.bytes_read,
            written: status.bytes_written,
        })
    }
}
