//! Reading of a stored body.
use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use longhaul_types::ContentHash;

use crate::{
    Cache,
    command::{BodyId, CHUNK, Found, Part, Read, VERIFIED_WHOLE},
};

/// Errors of reading a long body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The stored bytes do not match the hash; the cache has dropped the body.
    #[error("the stored body is damaged and was dropped: fetch it again")]
    Damaged,
    /// The cache lost its contents or was closed during reading.
    #[error("the stored body is gone: fetch it again")]
    Gone,
}

/// A stored body. A body of up to 1 MiB is verified before this value exists. A longer body is verified piece
/// by piece, and completely before its last piece is returned. The body is not evicted while it is read.
#[derive(Debug)]
pub struct StoredBody {
    cache: Cache,
    chk: ContentHash,
    body: BodyId,
    length: u64,
    ready: VecDeque<Bytes>,
    rest: Option<Rest>,
    /// Returned after the pieces in `ready`.
    failed: Option<ReadError>,
    _pin: Arc<()>,
}

/// State of reading a long body from the file.
#[derive(Debug)]
struct Rest {
    next: u32,
    taken: u64,
    hasher: blake3::Hasher,
}

impl StoredBody {
    /// Verifies the parts that are already read; none if the body is damaged.
    pub(crate) async fn checked(cache: Cache, chk: ContentHash, found: Found) -> Option<Self> {
        let Found {
            body,
            length,
            parts,
            pin,
        } = found;
        let long = length > VERIFIED_WHOLE;
        let stored = Self {
            cache,
            chk,
            body,
            length,
            ready: parts.into(),
            rest: long.then(|| Rest {
                next: 0,
                taken: 0,
                hasher: blake3::Hasher::new(),
            }),
            failed: None,
            _pin: pin,
        };
        if long || stored.ready_matches() {
            return Some(stored);
        }
        stored.report().await;
        None
    }

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Content hash of the whole body.
    pub fn chk(&self) -> ContentHash {
        self.chk
    }

    /// Returns the next piece, none after the last. Cancel safe.
    ///
    /// # Errors
    /// The body is damaged or gone; possible only for bodies of more than 1 MiB. Pieces returned before are
    /// correct.
    pub async fn next(&mut self) -> Option<Result<Bytes, ReadError>> {
        let rest = self
            .rest
            .as_ref()
            .filter(|rest| self.ready.is_empty() && rest.taken < self.length);
        if let Some(first) = rest.map(|rest| rest.next) {
            let body = self.body;
            let parts = self
                .cache
                .queues()
                .ask(|reply| Read::Parts { body, first, reply })
                .await;
            if let Err(error) = self.take(parts.unwrap_or_default()) {
                self.rest = None;
                self.failed = Some(error);
                if error == ReadError::Damaged {
                    self.report().await;
                }
            }
        }
        let piece = self.ready.pop_front();
        piece.map(Ok).or_else(|| self.failed.take().map(Err))
    }

    /// Reads the whole body into memory; `None` if reading fails. Check [`Self::length`] first.
    pub async fn collect(mut self) -> Option<Bytes> {
        let mut whole = Vec::with_capacity(usize::try_from(self.length).ok()?);
        while let Some(piece) = self.next().await {
            let piece = piece.ok()?;
            if piece.len() as u64 == self.length {
                return Some(piece);
            }
            whole.extend_from_slice(&piece);
        }
        (whole.len() as u64 == self.length).then(|| whole.into())
    }

    /// Verifies the next pieces.
    fn take(&mut self, parts: Vec<Part>) -> Result<(), ReadError> {
        let Some(rest) = &mut self.rest else { return Ok(()) };
        if parts.is_empty() {
            return Err(ReadError::Gone);
        }
        for part in parts {
            let (from, length) = (rest.taken, part.data.len() as u64);
            let expected = (self.length - from).min(CHUNK as u64);
            rest.hasher.update(&part.data);
            rest.taken = from.saturating_add(length);
            rest.next = rest.next.saturating_add(1);
            let last_is_wrong = rest.taken == self.length && rest.hasher.finalize() != *self.chk.as_bytes();
            if length != expected || ContentHash::of(&part.data) != part.hash || last_is_wrong {
                return Err(ReadError::Damaged);
            }
            self.ready.push_back(part.data);
        }
        Ok(())
    }

    fn ready_matches(&self) -> bool {
        let mut hasher = blake3::Hasher::new();
        self.ready.iter().for_each(|piece| {
            hasher.update(piece);
        });
        hasher.finalize() == *self.chk.as_bytes()
    }

    async fn report(&self) {
        let body = self.body;
        let _ = self
            .cache
            .queues()
            .ask(|reply| Read::Damaged { body, reply })
            .await;
    }
}
