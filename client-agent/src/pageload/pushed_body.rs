//! A pushed body in memory: written once, as it arrives, and read from its start by any number of requests.
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use parking_lot::{Mutex, MutexGuard};

use bytes::Bytes;
use longhaul_session::Body;
use longhaul_types::ContentHash;
use tokio::sync::watch;

use crate::journal::Recording;

/// Maximum size of a pushed body. It equals the gateway's limit, above which the gateway does not push.
pub(crate) const MAX_BODY: u64 = 8 * 1024 * 1024;
/// Maximum memory of all pushed bodies. The gateway limits the bundle of one page to the same amount.
pub(crate) const MAX_MEMORY: u64 = 64 * 1024 * 1024;

/// Reasons for the early end of a pushed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyFault {
    /// The session is lost.
    #[error("the session is lost")]
    SessionLost,
    /// The gateway cancelled the push, or the push is no longer needed.
    #[error("the push ended early")]
    Cut,
    /// The push repeatedly does not match its hashes.
    #[error("the push is damaged")]
    Damaged,
    /// The cache does not have the body's base.
    #[error("the base of the push is not in the cache")]
    NoBase,
    /// No more data arrives.
    #[error("no more data arrives")]
    Stuck,
    /// The body exceeds a limit of size or memory.
    #[error("the pushed body is too large")]
    TooLarge,
}

/// Memory of the pushed bodies of all page loads.
#[derive(Clone, Debug, Default)]
pub(crate) struct PushMemory(Arc<AtomicU64>);

impl PushMemory {
    fn take(&self, bytes: u64) -> Result<(), BodyFault> {
        let fits = |used: u64| used.checked_add(bytes).filter(|used| *used <= MAX_MEMORY);
        let taken = self.0.fetch_update(Relaxed, Relaxed, fits);
        taken.map(drop).map_err(|_| BodyFault::TooLarge)
    }

    fn give_back(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Relaxed);
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A pushed body.
#[derive(Debug)]
pub(crate) struct PushedBody {
    state: Mutex<State>,
    changed: watch::Sender<()>,
    memory: PushMemory,
}

#[derive(Debug, Default)]
struct State {
    chunks: Vec<Bytes>,
    length: u64,
    /// The decoded length, if the gateway sent it.
    announced: Option<u64>,
    end: Option<Result<ContentHash, BodyFault>>,
    /// Encoded bytes on the hop, all attempts together.
    wire: u64,
    /// Announcement of the newest stream.
    coded: Option<Body>,
    /// True if a request's record has the bytes on the hop.
    is_recorded: bool,
    /// Number of streams so far that carried the body. Data of any but the newest stream is rejected.
    stream: u32,
}

/// Writer of the data of one stream.
#[derive(Debug)]
pub(crate) struct PushedBodyWriter {
    body: Arc<PushedBody>,
    stream: u32,
    /// Bytes of an earlier attempt that this attempt has repeated.
    confirmed: u64,
}

impl PushedBody {
    pub(crate) fn new(memory: PushMemory) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::default()),
            changed: watch::Sender::new(()),
            memory,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Starts a new attempt to write the body from its start. Bytes of earlier attempts are kept, and the new
    /// attempt must repeat them.
    pub(crate) fn writer(self: &Arc<Self>) -> PushedBodyWriter {
        let mut state = self.state();
        state.stream += 1;
        if !matches!(state.end, Some(Ok(_))) {
            state.end = None;
        }
        PushedBodyWriter {
            stream: state.stream,
            body: Arc::clone(self),
            confirmed: 0,
        }
    }

    /// The result, if the body has ended.
    pub(crate) fn end(&self) -> Option<Result<ContentHash, BodyFault>> {
        self.state().end
    }

    /// True if a browser can read something: bytes, or the end of an empty body.
    pub(crate) fn has_begun(&self) -> bool {
        let state = self.state();
        !state.chunks.is_empty() || matches!(state.end, Some(Ok(_)))
    }

    /// The decoded length, if known.
    pub(crate) fn length(&self) -> Option<u64> {
        let state = self.state();
        match state.end {
            Some(Ok(_)) => Some(state.length),
            Some(Err(_)) | None => state.announced,
        }
    }

    /// Encoded bytes of the body that crossed the hop.
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.state().wire
    }

    /// Ends the body with a fault, unless it has already ended.
    pub(crate) fn fail(&self, fault: BodyFault) {
        self.state().end.get_or_insert(Err(fault));
        self.changed.send_replace(());
    }

    /// Returns a reader at the start of the body.
    pub(crate) fn reader(self: &Arc<Self>) -> PushedBodyReader {
        PushedBodyReader {
            changes: self.changed.subscribe(),
            body: Arc::clone(self),
            next: 0,
        }
    }
}

impl Drop for PushedBody {
    fn drop(&mut self) {
        let length = self.state().length;
        self.memory.give_back(length);
    }
}

impl PushedBodyWriter {
    /// Records the length that the stream declares.
    ///
    /// # Errors
    /// The body is larger than the maximum.
    pub(crate) fn announce(&self, length: Option<u64>) -> Result<(), BodyFault> {
        if length.is_some_and(|length| length > MAX_BODY) {
            return Err(BodyFault::TooLarge);
        }
        let mut state = self.body.state();
        state.announced = length.or(state.announced);
        Ok(())
    }

    /// Counts encoded bytes.
    pub(crate) fn count(&self, wire: u64) {
        self.body.state().wire += wire;
    }

    /// Appends verified bytes.
    ///
    /// # Errors
    /// There is no memory, a newer stream has replaced this one, or an earlier attempt had other bytes at
    /// this offset.
    pub(crate) fn push(&mut self, window: Bytes) -> Result<(), BodyFault> {
        let mut state = self.body.state();
        if state.stream != self.stream || state.end.is_some() {
            return Err(BodyFault::Cut);
        }
        let known = state.length - self.confirmed;
        let repeated = usize::try_from(known.min(window.len() as u64)).unwrap_or(window.len());
        if !state.holds(self.confirmed, &window[..repeated]) {
            return Err(BodyFault::Damaged);
        }
        self.confirmed += window.len() as u64;
        let fresh = window.slice(repeated..);
        if fresh.is_empty() {
            return Ok(());
        }
        if self.confirmed > MAX_BODY {
            return Err(BodyFault::TooLarge);
        }
        self.body.memory.take(fresh.len() as u64)?;
        state.length += fresh.len() as u64;
        state.chunks.push(fresh);
        drop(state);
        self.body.changed.send_replace(());
        Ok(())
    }

    /// Notes how the stream's data is encoded.
    pub(crate) fn coded(&self, coded: Body) {
        self.body.state().coded = Some(coded);
    }

    /// Completes the body.
    pub(crate) fn finish(&self, chk: ContentHash) {
        let mut state = self.body.state();
        if state.stream == self.stream {
            // A repetition that is shorter than the earlier data belongs to another body.
            let whole = state.length == self.confirmed;
            let end = if whole { Ok(chk) } else { Err(BodyFault::Damaged) };
            state.end.get_or_insert(end);
        }
        drop(state);
        self.body.changed.send_replace(());
    }

    /// Fails the body: the stream has ended and no other will follow.
    pub(crate) fn fail(&self, fault: BodyFault) {
        if self.body.state().stream == self.stream {
            self.body.fail(fault);
        }
    }
}

impl State {
    /// True if the stored bytes at `offset` equal `bytes`.
    fn holds(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut at = 0;
        let mut left = bytes;
        for chunk in &self.chunks {
            let end = at + chunk.len() as u64;
            if end > offset && !left.is_empty() {
                let from = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX);
                let here = &chunk[from.min(chunk.len())..];
                let compared = here.len().min(left.len());
                if here[..compared] != left[..compared] {
                    return false;
                }
                left = &left[compared..];
            }
            at = end;
        }
        left.is_empty()
    }
}

/// Reader of a pushed body, from its start.
#[derive(Debug)]
pub(crate) struct PushedBodyReader {
    body: Arc<PushedBody>,
    changes: watch::Receiver<()>,
    next: usize,
}

impl PushedBodyReader {
    /// Returns the next bytes; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// The body ended early.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, BodyFault> {
        loop {
            self.changes.borrow_and_update();
            {
                let state = self.body.state();
                if let Some(chunk) = state.chunks.get(self.next) {
                    self.next += 1;
                    return Ok(Some(chunk.clone()));
                }
                match state.end {
                    Some(Ok(_)) => return Ok(None),
                    Some(Err(fault)) => return Err(fault),
                    None => {}
                }
            }
            // The sender is part of the body, which this reader keeps alive.
            let _open = self.changes.changed().await;
        }
    }

    /// Records what the body took on the hop; the first request that uses the body bears it.
    pub(crate) fn record(&self, recording: &Recording) {
        let mut state = self.body.state();
        if let Some(coded) = &state.coded {
            recording.coded(coded);
        }
        if !std::mem::replace(&mut state.is_recorded, true) {
            recording.carried(state.wire);
        }
    }

    /// The bytes read so far.
    pub(crate) fn delivered(&self) -> Vec<Bytes> {
        let state = self.body.state();
        state.chunks.iter().take(self.next).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    async fn read(reader: &mut PushedBodyReader) -> Result<Vec<u8>, BodyFault> {
        let mut all = Vec::new();
        while let Some(chunk) = reader.next().await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn readers_follow_the_writer_from_the_start() {
        let memory = PushMemory::default();
        let body = PushedBody::new(memory.clone());
        let mut writer = body.writer();
        writer.push(bytes("one ")).unwrap();
        let (mut early, mut late) = (body.reader(), body.reader());
        assert_eq!(early.next().await, Ok(Some(bytes("one "))));
        writer.push(bytes("two")).unwrap();
        writer.finish(ContentHash::of(b"one two"));
        assert_eq!(read(&mut early).await.unwrap(), b"two");
        assert_eq!(read(&mut late).await.unwrap(), b"one two");
        assert_eq!((body.length(), memory.used()), (Some(7), 7));
        drop((body, writer, early, late));
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test]
    async fn a_second_push_attempt_continues_where_the_first_ended() {
        let body = PushedBody::new(PushMemory::default());
        let mut first = body.writer();
        first.push(bytes("abc")).unwrap();
        first.push(bytes("def")).unwrap();
        let mut reader = body.reader();
        assert_eq!(reader.next().await, Ok(Some(bytes("abc"))));
        let mut second = body.writer();
        assert_eq!(first.push(bytes("xyz")), Err(BodyFault::Cut), "it was superseded");
        second.push(bytes("abcde")).unwrap();
        second.push(bytes("fgh")).unwrap();
        second.finish(ContentHash::of(b"abcdefgh"));
        assert_eq!(read(&mut reader).await.unwrap(), b"defgh");
        let mut third = PushedBody::new(PushMemory::default()).writer();
        third.push(bytes("abc")).unwrap();
        let mut other = third.body.writer();
        assert_eq!(other.push(bytes("abX")), Err(BodyFault::Damaged));
    }

    #[tokio::test]
    async fn faults_and_limits_are_reported() {
        let body = PushedBody::new(PushMemory::default());
        let writer = body.writer();
        assert_eq!(writer.announce(Some(MAX_BODY + 1)), Err(BodyFault::TooLarge));
        writer.fail(BodyFault::SessionLost);
        assert_eq!(body.reader().next().await, Err(BodyFault::SessionLost));
        assert!(!body.has_begun());
        let memory = PushMemory::default();
        memory.take(MAX_MEMORY - 2).unwrap();
        let mut writer = PushedBody::new(memory).writer();
        assert_eq!(writer.push(bytes("abc")), Err(BodyFault::TooLarge));
    }
}
