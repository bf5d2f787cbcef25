//! Brotli (RFC 7932), with a base as its prefix dictionary (RFC 9841).
//!
//! The encoder is a port of the reference encoder that supports prefix dictionaries; its decoder decodes
//! bodies with a base, whose windows are all verified by their checks. Data that origins have encoded has no
//! such check; the older library decodes it ([`crate::decompress`]).
use longhaul_types::ByteCount;
use mbrotli::{
    Compressor, DecodeLimits, DecodeOperation, DecoderConfig, DecoderSessionOwned, Decompressor,
    EncoderConfig, EncoderSessionOwned, EncoderStatus, InputSize, Operation, OutputSize, Quality,
    StreamConfig, Window, WindowLimit,
    dictionary::{DecodeDictionary, DecodeDictionaryLimits, DictionaryAttachment, DictionaryBuilder},
};

use crate::{
    coding::{After, EncodeError},
    decompress::{Corrupt, Progress},
};

/// Brotli encoder of one body.
pub(crate) struct BrotliEncoder(Box<EncoderSessionOwned>);

impl BrotliEncoder {
    /// `quality` is 0 to 11, at least 5 with a base; other values are clamped. `length` is a hint and may be
    /// wrong.
    pub(crate) fn new(
        quality: u8,
        window_log: u8,
        length: Option<ByteCount>,
        base: &[u8],
    ) -> Result<Self, EncodeError> {
        let least = if base.is_empty() { 0 } else { LEAST_WITH_BASE };
        let quality = Quality::try_from(quality.clamp(least, MOST)).map_err(|_| FAILED)?;
        let window = Window::standard(window_log.max(LEAST_WINDOW_LOG)).map_err(|_| FAILED)?;
        let config = EncoderConfig::default().with_quality(quality).with_window(window);
        let compressor = Compressor::new(config).map_err(|_| FAILED)?;
        let size = length.map_or(InputSize::Unknown, |length| InputSize::Exact(length.bytes()));
        let session = if base.is_empty() {
            compressor.into_session(size.into())
        } else {
            let dictionary = DictionaryBuilder::new().add_prefix(base.to_vec()).build();
            let dictionary = dictionary.map_err(|_| FAILED)?;
            compressor.into_session_with_dictionary(dictionary, StreamConfig::from(size))
        };
        Ok(Self(Box::new(session.map_err(|_| FAILED)?)))
    }

    /// Codes `window` and appends the result to `out`.
    pub(crate) fn code(&mut self, window: &[u8], after: After, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let operation = match after {
            After::More => Operation::Flush,
            After::End => Operation::Finish,
        };
        let (mut read, mut written) = (0, out.len());
        loop {
            // Usually one iteration: text shrinks to less than half.
            out.resize(written + (window.len() - read) / 2 + ROOM, 0);
            let progress = self.0.process(&window[read..], &mut out[written..], operation);
            let progress = progress.map_err(|_| FAILED)?;
            read += progress.consumed;
            written += progress.produced;
            let is_done = match progress.status {
                EncoderStatus::NeedsOutput => false,
                EncoderStatus::NeedsInput => read == window.len(),
                EncoderStatus::Finished => true,
            };
            if is_done {
                out.truncate(written);
                return Ok(());
            }
        }
    }
}

const FAILED: EncodeError = EncodeError("brotli");
/// Highest quality, and lowest quality that supports dictionaries.
const MOST: u8 = 11;
const LEAST_WITH_BASE: u8 = 5;
/// With smaller windows the middle qualities use a much slower match finder.
const LEAST_WINDOW_LOG: u8 = 17;
/// Room for coded bytes in addition to half the window.
const ROOM: usize = 1024;

/// Memory limit of a decoder without its base: its window and many times what the prefix codes of streams
/// with that window need.
const MAX_WORKSPACE: usize = 16 * 1024 * 1024;

/// Decoder of one body with a base. It accepts zeros after the end of the stream as padding.
pub(crate) struct BasedBrotli(Box<DecoderSessionOwned<DecodeDictionary>>);

impl BasedBrotli {
    /// Returns a decoder that rejects streams whose window exceeds 2^`window_log` bytes.
    pub(crate) fn new(window_log: u8, base: &[u8]) -> Result<Self, Corrupt> {
        let window = WindowLimit::standard(window_log).map_err(|_| Corrupt)?;
        let config = DecoderConfig::new()
            .with_window_limit(window)
            .with_limits(DecodeLimits::default().with_max_workspace_bytes(Some(MAX_WORKSPACE)));
        let dictionary = DecodeDictionary::new(
            &[DictionaryAttachment::Raw(base)],
            DecodeDictionaryLimits::default(),
        );
        let dictionary = dictionary.map_err(|_| Corrupt)?;
        let decoder = Decompressor::new(config).map_err(|_| Corrupt)?;
        let session = decoder.into_session_with_dictionary(dictionary, OutputSize::Unknown.into());
        Ok(Self(Box::new(session.map_err(|_| Corrupt)?)))
    }

    pub(crate) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress, Corrupt> {
        if self.0.is_finished() {
            let read = input.len();
            return if input.iter().all(|byte| *byte == 0) {
                Ok(Progress { read, written: 0 })
            } else {
                Err(Corrupt)
            };
        }
        let progress = self.0.process(input, output, DecodeOperation::Process);
        let progress = progress.map_err(|_| Corrupt)?;
        Ok(Progress {
            read: progress.consumed,
            written: progress.produced,
        })
    }
}
