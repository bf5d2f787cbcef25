//! Encodes a response's decoded body into windows for the hop.
//!
//! Each step has bounded input and output, so that the gateway buffers at most one step while the hop is
//! slow.
use bytes::Bytes;
use longhaul_codec::{Base, BodyEncoder, Coder, Coding, EncodeError, Load};
use longhaul_session::{BodyCoding, ShortHash, short_hash};
use longhaul_types::ContentHash;

use crate::encoded_cache::{Finished, WholeCoder};

/// Maximum input of a step, in bytes.
const STEP: usize = 64 * 1024;

/// Encodes decoded bytes into windows.
pub(crate) enum BodyCoder {
    /// Encodes a whole body.
    Whole(Box<WholeCoder>),
    /// Encodes the rest of a body (docs/protocol/session.md section 6): hashes the bytes before the offset
    /// without sending them.
    Rest {
        encoder: Box<BodyEncoder>,
        skip: u64,
        decoded: u64,
    },
}

/// Errors of encoding a body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodeError {
    /// The body ended before the offset at which the rest begins.
    #[error("the resource is shorter than it was")]
    Shorter,
    /// A coder of the gateway failed.
    #[error(transparent)]
    Gateway(#[from] EncodeError),
    /// The job in the thread pool panicked.
    #[error("coding was interrupted")]
    Interrupted,
}

/// Progress of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Input is left: call the step again before adding new input.
    More,
    /// All input was consumed.
    Done,
}

impl BodyCoder {
    /// Creates an encoder of a body's rest from offset `skip`, with coding identity.
    pub(crate) fn rest(key: [u8; 32], skip: u64) -> Result<Self, CodeError> {
        Ok(Self::Rest {
            encoder: Box::new(BodyEncoder::new(key, Coder::Identity, None)?),
            skip,
            decoded: 0,
        })
    }

    /// Coding of the windows, once it is chosen.
    pub(crate) fn coding(&self) -> Option<WindowCoding> {
        match self {
            Self::Whole(coder) => coder.coding(),
            Self::Rest { .. } => Some(WindowCoding::IDENTITY),
        }
    }

    /// Number of decoded bytes so far.
    pub(crate) const fn decoded(&self) -> u64 {
        match self {
            Self::Whole(coder) => coder.decoded(),
            Self::Rest { decoded, .. } => *decoded,
        }
    }

    /// Returns true if bytes are pending that [`Self::flush`] would write.
    pub(crate) fn holds(&self) -> bool {
        match self {
            Self::Whole(coder) => coder.holds(),
            Self::Rest { encoder, skip, .. } => *skip == 0 && encoder.pending() > 0,
        }
    }

    /// Returns true if a step with `input` bytes (0: a flush or the end) may take so long that it must not
    /// run on the event loop.
    pub(crate) fn is_heavy(&self, input: usize) -> bool {
        match self {
            Self::Whole(coder) if input == 0 => coder.flush_is_heavy(),
            Self::Whole(coder) => coder.push_is_heavy(input),
            Self::Rest { .. } => false,
        }
    }

    /// Sets the current processor load.
    pub(crate) fn under(&mut self, load: Load) {
        if let Self::Whole(coder) = self {
            coder.under(load);
        }
    }

    /// Encodes up to one step of `input` and appends complete windows to `wire`.
    pub(crate) fn step(&mut self, input: &mut Bytes, wire: &mut Vec<u8>) -> Result<Progress, CodeError> {
        let part = input.split_to(input.len().min(STEP));
        self.encode(&part, wire)?;
        Ok(if input.is_empty() {
            Progress::Done
        } else {
            Progress::More
        })
    }

    /// Appends the pending bytes as a window.
    pub(crate) fn flush(&mut self, wire: &mut Vec<u8>) -> Result<(), CodeError> {
        match self {
            Self::Whole(coder) => coder.flush(wire)?,
            Self::Rest { skip: 0, encoder, .. } => encoder.flush(wire)?,
            Self::Rest { .. } => {}
        }
        Ok(())
    }

    /// Returns an error if the body ended before the offset of its rest.
    pub(crate) const fn check_complete(&self) -> Result<(), CodeError> {
        match self {
            Self::Rest { skip: 1.., .. } => Err(CodeError::Shorter),
            Self::Rest { skip: 0, .. } | Self::Whole(_) => Ok(()),
        }
    }

    /// Appends the last window; returns the coding of the windows and, for a whole body, the coded result.
    pub(crate) fn finish(self, wire: &mut Vec<u8>) -> Result<(WindowCoding, Option<Finished>), CodeError> {
        self.check_complete()?;
        match self {
            Self::Whole(coder) => {
                let finished = coder.finish(wire)?;
                Ok((finished.coding, Some(finished)))
            }
            Self::Rest { encoder, .. } => {
                encoder.finish(wire)?;
                Ok((WindowCoding::IDENTITY, None))
            }
        }
    }

    fn encode(&mut self, mut decoded: &[u8], wire: &mut Vec<u8>) -> Result<(), CodeError> {
        match self {
            Self::Whole(coder) => coder.push(decoded, wire)?,
            Self::Rest {
                encoder,
                skip,
                decoded: count,
            } => {
                *count += decoded.len() as u64;
                let skipped = decoded.len().min(usize::try_from(*skip).unwrap_or(usize::MAX));
                if skipped > 0 {
                    let mut unsent = Vec::new();
                    encoder.push(&decoded[..skipped], &mut unsent)?;
                    *skip -= skipped as u64;
                    if *skip == 0 {
                        encoder.flush(&mut unsent)?;
                    }
                    decoded = &decoded[skipped..];
                }
                if *skip == 0 {
                    encoder.push(decoded, wire)?;
                }
            }
        }
        Ok(())
    }
}

/// Coding of a body's windows, as in its `Body` message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowCoding {
    pub(crate) coding: BodyCoding,
    pub(crate) base: Option<ShortHash>,
}

impl WindowCoding {
    const IDENTITY: Self = Self {
        coding: BodyCoding::Identity,
        base: None,
    };

    /// Resolves `base`; `offered` lists the hashes of the offered bases.
    pub(crate) fn new(coding: BodyCoding, base: Option<Base>, offered: &[ContentHash]) -> Self {
        let base = match base {
            Some(Base::Offered(place)) => offered.get(place).map(short_hash),
            Some(Base::Shipped(hash)) => Some(short_hash(&hash)),
            None => None,
        };
        Self { coding, base }
    }
}

pub(crate) const fn message_coding(coding: Coding) -> BodyCoding {
    match coding {
        Coding::Identity => BodyCoding::Identity,
        Coding::Zstd => BodyCoding::Zstd,
        Coding::Brotli => BodyCoding::Brotli,
        Coding::Mix => BodyCoding::Mix,
    }
}

#[cfg(test)]
mod tests {
    use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits, BodyTraits};

    use super::*;
    use crate::{delta_bases::DeltaCandidates, encoded_cache::Prior};

    const KEY: [u8; 32] = [7; 32];

    fn whole() -> BodyCoder {
        let coder = WholeCoder::new(
            KEY,
            BodyTraits::default(),
            DeltaCandidates::default(),
            Prior::default(),
        );
        BodyCoder::Whole(Box::new(coder))
    }

    fn decode(decoder: &mut BodyDecoder, mut wire: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            match decoder.next(&mut wire).unwrap() {
                BodyEvent::Window(bytes) => body.extend_from_slice(&bytes),
                BodyEvent::End(_) | BodyEvent::NeedInput => return body,
            }
        }
    }

    fn feed(coder: &mut BodyCoder, body: &[u8], piece: usize) -> Vec<u8> {
        let mut wire = Vec::new();
        for chunk in body.chunks(piece) {
            let mut chunk = Bytes::copy_from_slice(chunk);
            while coder.step(&mut chunk, &mut wire).unwrap() == Progress::More {}
        }
        wire
    }

    fn codec(coding: BodyCoding) -> Coding {
        match coding {
            BodyCoding::Identity => Coding::Identity,
            BodyCoding::Zstd => Coding::Zstd,
            BodyCoding::Brotli => Coding::Brotli,
            BodyCoding::Mix => Coding::Mix,
        }
    }

    #[test]
    fn whole_bodies_and_rests_decode_to_the_same() {
        let body: Vec<u8> = (0..200_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let mut coder = whole();
        let mut wire = feed(&mut coder, &body, 10_007);
        assert_eq!(coder.decoded(), body.len() as u64);
        let (coding, _) = coder.finish(&mut wire).unwrap();
        let mut decoder = BodyDecoder::new(KEY, codec(coding.coding), BodyLimits::default());
        assert_eq!(decode(&mut decoder, &wire), body);
        decoder.finish().unwrap();

        for offset in [0_usize, 1, 32_768, 300_000, body.len()] {
            let mut first = whole();
            let mut wire = feed(&mut first, &body[..offset], 4096);
            first.flush(&mut wire).unwrap();
            let coding = first.coding().unwrap_or(WindowCoding::IDENTITY);
            let mut decoder = BodyDecoder::new(KEY, codec(coding.coding), BodyLimits::default());
            let mut found = decode(&mut decoder, &wire);
            assert_eq!(found.len(), offset);
            let mut rest = BodyCoder::rest(KEY, offset as u64).unwrap();
            let mut wire = feed(&mut rest, &body, 9973);
            rest.finish(&mut wire).unwrap();
            let mut decoder = decoder.resume(KEY, Coding::Identity);
            found.extend(decode(&mut decoder, &wire));
            decoder.finish().unwrap();
            assert_eq!(found, body, "from {offset}");
        }
    }

    #[test]
    fn a_body_that_became_shorter_has_no_rest() {
        let mut rest = BodyCoder::rest(KEY, 100).unwrap();
        let mut wire = feed(&mut rest, &[1; 99], 50);
        assert_eq!(rest.finish(&mut wire).err(), Some(CodeError::Shorter));
        assert!(wire.is_empty());
    }

    #[test]
    fn what_is_held_comes_out_with_a_flush() {
        let mut coder = whole();
        let mut wire = feed(&mut coder, b"first part", 100);
        assert!(wire.is_empty() && coder.holds());
        coder.flush(&mut wire).unwrap();
        assert!(!coder.holds());
        let mut decoder = BodyDecoder::new(KEY, codec(coder.coding().unwrap().coding), BodyLimits::default());
        assert_eq!(decode(&mut decoder, &wire), b"first part");
    }
}
