//! Reader of a response's decoded body from any location.
use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use longhaul_cache::{ReadError, StoredBody};
use longhaul_codec::UndoError;
use longhaul_origin::BodyError;
use longhaul_types::{ByteCount, ContentHash};
use tokio::time::timeout;

use super::coalesced_fetch::CoalescedFetch;

/// Maximum bytes of a chunk from memory.
const CHUNK: usize = 64 * 1024;

/// Reasons for the premature end of a body. The bytes before it are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyFault {
    /// The origin truncated the body.
    #[error(transparent)]
    Origin(#[from] BodyError),
    /// The content coding is malformed.
    #[error(transparent)]
    Damaged(#[from] UndoError),
    /// The cache lost the body.
    #[error(transparent)]
    GatewayResponse(#[from] ReadError),
    /// The gateway is shutting down, or a thread panicked.
    #[error("the fetch was interrupted")]
    Interrupted,
}

/// A body in decoded chunks from offset 0. Dropping it before the end may cancel the fetch.
pub(crate) struct BodyReader {
    source: Source,
    taken: u64,
}

enum Source {
    CoalescedFetch(FlightReader),
    GatewayResponse(Box<Pieces>),
    Memory {
        chk: ContentHash,
        length: u64,
        left: Bytes,
    },
}

/// A reader of a flight.
pub(crate) struct FlightReader {
    pub(super) flight: Arc<CoalescedFetch>,
    pub(super) reader: u64,
}

impl Drop for FlightReader {
    fn drop(&mut self) {
        self.flight.leave(self.reader);
    }
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
    pub(super) fn of_flight(reader: FlightReader) -> Self {
        Self {
            source: Source::CoalescedFetch(reader),
            taken: 0,
        }
    }

    pub(crate) fn of_stored(body: StoredBody) -> Self {
        Self {
            source: Source::GatewayResponse(Box::new(Pieces {
                chk: body.chk(),
                length: body.length(),
                state: State::Idle(Box::new(body)),
            })),
            taken: 0,
        }
    }

    /// Creates a reader of a complete body in memory with this CHK.
    pub(crate) const fn of_bytes(body: Bytes, chk: ContentHash) -> Self {
        Self {
            source: Source::Memory {
                chk,
                length: body.len() as u64,
                left: body,
            },
            taken: 0,
        }
    }

    /// The CHK of the whole body, once it is known.
    pub(crate) fn chk(&self) -> Option<ContentHash> {
        match &self.source {
            Source::CoalescedFetch(reader) => reader.flight.chk(),
            Source::GatewayResponse(pieces) => Some(pieces.chk),
            Source::Memory { chk, .. } => Some(*chk),
        }
    }

    /// The decoded length of the whole body, once it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match &self.source {
            Source::CoalescedFetch(reader) => reader.flight.length(),
            Source::GatewayResponse(pieces) => Some(pieces.length),
            Source::Memory { length, .. } => Some(*length),
        }
    }

    /// Returns the next chunk, of at most about 64 KiB; `None` after the last one. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, BodyFault>> {
        let chunk = match &mut self.source {
            Source::CoalescedFetch(reader) => reader.flight.next(reader.reader).await,
            Source::GatewayResponse(pieces) => pieces.next(self.taken).await,
            Source::Memory { left, .. } if left.is_empty() => None,
            Source::Memory { left, .. } => Some(Ok(left.split_to(left.len().min(CHUNK)))),
        };
        if let Some(Ok(chunk)) = &chunk {
            self.taken += chunk.len() as u64;
        }
        chunk
    }

    /// Waits until the body is complete and returns its CHK, without consuming chunks. `None` if the wait
    /// exceeds `within`, or if the body is longer than `most` or is truncated.
    pub(crate) fn chk_when_complete(
        &self,
        within: Duration,
        most: ByteCount,
    ) -> impl Future<Output = Option<ContentHash>> + Send + use<> {
        let (flight, stored) = match &self.source {
            Source::CoalescedFetch(reader) => (Some(Arc::clone(&reader.flight)), None),
            Source::GatewayResponse(pieces) => (None, (pieces.length <= most.bytes()).then_some(pieces.chk)),
            Source::Memory { chk, length, .. } => (None, (*length <= most.bytes()).then_some(*chk)),
        };
        async move {
            match flight {
                Some(flight) => timeout(within, flight.complete(most)).await.ok().flatten(),
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
        // GatewayResponse here, so that dropping the caller's future loses nothing.
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
            None => Some(Err(BodyFault::GatewayResponse(ReadError::Gone))),
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
