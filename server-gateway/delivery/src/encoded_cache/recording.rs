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
        let needed = body.length().div_ceil(MAX_WINDOW as u64);
        (body.windows() as u64 <= 2 * needed + 1).then_some((body, hash))
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
