//! A coalesced fetch: one origin fetch whose response may have several readers (collapsed requests).
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use longhaul_types::{ByteCount, ContentHash, PublicKey, UnixTime};
use tokio::sync::Notify;
use tracing::warn;

use super::{
    device_hops::HopWatch,
    failure::{BodyFault, FetchFailure},
    origin_size::OriginSize,
    response::CacheStatus,
    spool::{Chunk, KEEP, Room, Spool, SpoolBudget},
    storage_rules::StorageDecision,
};

/// A response at the gateway.
#[derive(Clone, Debug)]
pub(super) struct FetchedResponse {
    pub(super) status: StatusCode,
    /// Fields as sent to an agent, except for the `Age` of a stored response.
    pub(super) headers: HeaderMap,
    pub(super) body: FetchedBody,
    pub(super) cache_status: CacheStatus,
    /// Storage decision.
    pub(super) storage_decision: StorageDecision,
    pub(super) requested_at: UnixTime,
    pub(super) received_at: UnixTime,
    /// Bytes that the origin sent.
    pub(super) origin_size: OriginSize,
}

/// Location of a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchedBody {
    None,
    /// In the coalesced fetch's spool.
    Spooled,
    /// In the cache.
    Stored(ContentHash),
}

impl FetchedBody {
    /// The body of a stored response; `chk` is absent if it has none.
    pub(super) fn of_stored(chk: Option<ContentHash>) -> Self {
        chk.map_or(Self::None, Self::Stored)
    }
}

/// State shared by the fetching task and the readers of a coalesced fetch.
#[derive(Debug)]
pub(super) struct CoalescedFetch {
    /// Device that started the fetch.
    device: PublicKey,
    state: Mutex<State>,
    /// Wakes tasks that wait for the head, for chunks or for the end.
    arrived: Notify,
    /// Wakes the fetching task after a reader has taken a chunk or left.
    demand: Notify,
}

#[derive(Debug)]
struct State {
    head: Option<Result<Arc<FetchedResponse>, FetchFailure>>,
    spool: Spool,
    end: Option<Result<ContentHash, BodyFault>>,
    /// Decoded length as announced by the origin.
    announced: Option<u64>,
    decoded: u64,
    /// True once the coalesced fetch has no reader and accepts none.
    abandoned: bool,
    /// True if the spool is full until a reader takes a chunk.
    full: bool,
}

/// A reader of a coalesced fetch.
pub(super) struct CoalescedReader {
    pub(super) coalesced: Arc<CoalescedFetch>,
    pub(super) reader: u64,
}

impl Drop for CoalescedReader {
    fn drop(&mut self) {
        self.coalesced.leave(self.reader);
    }
}

impl CoalescedFetch {
    /// Creates a coalesced fetch with its first reader.
    pub(super) fn new(device: PublicKey, budget: Arc<SpoolBudget>) -> (Arc<Self>, CoalescedReader) {
        let mut spool = Spool::new(budget);
        let reader = spool.add_reader();
        let coalesced = Arc::new(Self {
            device,
            state: Mutex::new(State {
                head: None,
                spool,
                end: None,
                announced: None,
                decoded: 0,
                abandoned: false,
                full: false,
            }),
            arrived: Notify::new(),
            demand: Notify::new(),
        });
        let reader = CoalescedReader {
            coalesced: Arc::clone(&coalesced),
            reader,
        };
        (coalesced, reader)
    }

    /// Adds a reader of the whole body; `None` if the coalesced fetch is abandoned or its first bytes are
    /// gone.
    pub(super) fn join(self: &Arc<Self>) -> Option<CoalescedReader> {
        let mut state = self.lock();
        if state.abandoned {
            return None;
        }
        let reader = state.spool.join()?;
        drop(state);
        Some(CoalescedReader {
            coalesced: Arc::clone(self),
            reader,
        })
    }

    /// Returns true if a device may read the body together with other devices. A body that exceeds the spool
    /// advances only as fast as its slowest reader, and one device must not block another.
    pub(super) fn admits(&self, device: &PublicKey) -> bool {
        let mut state = self.lock();
        let has_body = match &state.head {
            Some(Ok(fetched)) => fetched.body == FetchedBody::Spooled,
            Some(Err(_)) | None => false,
        };
        if !has_body || state.end.is_some() || self.device == *device {
            return true;
        }
        match state.announced {
            // Half, because chunks count for more than their bytes.
            Some(length) => length <= KEEP / 2,
            None => {
                // Bodies of unknown length rarely exceed the maximum that can be kept.
                state.spool.keep(u64::MAX);
                true
            }
        }
    }

    /// Waits for the response's head, or its failure.
    pub(super) async fn head(&self) -> Result<Arc<FetchedResponse>, FetchFailure> {
        self.wait(|state| state.head.clone()).await
    }

    pub(super) fn chk(&self) -> Option<ContentHash> {
        self.lock().end.and_then(Result::ok)
    }

    pub(super) fn length(&self) -> Option<u64> {
        let state = self.lock();
        match state.end {
            Some(Ok(_)) => Some(state.decoded),
            Some(Err(_)) | None => state.announced,
        }
    }

    pub(super) async fn next(&self, reader: u64) -> Option<Result<Bytes, BodyFault>> {
        let next = self.wait(|state| match state.spool.peek(reader) {
            Some(chunk) => Some(Some(Ok(chunk.clone()))),
            None => match state.end {
                Some(Ok(_)) => Some(None),
                Some(Err(fault)) => Some(Some(Err(fault))),
                None => None,
            },
        });
        let next = match next.await {
            Some(Ok(chunk)) => {
                let bytes = match chunk {
                    Chunk::Memory(bytes) => Ok(bytes),
                    Chunk::Disk(part) => part.read().await.map_err(|error| {
                        warn!(%error, "a body that waited for its device cannot be read");
                        BodyFault::Interrupted
                    }),
                };
                // After the last await, so that a dropped future loses no chunk.
                self.lock().spool.advance(reader);
                Some(bytes)
            }
            Some(Err(fault)) => Some(Err(fault)),
            None => None,
        };
        self.demand.notify_one();
        next
    }

    /// Waits for the complete body and returns its CHK; `None` if it is truncated or longer than `most`.
    pub(super) async fn complete(&self, most: ByteCount) -> Option<ContentHash> {
        self.keep(most);
        let complete = self.wait(|state| {
            let too_large = state.announced.is_some_and(|length| length > most.bytes())
                || state.decoded > most.bytes()
                || state.full;
            match state.end {
                Some(end) => Some(end.ok()),
                None if too_large => Some(None),
                None => None,
            }
        });
        complete.await
    }

    fn keep(&self, most: ByteCount) {
        let mut state = self.lock();
        state.spool.keep(most.bytes());
        state.full = false;
        drop(state);
        self.demand.notify_one();
    }

    fn leave(&self, reader: u64) {
        self.lock().spool.leave(reader);
        self.demand.notify_one();
    }

    // The following methods are for the task that feeds the coalesced fetch.

    pub(super) fn set_head(&self, fetched: Arc<FetchedResponse>, announced: Option<u64>) {
        let mut state = self.lock();
        state.announced = announced;
        state.head = Some(Ok(fetched));
        drop(state);
        self.arrived.notify_waiters();
    }

    pub(super) fn fail(&self, failure: FetchFailure) {
        self.lock().head.get_or_insert(Err(failure));
        self.arrived.notify_waiters();
    }

    /// Adds a chunk of this decoded length.
    pub(super) fn push(&self, chunk: Chunk, length: usize) {
        let mut state = self.lock();
        state.decoded += length as u64;
        state.spool.push(chunk);
        drop(state);
        self.arrived.notify_waiters();
    }

    pub(super) fn end(&self, end: Result<ContentHash, BodyFault>) {
        self.lock().end.get_or_insert(end);
        self.arrived.notify_waiters();
    }

    /// Ends all that has not ended, after the feeding task is gone.
    pub(super) fn interrupt(&self) {
        self.fail(FetchFailure::Interrupted);
        self.end(Err(BodyFault::Interrupted));
    }

    pub(super) fn decoded(&self) -> u64 {
        self.lock().decoded
    }

    pub(super) fn is_read(&self) -> bool {
        self.lock().spool.readers() > 0
    }

    /// Abandons the coalesced fetch if it has no reader; returns true if it is abandoned.
    pub(super) fn abandon(&self) -> bool {
        let mut state = self.lock();
        state.abandoned |= state.spool.readers() == 0;
        state.abandoned
    }

    /// Waits until the coalesced fetch has no reader.
    pub(super) async fn unread(&self) {
        while self.is_read() {
            self.demand.notified().await;
        }
    }

    /// Waits until the spool accepts more, or until it is full and the hop is away.
    pub(super) async fn room(&self, hop: &mut HopWatch) -> Room {
        while self.is_full() {
            self.arrived.notify_waiters();
            if hop.is_away() {
                return Room::Full;
            }
            tokio::select! {
                () = self.demand.notified() => {}
                () = hop.changed() => {}
            }
        }
        Room::Free
    }

    /// Waits until a reader has taken a chunk or has left.
    pub(super) async fn demanded(&self) {
        self.demand.notified().await;
    }

    fn is_full(&self) -> bool {
        let mut state = self.lock();
        state.full = state.spool.room() == Room::Full;
        state.full
    }

    async fn wait<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            // Registered before the check, so that no notification is missed.
            arrived.as_mut().enable();
            if let Some(found) = look(&mut self.lock()) {
                return found;
            }
            arrived.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests;
