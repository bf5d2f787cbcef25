//! Encoder of a whole body: against a base, from a stored coded result, or new and recorded.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use longhaul_codec::{AdaptiveEncoder, BodyTraits, CodedBody, Coder, Coding, EncodeError, Load, MAX_WINDOW};
use longhaul_types::ContentHash;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Found, MAX_CODED, Prior, SMALLEST, record::Means};
use crate::{
    body::{WindowCoding, message_coding},
    delta_bases::DeltaCandidates,
};

/// Maximum number of bytes that are encoded on the event loop; more are encoded in the thread pool.
const LIGHT: usize = 1024;
/// Step in which a recording acquires memory, in KiB.
const STEP: usize = 64;

/// Encodes a whole body into windows.
pub(crate) struct WholeCoder {
    key: [u8; 32],
    encoder: AdaptiveEncoder,
    /// CHKs of the candidate bases.
    bases: Vec<ContentHash>,
    /// Memory permits of the bases and of a stored result.
    _memory: (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>),
    /// Coding of the stored result, if one was found.
    kept: Option<Means>,
    /// `None` if the result is not kept.
    recording: Option<Recording>,
    decoded: u64,
    spent: Duration,
}

/// Recording of the windows so far.
struct Recording {
    /// `None` if the recording was given up.
    wire: Option<Vec<u8>>,
    budget: Arc<Semaphore>,
    memory: Option<OwnedSemaphorePermit>,
}

/// A completely encoded body.
pub(crate) struct Finished {
    pub(crate) coding: WindowCoding,
    pub(crate) hash: ContentHash,
    pub(super) coder: Coder,
    pub(super) outcome: Outcome,
}

/// The result for the encoded cache.
pub(super) enum Outcome {
    /// Nothing to keep.
    Apart,
    /// Replayed from a stored result; its coder, unless it was context mixing.
    Replayed(Option<Coder>),
    /// Freshly encoded; the result, if it may be cached for other devices.
    Anew(Option<Made>),
}

/// A result that may be kept.
pub(super) struct Made {
    key: [u8; 32],
    coding: Coding,
    wire: Vec<u8>,
    pub(super) coder: Coder,
    pub(super) spent: Duration,
    _memory: Option<OwnedSemaphorePermit>,
}

impl Made {
    /// Returns the result without the session's window checks, and the hash of its decoded bytes; `None` if
    /// it is unsuitable.
    pub(super) fn check(self) -> Option<(CodedBody, ContentHash)> {
        let (body, hash) = CodedBody::of_windows(self.key, self.coding, &self.wire)?;
        // A body that arrived in small pieces has too many small windows: the next transfer encodes it anew.
        let needed = body.length().div_ceil(MAX_WINDOW as u64);
        (body.windows() as u64 <= 2 * needed + 1).then_some((body, hash))
    }
}

impl WholeCoder {
    /// Creates an encoder of a body from offset 0, under the session's window key.
    pub(crate) fn new(key: [u8; 32], traits: BodyTraits<'_>, offers: DeltaCandidates, prior: Prior) -> Self {
        let Prior { found, recording } = prior;
        let (coded, kept, memory) = match found {
            Some(Found { body, means, memory }) => (Some(body), Some(means), Some(memory)),
            None => (None, None, None),
        };
        let mut encoder = AdaptiveEncoder::new(key, traits)
            .with_bases(offers.bodies)
            .with_dictionaries(offers.dictionaries)
            .with_mixing(offers.mixing)
            .with_coded(coded);
        if offers.is_personal {
            encoder = encoder.hiding_size();
        }
        let recording = recording.map(|budget| Recording {
            wire: Some(Vec::new()),
            budget,
            memory: None,
        });
        Self {
            key,
            encoder,
            bases: offers.hashes,
            _memory: (offers.memory, memory),
            kept,
            recording,
            decoded: 0,
            spent: Duration::ZERO,
        }
    }

    /// Coding of the windows, once it is chosen.
    pub(crate) fn coding(&self) -> Option<WindowCoding> {
        let coding = message_coding(self.encoder.coding()?);
        Some(WindowCoding::new(coding, self.encoder.base(), &self.bases))
    }

    /// Number of decoded bytes so far.
    pub(crate) const fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Returns true if bytes are pending that [`Self::flush`] would write. A replayed result has fixed
    /// windows.
    pub(crate) fn holds(&self) -> bool {
        !self.encoder.is_replay() && self.encoder.pending() > 0
    }

    /// Returns true if pushing `input` bytes may take so long that it must not run on the event loop.
    pub(crate) fn push_is_heavy(&self, input: usize) -> bool {
        !self.encoder.is_replay() && input >= self.encoder.missing()
    }

    /// Returns true if encoding the pending bytes may take so long that it must not run on the event loop.
    pub(crate) fn flush_is_heavy(&self) -> bool {
        !self.encoder.is_replay() && (self.encoder.pending() > LIGHT || self.encoder.has_trials())
    }

    /// Sets the current processor load, which matters until the coding is chosen.
    pub(crate) const fn under(&mut self, load: Load) {
        self.encoder.under(load);
    }

    pub(crate) fn push(&mut self, decoded: &[u8], wire: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.decoded += decoded.len() as u64;
        self.work(wire, |encoder, wire| encoder.push(decoded, wire))
    }

    pub(crate) fn flush(&mut self, wire: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.work(wire, AdaptiveEncoder::flush)
    }

    pub(crate) fn finish(mut self, wire: &mut Vec<u8>) -> Result<Finished, EncodeError> {
        let (start, begun) = (wire.len(), Instant::now());
        let finished = self.encoder.finish(wire)?;
        self.spent += begun.elapsed();
        let coding = message_coding(finished.coding);
        let outcome = match (self.kept, self.recording) {
            // A result with a base belongs to one device.
            _ if finished.base.is_some() => Outcome::Apart,
            (Some(kept), _) if kept.coding() == finished.coding => Outcome::Replayed(kept.coder()),
            // Coding identity: a stored result would save nothing.
            (_, Some(_)) if finished.coding == Coding::Identity => Outcome::Apart,
            (_, None) => Outcome::Apart,
            (_, Some(mut recording)) => {
                recording.add(&wire[start..]);
                let is_kept =
                    Means::of(finished.coding, finished.coder).is_some() && self.decoded >= SMALLEST;
                let made = recording.wire.filter(|_| is_kept).map(|wire| Made {
                    key: self.key,
                    coding: finished.coding,
                    wire,
                    coder: finished.coder,
                    spent: self.spent,
                    _memory: recording.memory,
                });
                Outcome::Anew(made)
            }
        };
        Ok(Finished {
            coding: WindowCoding::new(coding, finished.base, &self.bases),
            hash: finished.hash,
            coder: finished.coder,
            outcome,
        })
    }

    fn work(
        &mut self,
        wire: &mut Vec<u8>,
        work: impl FnOnce(&mut AdaptiveEncoder, &mut Vec<u8>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let (start, begun) = (wire.len(), Instant::now());
        work(&mut self.encoder, wire)?;
        self.spent += begun.elapsed();
        if let Some(recording) = &mut self.recording {
            let kept = self.kept.map(Means::coding);
            let is_other = self.encoder.coding().is_some_and(|coding| {
                !matches!(coding, Coding::Brotli | Coding::Mix) || kept == Some(coding)
            });
            if is_other || self.encoder.base().is_some() {
                recording.stop();
            }
            recording.add(&wire[start..]);
        }
        Ok(())
    }
}

impl Recording {
    fn add(&mut self, windows: &[u8]) {
        let Some(wire) = &mut self.wire else { return };
        let needed = (wire.len() + windows.len()).div_ceil(STEP * 1024) * STEP;
        let has = self.memory.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if needed > has {
            let missing = u32::try_from(needed - has).unwrap_or(u32::MAX);
            let Ok(more) = Arc::clone(&self.budget).try_acquire_many_owned(missing) else {
                return self.stop();
            };
            match &mut self.memory {
                Some(memory) => memory.merge(more),
                None => self.memory = Some(more),
            }
        }
        if wire.len() + windows.len() > MAX_CODED.as_usize() {
            return self.stop();
        }
        wire.extend_from_slice(windows);
    }

    fn stop(&mut self) {
        (self.wire, self.memory) = (None, None);
    }
}
