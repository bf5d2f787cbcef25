//! Messages between a program and its picture workers.
//!
//! A message is a frame: its length in four bytes (little-endian, not including the length itself), then its
//! contents. The program sends [`Job`]s, one at a time; the worker answers each with one [`Reply`], and sends
//! [`Reply::Ready`] before the first job. Both are the same build of the same program, so the format has no
//! version.
//!
//! Neither end trusts the other: the receiver checks a frame's length before it allocates memory, and each
//! message has exactly one encoding.
use crate::{
    level::ImageLevel,
    limits::Limits,
    request::{Request, TranscodeEffort, Viewport},
};

/// Bytes of a frame's length prefix.
pub const PREFIX: usize = 4;
/// Bytes of a job before the image: level and effort, viewport, limits, time and memory.
const JOB_HEAD: usize = 2 + 3 * 4 + (8 + 8 + 4 + 8 + 8) + 4 + 8;
/// Bytes of the largest image of a job, equal to [`Limits::default`].
const MAX_PICTURE: usize = 32_000_000;
/// Bytes of the largest job.
pub const MAX_JOB: usize = JOB_HEAD + MAX_PICTURE;

/// Parameters of the work on one image, without the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The transcoding request.
    pub request: Request,
    /// Time limit of the work in milliseconds.
    pub milliseconds: u32,
    /// Memory limit of the work in bytes.
    pub memory: u64,
}

/// Answer to a job; also the worker's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The worker waits for its first job.
    Ready,
    /// A smaller WebP.
    Transcoded(Vec<u8>),
    /// The original is kept.
    Kept,
    /// The image cannot be transcoded.
    Refused(Refusal),
}

/// Reasons why an image cannot be transcoded: the variants of [`TranscodeError`](crate::TranscodeError)
/// without their texts, because an untrusted process must not write text into the program's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The header cannot be read.
    Header,
    /// The image exceeds a limit.
    Limit,
    /// The pixels cannot be decoded.
    Pixels,
    /// The encoder failed.
    Encoder,
    /// The time limit was exceeded.
    Time,
}

/// Errors of parsing a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The frame exceeds the receiver's maximum length.
    #[error("a message of {0} bytes exceeds the limit")]
    TooLong(u64),
    /// The frame is truncated, or has bytes after its end.
    #[error("the length of a message does not match its contents")]
    Length,
    /// A number has no meaning.
    #[error("a message contains an invalid number")]
    Number,
}

/// Returns the length of the frame after this prefix.
///
/// # Errors
/// The length exceeds `most`.
pub fn frame_length(prefix: [u8; PREFIX], most: usize) -> Result<usize, ExchangeError> {
    let length = u32::from_le_bytes(prefix);
    usize::try_from(length)
        .ok()
        .filter(|length| *length <= most)
        .ok_or_else(|| ExchangeError::TooLong(length.into()))
}

fn prefix(length: usize) -> Result<[u8; PREFIX], ExchangeError> {
    let number = u32::try_from(length).map_err(|_| ExchangeError::TooLong(length as u64))?;
    Ok(number.to_le_bytes())
}

const EFFORTS: [TranscodeEffort; 4] = [
    TranscodeEffort::Fixed,
    TranscodeEffort::Quick,
    TranscodeEffort::Standard,
    TranscodeEffort::Checked,
];

/// Returns the index of a value in the table of all its possible values.
fn number<T: PartialEq>(table: &[T], value: &T) -> u8 {
    let place = table.iter().position(|one| one == value);
    // The tables contain all variants and are short.
    place
        .and_then(|place| u8::try_from(place).ok())
        .unwrap_or(u8::MAX)
}

fn numbered<T: Copy>(table: &[T], number: u8) -> Result<T, ExchangeError> {
    table
        .get(usize::from(number))
        .copied()
        .ok_or(ExchangeError::Number)
}

impl Job {
    /// Returns the frame's prefix and its contents before the image; the image of `picture` bytes follows.
    ///
    /// # Errors
    /// The image is larger than a job can contain.
    pub fn encode(&self, picture: usize) -> Result<Vec<u8>, ExchangeError> {
        if picture > MAX_PICTURE {
            return Err(ExchangeError::TooLong(picture as u64));
        }
        let Request {
            level,
            viewport,
            effort,
            limits,
        } = &self.request;
        let mut wire = Vec::with_capacity(PREFIX + JOB_HEAD);
        wire.extend(prefix(JOB_HEAD + picture)?);
        wire.push(number(&ImageLevel::ALL, level));
        wire.push(number(&EFFORTS, effort));
        for side in [viewport.width, viewport.height, viewport.ratio_percent] {
            wire.extend(side.to_le_bytes());
        }
        wire.extend((limits.input_bytes as u64).to_le_bytes());
        wire.extend(limits.pixels.to_le_bytes());
        wire.extend(limits.frames.to_le_bytes());
        wire.extend(limits.animation_pixels.to_le_bytes());
        wire.extend(limits.decode_bytes.to_le_bytes());
        wire.extend(self.milliseconds.to_le_bytes());
        wire.extend(self.memory.to_le_bytes());
        Ok(wire)
    }

    /// Returns the job in a frame (without prefix), and the image.
    ///
    /// # Errors
    /// The frame is not a job.
    pub fn decode(frame: &[u8]) -> Result<(Self, &[u8]), ExchangeError> {
        let mut reader = Reader(frame);
        let level = numbered(&ImageLevel::ALL, reader.byte()?)?;
        let effort = numbered(&EFFORTS, reader.byte()?)?;
        let viewport = Viewport {
            width: reader.u32()?,
            height: reader.u32()?,
            ratio_percent: reader.u32()?,
        };
        let limits = Limits {
            input_bytes: usize::try_from(reader.u64()?).map_err(|_| ExchangeError::Number)?,
            pixels: reader.u64()?,
            frames: reader.u32()?,
            animation_pixels: reader.u64()?,
            decode_bytes: reader.u64()?,
        };
        let job = Self {
            request: Request {
                level,
                viewport,
                effort,
                limits,
            },
            milliseconds: reader.u32()?,
            memory: reader.u64()?,
        };
        if reader.0.len() > MAX_PICTURE {
            return Err(ExchangeError::TooLong(frame.len() as u64));
        }
        Ok((job, reader.0))
    }
}

const READY: u8 = 0;
const TRANSCODED: u8 = 1;
const KEPT: u8 = 2;
const REFUSED: u8 = 3;
const REFUSALS: [Refusal; 5] = [
    Refusal::Header,
    Refusal::Limit,
    Refusal::Pixels,
    Refusal::Encoder,
    Refusal::Time,
];

impl Reply {
    /// Returns the complete frame, including the prefix.
    ///
    /// # Errors
    /// The length of the WebP does not fit in four bytes.
    pub fn encode(&self) -> Result<Vec<u8>, ExchangeError> {
        let (kind, rest): (u8, &[u8]) = match self {
            Self::Ready => (READY, &[]),
            Self::Transcoded(webp) => (TRANSCODED, webp),
            Self::Kept => (KEPT, &[]),
            Self::Refused(refusal) => (REFUSED, &[number(&REFUSALS, refusal)]),
        };
        let mut wire = Vec::with_capacity(PREFIX + 1 + rest.len());
        wire.extend(prefix(1 + rest.len())?);
        wire.push(kind);
        wire.extend_from_slice(rest);
        Ok(wire)
    }

    /// Parses the reply in a frame (without prefix).
    ///
    /// # Errors
    /// The frame is not a reply.
    pub fn decode(frame: &[u8]) -> Result<Self, ExchangeError> {
        match frame {
            [READY] => Ok(Self::Ready),
            [TRANSCODED, webp @ ..] if !webp.is_empty() => Ok(Self::Transcoded(webp.to_vec())),
            [KEPT] => Ok(Self::Kept),
            [REFUSED, refusal] => Ok(Self::Refused(numbered(&REFUSALS, *refusal)?)),
            [] | [READY | TRANSCODED | KEPT | REFUSED, ..] => Err(ExchangeError::Length),
            _ => Err(ExchangeError::Number),
        }
    }

    /// Returns the maximum length of a reply to a job with an image of `picture` bytes: a worker sends no
    /// result that is not smaller than the image.
    pub fn longest(picture: usize) -> usize {
        1 + picture.max(1)
    }
}

/// Unread bytes of a frame.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], ExchangeError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(ExchangeError::Length)?;
        self.0 = rest;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, ExchangeError> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, ExchangeError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, ExchangeError> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_job() -> impl Strategy<Value = Job> {
        let request = (0..5_usize, 0..4_usize, any::<[u32; 3]>());
        let limits = (any::<u32>(), any::<[u64; 3]>(), any::<u32>());
        (request, limits, any::<(u32, u64)>()).prop_map(
            |((level, effort, [width, height, ratio_percent]), limits, (milliseconds, memory))| {
                let (input_bytes, [pixels, animation_pixels, decode_bytes], frames) = limits;
                Job {
                    request: Request {
                        level: ImageLevel::ALL[level],
                        viewport: Viewport {
                            width,
                            height,
                            ratio_percent,
                        },
                        effort: EFFORTS[effort],
                        limits: Limits {
                            input_bytes: usize::try_from(input_bytes).expect("32 bits"),
                            pixels,
                            frames,
                            animation_pixels,
                            decode_bytes,
                        },
                    },
                    milliseconds,
                    memory,
                }
            },
        )
    }

    fn any_reply() -> impl Strategy<Value = Reply> {
        prop_oneof![
            Just(Reply::Ready),
            Just(Reply::Kept),
            proptest::collection::vec(any::<u8>(), 1..300).prop_map(Reply::Transcoded),
            (0..REFUSALS.len()).prop_map(|refusal| Reply::Refused(REFUSALS[refusal])),
        ]
    }

    /// Returns the contents of the frame in `wire`; an error if `wire` is not exactly one frame.
    fn frame(wire: &[u8], most: usize) -> Result<&[u8], ExchangeError> {
        let (prefix, rest) = wire.split_first_chunk().ok_or(ExchangeError::Length)?;
        let length = frame_length(*prefix, most)?;
        (rest.len() == length)
            .then_some(rest)
            .ok_or(ExchangeError::Length)
    }

    fn read_job(wire: &[u8]) -> Result<(Job, &[u8]), ExchangeError> {
        Job::decode(frame(wire, MAX_JOB)?)
    }

    fn read_reply(wire: &[u8]) -> Result<Reply, ExchangeError> {
        Reply::decode(frame(wire, Reply::longest(1_000))?)
    }

    fn job_wire(job: &Job, picture: &[u8]) -> Vec<u8> {
        [
            job.encode(picture.len()).expect("a small picture"),
            picture.to_vec(),
        ]
        .concat()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn jobs_round_trip_and_truncated_jobs_are_rejected(
            job in any_job(),
            picture in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let wire = job_wire(&job, &picture);
            prop_assert_eq!(read_job(&wire), Ok((job, picture.as_slice())));
            for length in 0..wire.len() {
                prop_assert!(read_job(&wire[..length]).is_err(), "{} bytes", length);
            }
        }

        #[test]
        fn replies_round_trip_and_truncated_replies_are_rejected(reply in any_reply()) {
            let wire = reply.encode().expect("a small picture");
            prop_assert_eq!(read_reply(&wire), Ok(reply));
            for length in 0..wire.len() {
                prop_assert!(read_reply(&wire[..length]).is_err(), "{} bytes", length);
            }
        }

        #[test]
        fn changed_messages_are_rejected_or_canonical(
            job in any_job(),
            reply in any_reply(),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            more in proptest::collection::vec(any::<u8>(), 0..3),
        ) {
            let changed = |mut wire: Vec<u8>| {
                for (place, value) in &changes {
                    let place = place.index(wire.len());
                    wire[place] = *value;
                }
                wire.extend(&more);
                wire
            };
            let wire = changed(job_wire(&job, b"picture"));
            if let Ok((job, picture)) = read_job(&wire) {
                prop_assert_eq!(job_wire(&job, picture), wire);
            }
            let wire = changed(reply.encode().expect("a small picture"));
            if let Ok(reply) = read_reply(&wire) {
                prop_assert_eq!(reply.encode(), Ok(wire));
            }
        }
    }

    #[test]
    fn a_changed_byte_of_an_enumerated_value_is_detected() {
        let job = Job {
            request: Request::default(),
            milliseconds: 1,
            memory: 1,
        };
        let wire = job_wire(&job, b"");
        for (place, most) in [(0, 4), (1, 3)] {
            for value in 0..=u8::MAX {
                let mut changed = wire.clone();
                changed[PREFIX + place] = value;
                assert_eq!(read_job(&changed).is_ok(), value <= most, "{place}: {value}");
            }
        }
        for kind in 4..=u8::MAX {
            assert_eq!(Reply::decode(&[kind]), Err(ExchangeError::Number));
        }
        assert_eq!(Reply::decode(&[REFUSED, 5]), Err(ExchangeError::Number));
        assert_eq!(Reply::decode(&[KEPT, 0]), Err(ExchangeError::Length));
        assert_eq!(Reply::decode(&[TRANSCODED]), Err(ExchangeError::Length));
    }

    #[test]
    fn allocations_stay_within_the_allowed_length() {
        assert_eq!(frame_length([5, 0, 0, 0], 5), Ok(5));
        assert_eq!(frame_length([6, 0, 0, 0], 5), Err(ExchangeError::TooLong(6)));
        assert_eq!(
            frame_length([255; 4], MAX_JOB),
            Err(ExchangeError::TooLong(u32::MAX.into()))
        );
        let job = Job {
            request: Request::default(),
            milliseconds: 1,
            memory: 1,
        };
        assert!(job.encode(MAX_PICTURE).is_ok());
        assert!(job.encode(MAX_PICTURE + 1).is_err());
    }
}
