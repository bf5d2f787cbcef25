//! Reader of a response's decoded body from any location.
use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use longhaul_cache::{ReadError, StoredBody};
use longhaul_types::{ByteCount, ContentHash};
use tokio::time::timeout;

use super::{coalesced_fetch::CoalescedReader, failure::BodyFault};

/// Maximum bytes of a chunk from memory.
const CHUNK: usize = 64 * 1024;

/// A body in decoded chunks from offset 0. Dropping it before the end may cancel the fetch.
pub struct BodyReader {
    location: BodyLocation,
    taken: u64,
}

enum BodyLocation {
    Coalesced(CoalescedReader),
    Stored(Box<Pieces>),
    Memory {
        chk: ContentHash,
        length: u64,
        left: Bytes,
    },
}

/// A stored body whose reads survive a dropped future.
struct Pieces {
    chk: ContentHash,
    length: u64,
    state: State,
}

type Piece = Option<Result<Bytes, ReadError>>;

enum State {
    Idle(Box<StoredBody>),
    Reading(BoxFuture<'static, (Box<StoredBody>, Piece)>),
    Over,
}

impl BodyReader {
    pub(super) fn of_coalesced(reader: CoalescedReader) -> Self {
        Self {
            location: BodyLocation::Coalesced(reader),
            taken: 0,
        }
    }

    /// Creates a reader of a stored body.
    pub fn of_stored(body: StoredBody) -> Self {
        Self {
            location: BodyLocation::Stored(Box::new(Pieces {
                chk: body.chk(),
                length: body.length(),
                state: State::Idle(Box::new(body)),
            })),
            taken: 0,
        }
    }

    /// Creates a reader of a complete body in memory with this CHK.
    pub const fn of_bytes(body: Bytes, chk: ContentHash) -> Self {
        Self {
            location: BodyLocation::Memory {
                chk,
                length: body.len() as u64,
                left: body,
            },
            taken: 0,
        }
    }

    /// The CHK of the whole body, once it is known.
    pub fn chk(&self) -> Option<ContentHash> {
        match &self.location {
            BodyLocation::Coalesced(reader) => reader.coalesced.chk(),
            BodyLocation::Stored(pieces) => Some(pieces.chk),
            BodyLocation::Memory { chk, .. } => Some(*chk),
        }
    }

    /// The decoded length of the whole body, once it is known.
    pub fn length(&self) -> Option<u64> {
        match &self.location {
            BodyLocation::Coalesced(reader) => reader.coalesced.length(),
            BodyLocation::Stored(pieces) => Some(pieces.length),
            BodyLocation::Memory { length, .. } => Some(*length),
        }
    }

    /// Returns the next chunk, of at most about 64 KiB; `None` after the last one. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Bytes, BodyFault>> {
        let chunk = match &mut self.location {
            BodyLocation::Coalesced(reader) => reader.coalesced.next(reader.reader).await,
            BodyLocation::Stored(pieces) => pieces.next(self.taken).await,
            BodyLocation::Memory { left, .. } if left.is_empty() => None,
            BodyLocation::Memory { left, .. } => Some(Ok(left.split_to(left.len().min(CHUNK)))),
        };
        if let Some(Ok(chunk)) = &chunk {
            self.taken += chunk.len() as u64;
        }
        chunk
    }

    /// Waits until the body is complete and returns its CHK, without consuming chunks. `None` if the wait
    /// exceeds `within`, or if the body is longer than `most` or is truncated.
    pub fn chk_when_complete(
        &self,
        within: Duration,
        most: ByteCount,
    ) -> impl Future<Output = Option<ContentHash>> + Send + use<> {
        let (coalesced, stored) = match &self.location {
            BodyLocation::Coalesced(reader) => (Some(Arc::clone(&reader.coalesced)), None),
            BodyLocation::Stored(pieces) => (None, (pieces.length <= most.bytes()).then_some(pieces.chk)),
            BodyLocation::Memory { chk, length, .. } => (None, (*length <= most.bytes()).then_some(*chk)),
        };
        async move {
            match coalesced {
                Some(coalesced) => timeout(within, coalesced.complete(most)).await.ok().flatten(),
                None => stored,
            }
        }
    }
}

impl Pieces {
    async fn next(&mut self, taken: u64) -> Option<Result<Bytes, BodyFault>> {
        if let State::Idle(_) = &self.state
            && let State::Idle(mut body) = std::mem::replace(&mut self.state, State::Over)
        {
            self.state = State::Reading(Box::pin(async move {
                let piece = body.next().await;
                (body, piece)
            }));
        }
        // Stored here, so that dropping the caller's future loses nothing.
        let State::Reading(reading) = &mut self.state else {
            return None;
        };
        let (body, piece) = reading.await;
        self.state = State::Over;
        match piece {
            Some(Ok(chunk)) => {
                self.state = State::Idle(body);
                Some(Ok(chunk))
            }
            Some(Err(error)) => Some(Err(error.into())),
            None if taken == self.length => None,
            None => Some(Err(BodyFault::Cache(ReadError::Gone))),
        }
    }
}

impl fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyReader")
            .field("chk", &self.chk())
            .field("length", &self.length())
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_body_in_memory_is_read_in_chunks() {
        let body = Bytes::from(vec![7; CHUNK + 1]);
        let mut reader = BodyReader::of_bytes(body, ContentHash::of(b"x"));
        assert_eq!(reader.next().await.unwrap().unwrap().len(), CHUNK);
        assert_eq!(reader.next().await.unwrap().unwrap().len(), 1);
        assert_eq!(reader.next().await, None);
        assert_eq!(reader.length(), Some(CHUNK as u64 + 1));
    }

    #[test]
    fn a_body_in_memory_is_complete_at_once_unless_it_is_too_long() {
        let chk = ContentHash::of(b"four");
        let reader = BodyReader::of_bytes(Bytes::from_static(b"four"), chk);
        for (most, expected) in [(3, None), (4, Some(chk)), (5, Some(chk))] {
            let complete = reader.chk_when_complete(Duration::ZERO, ByteCount::new(most));
            assert_eq!(complete.now_or_never(), Some(expected), "{most}");
        }
    }
}
