//! Recording of a body's windows, to store them for other devices.
use std::time::Duration;

use longhaul_codec::{
    AdaptiveEncoder, CodedBody, Coder, Coding, Finished as Ended, MAX_WINDOW, MemoryReservation,
};
use longhaul_types::ContentHash;

use super::{MAX_CODED, SMALLEST, stored_record::StoredCoding};

/// Step in which a recording reserves memory, in bytes.
const STEP: usize = 64 * 1024;

/// Follows the encoding of one whole body for the encoded cache.
pub(crate) struct Recorder {
    key: [u8; 32],
    /// Coding of the stored result, if one was found.
    stored: Option<StoredCoding>,
    /// `None` if the result is not stored.
    recording: Option<Recording>,
    spent: Duration,
}

/// Recording of the windows so far; `None` if it was given up.
struct Recording(Option<Recorded>);

struct Recorded {
    wire: Vec<u8>,
    memory: MemoryReservation,
}

/// A completely encoded body.
pub(crate) struct Finished {
    pub(super) hash: ContentHash,
    pub(super) coder: Coder,
    pub(super) outcome: Outcome,
}

/// The result for the encoded cache.
pub(super) enum Outcome {
    /// Nothing to store.
    NotStored,
    /// Replayed from a stored result; its coder, unless it was context mixing.
    Replayed(Option<Coder>),
    /// Freshly encoded; the result, if it may be stored for other devices.
    New(Option<NewEncoding>),
}

/// A result that may be stored.
pub(super) struct NewEncoding {
    key: [u8; 32],
    coding: Coding,
    wire: Vec<u8>,
    pub(super) coder: Coder,
    pub(super) spent: Duration,
    _memory: MemoryReservation,
}

impl NewEncoding {
    /// Returns the result without the session's window checks, and the hash of its decoded bytes; `None` if
    /// it is unsuitable.
    pub(super) fn check(self) -> Option<(CodedBody, ContentHash)> {
        let (body, hash) = CodedBody::of_windows(self.key, self.coding, &self.wire)?;
        // A body that arrived in small pieces has too many small windows: the next transfer encodes it again.
        // The first windows of a body are small on slow links, and the last one may be empty.
        let needed = body.length().div_ceil(MAX_WINDOW as u64);
        (body.windows() as u64 <= 2 * needed + 3).then_some((body, hash))
    }
}

impl Recorder {
    /// `stored` is the coding of the stored result, if one was found; `memory` is the memory of the
    /// recording, `None` if the result is not stored.
    pub(super) fn new(
        key: [u8; 32],
        stored: Option<StoredCoding>,
        memory: Option<MemoryReservation>,
    ) -> Self {
        let recording = memory.map(|memory| {
            Recording(Some(Recorded {
                wire: Vec::new(),
                memory,
            }))
        });
        Self {
            key,
            stored,
            recording,
            spent: Duration::ZERO,
        }
    }

    /// Adds the windows that a step of the encoder wrote, and the time that it took.
    pub(crate) fn add(&mut self, encoder: &AdaptiveEncoder, windows: &[u8], took: Duration) {
        self.spent += took;
        if let Some(recording) = &mut self.recording {
            let stored = self.stored.map(StoredCoding::coding);
            let is_other = encoder.coding().is_some_and(|coding| {
                !matches!(coding, Coding::Brotli | Coding::Mix) || stored == Some(coding)
            });
            if is_other || encoder.base().is_some() {
                recording.0 = None;
            }
            recording.add(windows);
        }
    }

    /// Adds the last windows and returns the result. `decoded` is the decoded length of the body.
    pub(crate) fn finish(self, ended: &Ended, windows: &[u8], took: Duration, decoded: u64) -> Finished {
        let outcome = match (self.stored, self.recording) {
            // A result with a base belongs to one device.
            _ if ended.base.is_some() => Outcome::NotStored,
            (Some(stored), _) if stored.coding() == ended.coding => Outcome::Replayed(stored.coder()),
            // Coding identity: a stored result would save nothing.
            (_, Some(_)) if ended.coding == Coding::Identity => Outcome::NotStored,
            (_, None) => Outcome::NotStored,
            (_, Some(mut recording)) => {
                recording.add(windows);
                let is_stored = StoredCoding::of(ended.coding, ended.coder).is_some() && decoded >= SMALLEST;
                let new = recording.0.filter(|_| is_stored).map(|recorded| NewEncoding {
                    key: self.key,
                    coding: ended.coding,
                    wire: recorded.wire,
                    coder: ended.coder,
                    spent: self.spent + took,
                    _memory: recorded.memory,
                });
                Outcome::New(new)
            }
        };
        Finished {
            hash: ended.hash,
            coder: ended.coder,
            outcome,
        }
    }
}

impl Recording {
    fn add(&mut self, windows: &[u8]) {
        self.0 = self.0.take().and_then(|mut recorded| {
            let length = recorded.wire.len() + windows.len();
            let needed = (length.div_ceil(STEP) * STEP) as u64;
            let missing = needed.saturating_sub(recorded.memory.bytes());
            let has_room = length <= MAX_CODED.as_usize() && (missing == 0 || recorded.memory.grow(missing));
            has_room.then(|| {
                recorded.wire.extend_from_slice(windows);
                recorded
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use longhaul_codec::{BodyTraits, EffortPolicy, MemoryShares};
    use longhaul_types::{BitRate, ByteCount, PublicKey};

    use super::*;

    const KEY: [u8; 32] = [5; 32];

    fn encoder(base: Option<Vec<u8>>) -> AdaptiveEncoder {
        let traits = BodyTraits {
            content_type: Some("text/html"),
            link: Some(BitRate::kbps(384)),
            effort: EffortPolicy::ByLink,
            ..BodyTraits::default()
        };
        AdaptiveEncoder::new(KEY, traits).with_bases(base.into_iter().map(Into::into).collect())
    }

    /// Records the encoding of a body that arrives in pieces. Each piece after the first comes after a flush.
    fn recorded(memory: &MemoryShares, base: Option<Vec<u8>>, body: &[u8], piece: usize) -> Finished {
        let share = memory.of(PublicKey::from_bytes([1; 32]));
        let mut recorder = Recorder::new(KEY, None, share.reserve(0));
        let mut encoder = encoder(base);
        for (at, part) in body.chunks(piece).enumerate() {
            let mut wire = Vec::new();
            if at > 0 {
                encoder.flush(&mut wire).unwrap();
            }
            encoder.push(part, &mut wire).unwrap();
            recorder.add(&encoder, &wire, Duration::from_millis(1));
        }
        let mut wire = Vec::new();
        let ended = encoder.finish(&mut wire).unwrap();
        recorder.finish(&ended, &wire, Duration::from_millis(1), body.len() as u64)
    }

    fn new(finished: Finished) -> Option<NewEncoding> {
        match finished.outcome {
            Outcome::New(new) => new,
            Outcome::NotStored | Outcome::Replayed(_) => panic!("not a new result"),
        }
    }

    /// Words that Brotli does not shorten to nothing.
    fn text(length: usize) -> Vec<u8> {
        let words = (0..u32::MAX).flat_map(|n| format!("{:x} ", n.wrapping_mul(2_654_435_761)).into_bytes());
        words.take(length).collect()
    }

    #[test]
    fn a_result_is_the_body_and_took_the_time_of_all_its_steps() {
        let memory = MemoryShares::new(ByteCount::mib(1));
        let body = text(MAX_WINDOW * 2);
        let new = new(recorded(&memory, None, &body, MAX_WINDOW)).unwrap();
        assert_eq!(new.spent, Duration::from_millis(3));
        assert_eq!(memory.used().bytes() % STEP as u64, 0);
        assert!(memory.used().bytes() >= new.wire.len() as u64);
        let (coded, hash) = new.check().unwrap();
        assert_eq!(
            (coded.length(), hash),
            (body.len() as u64, ContentHash::of(&body))
        );
        assert_eq!(memory.used(), ByteCount::new(0));
    }

    #[test]
    fn results_of_all_lengths_are_suitable_unless_their_windows_are_small() {
        let memory = MemoryShares::new(ByteCount::mib(1));
        for length in [4, 12, 20, 28, 30, 32, 60, 64, 96] {
            let body = text(length * 1024);
            let suits = |piece| {
                let result = new(recorded(&memory, None, &body, piece)).unwrap();
                result.check().is_some()
            };
            assert!(suits(MAX_WINDOW), "{length}");
            assert!(length < 28 || !suits(1024), "{length}");
        }
    }

    #[test]
    fn short_bodies_and_those_with_a_base_are_not_stored() {
        let memory = MemoryShares::new(ByteCount::mib(1));
        let smallest = usize::try_from(SMALLEST).unwrap();
        let body = text(smallest);
        assert!(new(recorded(&memory, None, &body, smallest)).is_some());
        assert!(new(recorded(&memory, None, &body[1..], smallest)).is_none());
        let based = recorded(&memory, Some(body.clone()), &body, smallest);
        assert!(matches!(based.outcome, Outcome::NotStored));
        assert_eq!(memory.used(), ByteCount::new(0));
    }

    #[test]
    fn recording_ends_when_the_memory_is_used_up() {
        let body = text(MAX_WINDOW * 8);
        let enough = MemoryShares::new(ByteCount::mib(1));
        let size = new(recorded(&enough, None, &body, MAX_WINDOW))
            .unwrap()
            .wire
            .len();
        assert!(size > STEP);
        let little = MemoryShares::new(ByteCount::new(STEP as u64));
        assert!(new(recorded(&little, None, &body, MAX_WINDOW)).is_none());
        assert_eq!(little.used(), ByteCount::new(0));
    }
}
