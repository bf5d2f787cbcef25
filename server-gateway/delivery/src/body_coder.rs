//! Encodes a body's decoded bytes into windows for the hop.
//!
//! Each step has bounded input and output, so that the gateway buffers at most one step while the hop is
//! slow.
use std::time::Instant;

use bytes::Bytes;
use longhaul_codec::{
    AdaptiveEncoder, BodyEncoder, BodyTraits, Coder, EncodeError, Load, MemoryReservation, SizeHiding,
};
use longhaul_types::{ByteCount, ContentHash};
use longhaul_webcache::Audience;

use super::{
    delta_bases::DeltaCandidates,
    encoded_cache::{Finished, PriorEncoding, Recorder},
    window_coding::WindowCoding,
};

/// Maximum input of a step, in bytes.
const STEP: usize = 64 * 1024;
/// Maximum number of bytes that are encoded on the event loop; more are encoded in the thread pool.
const LIGHT: usize = 1024;

/// Encodes decoded bytes into windows.
pub(crate) struct BodyCoder {
    encoder: Encoder,
    decoded: u64,
}

enum Encoder {
    /// Encodes a whole body: against a base, from a stored result, or new and recorded.
    Whole {
        encoder: Box<AdaptiveEncoder>,
        /// CHKs of the candidate bases.
        bases: Vec<ContentHash>,
        recorder: Box<Recorder>,
        /// Memory of the bases and of a stored result.
        _memory: [Option<MemoryReservation>; 2],
    },
    /// Sends a body with coding identity from an offset (docs/protocol/session.md section 6): hashes the
    /// `skip` bytes before the offset without sending them.
    Identity { encoder: Box<BodyEncoder>, skip: u64 },
}

/// Errors of encoding a body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
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
pub enum Progress {
    /// Input is left: call the step again before adding new input.
    More,
    /// All input was consumed.
    Done,
}

impl BodyCoder {
    /// Creates an encoder of a body from offset 0, under the session's window key.
    pub(crate) fn whole(
        key: [u8; 32],
        traits: BodyTraits<'_>,
        audience: Audience,
        candidates: DeltaCandidates,
        prior: PriorEncoding,
    ) -> Self {
        let (stored, stored_memory, recorder) = prior.into_parts(key);
        let mut encoder = AdaptiveEncoder::new(key, traits)
            .with_bases(candidates.bodies)
            .with_dictionaries(candidates.dictionaries)
            .with_mixing(candidates.mixing)
            .with_coded(stored);
        if candidates.is_personal {
            encoder = encoder.hiding(SizeHiding::Based);
        }
        if audience == Audience::RequestingUser {
            encoder = encoder.hiding(SizeHiding::Coded);
        }
        Self {
            encoder: Encoder::Whole {
                encoder: Box::new(encoder),
                bases: candidates.hashes,
                recorder: Box::new(recorder),
                _memory: [candidates.memory, stored_memory],
            },
            decoded: 0,
        }
    }

    /// Creates an encoder with coding identity that sends a body from offset `skip`.
    pub(crate) fn identity(key: [u8; 32], length: Option<ByteCount>, skip: u64) -> Result<Self, EncodeError> {
        Ok(Self {
            encoder: Encoder::Identity {
                encoder: Box::new(BodyEncoder::new(key, Coder::Identity, length)?),
                skip,
            },
            decoded: 0,
        })
    }

    /// Coding of the windows, once it is chosen.
    pub(crate) fn coding(&self) -> Option<WindowCoding> {
        match &self.encoder {
            Encoder::Whole { encoder, bases, .. } => {
                Some(WindowCoding::new(encoder.coding()?, encoder.base(), bases))
            }
            Encoder::Identity { .. } => Some(WindowCoding::IDENTITY),
        }
    }

    /// Number of decoded bytes so far.
    pub(crate) const fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Returns true if bytes are pending that [`Self::flush`] would write. A replayed result has fixed
    /// windows.
    pub(crate) fn holds(&self) -> bool {
        match &self.encoder {
            Encoder::Whole { encoder, .. } => !encoder.is_replay() && encoder.pending() > 0,
            Encoder::Identity { encoder, skip } => *skip == 0 && encoder.pending() > 0,
        }
    }

    /// Returns true if a step with `input` bytes (0: a flush or the end) may take so long that it must not
    /// run on the event loop.
    pub(crate) fn is_heavy(&self, input: usize) -> bool {
        match &self.encoder {
            Encoder::Whole { encoder, .. } if encoder.is_replay() => false,
            Encoder::Whole { encoder, .. } if input == 0 => encoder.pending() > LIGHT || encoder.has_trials(),
            Encoder::Whole { encoder, .. } => input >= encoder.missing(),
            Encoder::Identity { .. } => false,
        }
    }

    /// Sets the current processor load, which matters until the coding is chosen.
    pub(crate) fn set_load(&mut self, load: Load) {
        if let Encoder::Whole { encoder, .. } = &mut self.encoder {
            encoder.under(load);
        }
    }

    /// Encodes up to one step of `input` and appends complete windows to `wire`.
    pub(crate) fn step(&mut self, input: &mut Bytes, wire: &mut Vec<u8>) -> Result<Progress, CodeError> {
        let part = input.split_to(input.len().min(STEP));
        self.push(&part, wire)?;
        Ok(if input.is_empty() {
            Progress::Done
        } else {
            Progress::More
        })
    }

    fn push(&mut self, decoded: &[u8], wire: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.decoded += decoded.len() as u64;
        match &mut self.encoder {
            Encoder::Whole {
                encoder, recorder, ..
            } => recorded(encoder, recorder, wire, |encoder, wire| {
                encoder.push(decoded, wire)
            }),
            Encoder::Identity { encoder, skip } => push_after(encoder, skip, decoded, wire),
        }
    }

    /// Appends the pending bytes as a window.
    pub(crate) fn flush(&mut self, wire: &mut Vec<u8>) -> Result<(), CodeError> {
        match &mut self.encoder {
            Encoder::Whole {
                encoder, recorder, ..
            } => recorded(encoder, recorder, wire, AdaptiveEncoder::flush)?,
            Encoder::Identity { encoder, skip: 0 } => encoder.flush(wire)?,
            Encoder::Identity { .. } => {}
        }
        Ok(())
    }

    /// Returns an error if the body ended before the offset of its rest.
    pub(crate) const fn check_complete(&self) -> Result<(), CodeError> {
        match &self.encoder {
            Encoder::Identity { skip: 1.., .. } => Err(CodeError::Shorter),
            Encoder::Identity { skip: 0, .. } | Encoder::Whole { .. } => Ok(()),
        }
    }

    /// Appends the last window; returns the coding of the windows and, for a whole body, the encoded result.
    pub(crate) fn finish(self, wire: &mut Vec<u8>) -> Result<(WindowCoding, Option<Finished>), CodeError> {
        self.check_complete()?;
        match self.encoder {
            Encoder::Whole {
                encoder,
                bases,
                recorder,
                ..
            } => {
                let (start, begun) = (wire.len(), Instant::now());
                let ended = encoder.finish(wire)?;
                let finished = recorder.finish(&ended, &wire[start..], begun.elapsed(), self.decoded);
                Ok((
                    WindowCoding::new(ended.coding, ended.base, &bases),
                    Some(finished),
                ))
            }
            Encoder::Identity { encoder, .. } => {
                encoder.finish(wire)?;
                Ok((WindowCoding::IDENTITY, None))
            }
        }
    }
}

/// Runs a step of an encoder and records the windows that it writes.
fn recorded(
    encoder: &mut AdaptiveEncoder,
    recorder: &mut Recorder,
    wire: &mut Vec<u8>,
    step: impl FnOnce(&mut AdaptiveEncoder, &mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let (start, begun) = (wire.len(), Instant::now());
    step(encoder, wire)?;
    recorder.add(encoder, &wire[start..], begun.elapsed());
    Ok(())
}

/// Pushes decoded bytes of which the first `skip` are hashed and not sent.
fn push_after(
    encoder: &mut BodyEncoder,
    skip: &mut u64,
    mut decoded: &[u8],
    wire: &mut Vec<u8>,
) -> Result<(), EncodeError> {
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits, Coding};
    use longhaul_session::BodyCoding;

    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn whole() -> BodyCoder {
        BodyCoder::whole(
            KEY,
            BodyTraits::default(),
            Audience::RequestingDevice,
            DeltaCandidates::default(),
            PriorEncoding::default(),
        )
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
    fn complete_and_resumed_bodies_decode_to_the_same_bytes() {
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
            let mut rest = BodyCoder::identity(KEY, None, offset as u64).unwrap();
            let mut wire = feed(&mut rest, &body, 9973);
            rest.finish(&mut wire).unwrap();
            let mut decoder = decoder.resume(KEY, Coding::Identity);
            found.extend(decode(&mut decoder, &wire));
            decoder.finish().unwrap();
            assert_eq!(found, body, "from {offset}");
        }
    }

    #[test]
    fn a_body_shorter_than_the_offset_cannot_be_resumed() {
        let mut rest = BodyCoder::identity(KEY, None, 100).unwrap();
        let mut wire = feed(&mut rest, &[1; 99], 50);
        assert_eq!(rest.finish(&mut wire).err(), Some(CodeError::Shorter));
        assert!(wire.is_empty());
    }

    #[test]
    fn a_flush_writes_the_buffered_bytes() {
        let mut coder = whole();
        let mut wire = feed(&mut coder, b"first part", 100);
        assert!(wire.is_empty() && coder.holds());
        coder.flush(&mut wire).unwrap();
        assert!(!coder.holds());
        let mut decoder = BodyDecoder::new(KEY, codec(coder.coding().unwrap().coding), BodyLimits::default());
        assert_eq!(decode(&mut decoder, &wire), b"first part");
    }

    #[test]
    fn a_resumed_body_holds_nothing_before_its_offset() {
        let mut rest = BodyCoder::identity(KEY, None, 10).unwrap();
        assert!(!rest.holds());
        let mut wire = feed(&mut rest, b"123456789", 4);
        assert!(!rest.holds(), "these bytes are only hashed");
        wire.extend(feed(&mut rest, b"0", 1));
        assert!(!rest.holds(), "the last of them");
        rest.flush(&mut wire).unwrap();
        assert!(wire.is_empty());
        wire.extend(feed(&mut rest, b"a", 1));
        assert!(rest.holds() && wire.is_empty());
        rest.flush(&mut wire).unwrap();
        assert!(!rest.holds() && !wire.is_empty());
    }

    #[test]
    fn only_steps_that_encode_much_leave_the_event_loop() {
        let mut coder = whole();
        feed(&mut coder, &[b'a'; LIGHT], LIGHT);
        assert!(!coder.is_heavy(0) && !coder.is_heavy(1));
        assert!(
            coder.is_heavy(longhaul_codec::MAX_WINDOW),
            "this completes a window"
        );
        feed(&mut coder, b"a", 1);
        assert!(coder.is_heavy(0), "a flush encodes more than the event loop may");
        let resumed = BodyCoder::identity(KEY, None, 0).unwrap();
        assert!(!resumed.is_heavy(0) && !resumed.is_heavy(STEP));
        let mut based = BodyCoder::whole(
            KEY,
            BodyTraits {
                link: Some(longhaul_types::BitRate::kbps(384)),
                ..BodyTraits::default()
            },
            Audience::RequestingDevice,
            DeltaCandidates {
                hashes: vec![ContentHash::of(b"base")],
                bodies: vec![Bytes::from_static(&[b'b'; 1000])],
                ..DeltaCandidates::default()
            },
            PriorEncoding::default(),
        );
        feed(&mut based, b"a", 1);
        assert!(based.is_heavy(0), "bases are read in trials");
    }
}
