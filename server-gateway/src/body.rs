//! A response's decoded body on its way to the hop: put into windows.
//!
//! Work is done in steps of bounded input and output, so that no more than a step is held while the hop is slow.
use bytes::Bytes;
use longhaul_codec::{AdaptiveEncoder, BodyEncoder, BodyTraits, Coder, Coding, EncodeError, MAX_WINDOW};
use longhaul_protocol::session::BodyCoding;

/// Most bytes that a step takes.
const STEP: usize = 64 * 1024;

/// Turns decoded bytes into windows.
pub(crate) struct BodyCoder {
    encoder: Encoder,
    /// Decoded bytes since the last window.
    held: usize,
    decoded: u64,
}

enum Encoder {
    Whole(AdaptiveEncoder),
    /// The rest of a body (docs/protocol/session.md section 6): what comes before it is hashed and not sent.
    Rest {
        encoder: BodyEncoder,
        skip: u64,
    },
}

/// Why a body cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodeError {
    /// The body ended before the offset from which it is to go on.
    #[error("the resource is shorter than it was")]
    Shorter,
    /// A coder failed here.
    #[error(transparent)]
    Gateway(#[from] EncodeError),
    /// The thread for computing died.
    #[error("coding was interrupted")]
    Interrupted,
}

/// Whether a step used up its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to do before new input.
    More,
    /// New input is needed.
    Done,
}

impl BodyCoder {
    /// A coder of a body from its start, under the session's window key.
    pub(crate) fn whole(key: [u8; 32], traits: BodyTraits<'_>) -> Self {
        Self {
            encoder: Encoder::Whole(AdaptiveEncoder::new(key, traits)),
            held: 0,
            decoded: 0,
        }
    }

    /// A coder of a body from `skip` on, uncoded.
    pub(crate) fn rest(key: [u8; 32], skip: u64) -> Result<Self, CodeError> {
        let encoder = BodyEncoder::new(key, Coder::Identity, None)?;
        Ok(Self {
            encoder: Encoder::Rest { encoder, skip },
            held: 0,
            decoded: 0,
        })
    }

    /// How the windows are coded, once that is decided.
    pub(crate) fn coding(&self) -> Option<BodyCoding> {
        match &self.encoder {
            Encoder::Whole(encoder) => encoder.coding().map(message_coding),
            Encoder::Rest { .. } => Some(BodyCoding::Identity),
        }
    }

    /// Decoded bytes so far.
    pub(crate) const fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Whether bytes are held back that [`Self::flush`] would give out.
    pub(crate) const fn holds(&self) -> bool {
        self.held > 0
    }

    /// Whether a step with this input may take so long that others should not wait for it.
    pub(crate) const fn is_heavy(&self, input: usize) -> bool {
        self.held + input >= MAX_WINDOW
    }

    /// Takes some of `input` and appends windows to `wire`.
    pub(crate) fn step(&mut self, input: &mut Bytes, wire: &mut Vec<u8>) -> Result<Progress, CodeError> {
        let part = input.split_to(input.len().min(STEP));
        self.encode(&part, wire)?;
        Ok(if input.is_empty() {
            Progress::Done
        } else {
            Progress::More
        })
    }

    /// Appends a window with what is held back.
    pub(crate) fn flush(&mut self, wire: &mut Vec<u8>) -> Result<(), CodeError> {
        self.held = 0;
        match &mut self.encoder {
            Encoder::Whole(encoder) => encoder.flush(wire)?,
            Encoder::Rest { skip: 0, encoder } => encoder.flush(wire)?,
            Encoder::Rest { .. } => {}
        }
        Ok(())
    }

    /// Whether what has come is a whole body.
    pub(crate) fn check_complete(&self) -> Result<(), CodeError> {
        match &self.encoder {
            Encoder::Rest { skip: 1.., .. } => Err(CodeError::Shorter),
            Encoder::Rest { skip: 0, .. } | Encoder::Whole(_) => Ok(()),
        }
    }

    /// Appends the last window, and says how the windows are coded.
    pub(crate) fn finish(self, wire: &mut Vec<u8>) -> Result<BodyCoding, CodeError> {
        self.check_complete()?;
        match self.encoder {
            Encoder::Whole(encoder) => Ok(message_coding(encoder.finish(wire)?.coding)),
            Encoder::Rest { encoder, .. } => {
                encoder.finish(wire)?;
                Ok(BodyCoding::Identity)
            }
        }
    }

    fn encode(&mut self, mut decoded: &[u8], wire: &mut Vec<u8>) -> Result<(), CodeError> {
        self.decoded += decoded.len() as u64;
        match &mut self.encoder {
            Encoder::Whole(encoder) => encoder.push(decoded, wire)?,
            Encoder::Rest { encoder, skip } => {
                let skipped = decoded.len().min(usize::try_from(*skip).unwrap_or(usize::MAX));
                if skipped > 0 {
                    let mut unsent = Vec::new();
                    encoder.push(&decoded[..skipped], &mut unsent)?;
                    *skip -= skipped as u64;
                    if *skip == 0 {
                        encoder.flush(&mut unsent)?;
                        self.held = 0;
                    }
                    decoded = &decoded[skipped..];
                }
                if *skip == 0 {
                    encoder.push(decoded, wire)?;
                }
            }
        }
        self.held = (self.held + decoded.len()) % MAX_WINDOW;
        Ok(())
    }
}

const fn message_coding(coding: Coding) -> BodyCoding {
    match coding {
        Coding::Identity => BodyCoding::Identity,
        Coding::Zstd => BodyCoding::Zstd,
        Coding::Brotli => BodyCoding::Brotli,
    }
}

#[cfg(test)]
mod tests {
    use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits};

    use super::*;

    const KEY: [u8; 32] = [7; 32];

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
        }
    }

    #[test]
    fn whole_bodies_and_rests_decode_to_the_same() {
        let body: Vec<u8> = (0..200_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let mut coder = BodyCoder::whole(KEY, BodyTraits::default());
        let mut wire = feed(&mut coder, &body, 10_007);
        assert_eq!(coder.decoded(), body.len() as u64);
        let coding = coder.finish(&mut wire).unwrap();
        let mut decoder = BodyDecoder::new(KEY, codec(coding), BodyLimits::default());
        assert_eq!(decode(&mut decoder, &wire), body);
        decoder.finish().unwrap();

        for offset in [0_usize, 1, 32_768, 300_000, body.len()] {
            let mut first = BodyCoder::whole(KEY, BodyTraits::default());
            let mut wire = feed(&mut first, &body[..offset], 4096);
            first.flush(&mut wire).unwrap();
            let coding = first.coding().unwrap_or(BodyCoding::Identity);
            let mut decoder = BodyDecoder::new(KEY, codec(coding), BodyLimits::default());
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
        assert_eq!(rest.finish(&mut wire).unwrap_err(), CodeError::Shorter);
        assert!(wire.is_empty());
    }

    #[test]
    fn what_is_held_comes_out_with_a_flush() {
        let mut coder = BodyCoder::whole(KEY, BodyTraits::default());
        let mut wire = feed(&mut coder, b"first part", 100);
        assert!(wire.is_empty() && coder.holds());
        coder.flush(&mut wire).unwrap();
        assert!(!coder.holds());
        let mut decoder = BodyDecoder::new(KEY, codec(coder.coding().unwrap()), BodyLimits::default());
        assert_eq!(decode(&mut decoder, &wire), b"first part");
    }
}
