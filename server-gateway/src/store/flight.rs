//! One request to an origin, whose response may have several readers.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use longhaul_types::{ByteCount, ContentHash, PublicKey, UnixTime};
use tokio::sync::Notify;

use super::{
    Source,
    reader::{BodyFault, FlightReader},
    rules::Keeping,
    spool::{KEEP, Room, Spool, SpoolBudget},
    trip::interrupted,
};
use crate::fetch::Failure;

/// A response at the gateway.
#[derive(Clone, Debug)]
pub(super) struct Landed {
    pub(super) status: StatusCode,
    /// As they go to an agent, but without the `Age` of a stored response.
    pub(super) headers: HeaderMap,
    pub(super) body: LandedBody,
    pub(super) source: Source,
    /// Whose cache may keep it.
    pub(super) keeping: Keeping,
    pub(super) requested_at: UnixTime,
    pub(super) received_at: UnixTime,
}

/// Where a response's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LandedBody {
    None,
    /// In the flight, while it is there.
    Flight,
    /// In the cache.
    Stored(ContentHash),
}

/// What all who take part in a flight share.
#[derive(Debug)]
pub(crate) struct Flight {
    /// Whose request it is.
    device: Option<PublicKey>,
    state: Mutex<State>,
    /// Wakes those who wait for the head, for chunks or for the end.
    arrived: Notify,
    /// Wakes the task that feeds the flight: a reader has taken something, or left.
    demand: Notify,
}

#[derive(Debug)]
struct State {
    head: Option<Result<Arc<Landed>, Failure>>,
    spool: Spool,
    end: Option<Result<ContentHash, BodyFault>>,
    /// The decoded length, as the origin announced it.
    announced: Option<u64>,
    decoded: u64,
    /// Nobody reads, and nobody will.
    abandoned: bool,
    /// More comes only when a reader has taken something.
    full: bool,
}

impl Flight {
    /// A flight with its first reader.
    pub(super) fn new(device: Option<PublicKey>, budget: Arc<SpoolBudget>) -> (Arc<Self>, FlightReader) {
        let mut spool = Spool::new(budget);
        let reader = spool.add_reader();
        let flight = Arc::new(Self {
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
        let reader = FlightReader {
            flight: Arc::clone(&flight),
            reader,
        };
        (flight, reader)
    }

    /// A reader of the whole body; `None` if it is too late for that.
    pub(super) fn join(self: &Arc<Self>) -> Option<FlightReader> {
        let mut state = self.lock();
        if state.abandoned {
            return None;
        }
        let reader = state.spool.join()?;
        drop(state);
        Some(FlightReader {
            flight: Arc::clone(self),
            reader,
        })
    }

    /// Whether a device may read what is here beside its other readers. More than fits is kept back until all have taken it, and a
    /// device that takes nothing must not hold up another.
    pub(super) fn admits(&self, device: &PublicKey) -> bool {
        let mut state = self.lock();
        let has_body = match &state.head {
            Some(Ok(landed)) => landed.body == LandedBody::Flight,
            Some(Err(_)) | None => false,
        };
        if !has_body || state.end.is_some() || self.device.as_ref() == Some(device) {
            return true;
        }
        match state.announced {
            // Chunks count for more than their bytes.
            Some(length) => length <= KEEP / 2,
            None => {
                // Hardly any body that does not say how long it is, is longer than can be kept.
                state.spool.keep(u64::MAX);
                true
            }
        }
    }

    /// The response's head, or why there is none.
    pub(super) async fn head(&self) -> Result<Arc<Landed>, Failure> {
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
        let next = self.wait(|state| match state.spool.take(reader) {
            Some(chunk) => Some(Some(Ok(chunk))),
            None => match state.end {
                Some(Ok(_)) => Some(None),
                Some(Err(fault)) => Some(Some(Err(fault))),
                None => None,
            },
        });
        let next = next.await;
        self.demand.notify_one();
        next
    }

    /// The CHK when the body is whole; `None` if it breaks off or is larger than `most`.
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

    pub(super) fn leave(&self, reader: u64) {
        self.lock().spool.leave(reader);
        self.demand.notify_one();
    }

    // What follows is for the task that feeds the flight.

    pub(super) fn land(&self, landed: Arc<Landed>, announced: Option<u64>) {
        let mut state = self.lock();
        state.announced = announced;
        state.head = Some(Ok(landed));
        drop(state);
        self.arrived.notify_waiters();
    }

    pub(super) fn fail(&self, failure: Failure) {
        self.lock().head.get_or_insert(Err(failure));
        self.arrived.notify_waiters();
    }

    pub(super) fn push(&self, chunk: Bytes) {
        let mut state = self.lock();
        state.decoded += chunk.len() as u64;
        state.spool.push(chunk);
        drop(state);
        self.arrived.notify_waiters();
    }

    pub(super) fn end(&self, end: Result<ContentHash, BodyFault>) {
        self.lock().end.get_or_insert(end);
        self.arrived.notify_waiters();
    }

    /// Ends whatever has not ended: the task that fed the flight is gone.
    pub(super) fn interrupt(&self) {
        self.fail(interrupted());
        self.end(Err(BodyFault::Interrupted));
    }

    pub(super) fn decoded(&self) -> u64 {
        self.lock().decoded
    }

    pub(super) fn is_read(&self) -> bool {
        self.lock().spool.readers() > 0
    }

    /// Ends the flight for good unless somebody reads.
    pub(super) fn abandon(&self) -> bool {
        let mut state = self.lock();
        state.abandoned |= state.spool.readers() == 0;
        state.abandoned
    }

    /// Waits until nobody reads.
    pub(super) async fn unread(&self) {
        while self.is_read() {
            self.demand.notified().await;
        }
    }

    /// Waits until there is room for more.
    pub(super) async fn room(&self) {
        while self.is_full() {
            self.arrived.notify_waiters();
            self.demand.notified().await;
        }
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
            // Before the look, so that nothing that arrives behind it is missed.
            arrived.as_mut().enable();
            if let Some(found) = look(&mut self.lock()) {
                return found;
            }
            arrived.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What the lock guards is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
