//! A pushed body in memory: written once, as it arrives, and read by any number of requests from its start.
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use bytes::Bytes;
use longhaul_types::ContentHash;
use tokio::sync::watch;

/// The longest pushed body that is taken: the gateway's own bound, above which it does not push.
pub(crate) const MAX_BODY: u64 = 8 * 1024 * 1024;
/// All pushed bodies that are in memory at a time. A page's bundle is bounded by as much at the gateway.
pub(crate) const MAX_MEMORY: u64 = 64 * 1024 * 1024;

/// Why a pushed body ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyFault {
    /// The session is lost.
    #[error("the session is lost")]
    SessionLost,
    /// The gateway broke it off, or it is not wanted any more.
    #[error("the push was broken off")]
    Cut,
    /// It does not match its hashes, again and again.
    #[error("the push is damaged")]
    Damaged,
    /// It is coded against a body that is not here.
    #[error("the base of the push is not held")]
    NoBase,
    /// Nothing of it comes any more.
    #[error("nothing comes any more")]
    Stuck,
    /// There is no room for it.
    #[error("the pushed body is too large")]
    TooLarge,
}

/// The memory that pushed bodies take, all page loads together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<AtomicU64>);

impl Memory {
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
    memory: Memory,
}

#[derive(Debug, Default)]
struct State {
    chunks: Vec<Bytes>,
    length: u64,
    /// The decoded length, where the gateway told it.
    announced: Option<u64>,
    end: Option<Result<ContentHash, BodyFault>>,
    /// Coded bytes on the hop, all attempts together.
    wire: u64,
    /// Counts the streams that brought it: what comes on an older one than the newest is not taken any more.
    stream: u32,
}

/// Writes what one stream brings.
#[derive(Debug)]
pub(crate) struct BodyInlet {
    body: Arc<PushedBody>,
    stream: u32,
    /// Bytes of an earlier attempt that this one has confirmed.
    confirmed: u64,
}

impl PushedBody {
    pub(crate) fn new(memory: Memory) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::default()),
            changed: watch::Sender::new(()),
            memory,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to write from the start, whatever an earlier stream brought: that stays, and must come again.
    pub(crate) fn inlet(self: &Arc<Self>) -> BodyInlet {
        let mut state = self.state();
        state.stream += 1;
        if !matches!(state.end, Some(Ok(_))) {
            state.end = None;
        }
        BodyInlet {
            stream: state.stream,
            body: Arc::clone(self),
            confirmed: 0,
        }
    }

    /// How it ended, if it has.
    pub(crate) fn end(&self) -> Option<Result<ContentHash, BodyFault>> {
        self.state().end
    }

    /// Whether there is something to hand to a browser: bytes, or the end of an empty body.
    pub(crate) fn has_begun(&self) -> bool {
        let state = self.state();
        !state.chunks.is_empty() || matches!(state.end, Some(Ok(_)))
    }

    /// The decoded length, once it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        let state = self.state();
        match state.end {
            Some(Ok(_)) => Some(state.length),
            Some(Err(_)) | None => state.announced,
        }
    }

    /// Coded bytes that crossed the hop for it.
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.state().wire
    }

    /// Ends it with a fault, unless it is complete or has ended before.
    pub(crate) fn fail(&self, fault: BodyFault) {
        self.state().end.get_or_insert(Err(fault));
        self.changed.send_replace(());
    }

    /// A reader at its start.
    pub(crate) fn reader(self: &Arc<Self>) -> BodyReader {
        BodyReader {
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

impl BodyInlet {
    /// Notes what the stream says of the length.
    ///
    /// # Errors
    /// It is longer than what is taken.
    pub(crate) fn announce(&self, length: Option<u64>) -> Result<(), BodyFault> {
        if length.is_some_and(|length| length > MAX_BODY) {
            return Err(BodyFault::TooLarge);
        }
        let mut state = self.body.state();
        state.announced = length.or(state.announced);
        Ok(())
    }

    /// Counts coded bytes.
    pub(crate) fn count(&self, wire: u64) {
        self.body.state().wire += wire;
    }

    /// Takes verified bytes.
    ///
    /// # Errors
    /// There is no room, another stream took over, or an earlier attempt brought other bytes at this place.
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

    /// The body is complete.
    pub(crate) fn finish(&self, chk: ContentHash) {
        let mut state = self.body.state();
        if state.stream == self.stream {
            // A repetition that is shorter than what came before is another body.
            let whole = state.length == self.confirmed;
            let end = if whole { Ok(chk) } else { Err(BodyFault::Damaged) };
            state.end.get_or_insert(end);
        }
        drop(state);
        self.body.changed.send_replace(());
    }

    /// The stream broke off and no other one will come.
    pub(crate) fn fail(&self, fault: BodyFault) {
        if self.body.state().stream == self.stream {
            self.body.fail(fault);
        }
    }
}

impl State {
    /// Whether `bytes` stand at `offset`.
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

/// Reads a pushed body from its start.
#[derive(Debug)]
pub(crate) struct BodyReader {
    body: Arc<PushedBody>,
    changes: watch::Receiver<()>,
    next: usize,
}

impl BodyReader {
    /// The next bytes; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// The body broke off.
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
            // The sender lives in the body, which this reader holds.
            let _open = self.changes.changed().await;
        }
    }

    /// What was read so far.
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

    async fn read(reader: &mut BodyReader) -> Result<Vec<u8>, BodyFault> {
        let mut all = Vec::new();
        while let Some(chunk) = reader.next().await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn readers_follow_the_writer_from_the_start() {
        let memory = Memory::default();
        let body = PushedBody::new(memory.clone());
        let mut inlet = body.inlet();
        inlet.push(bytes("one ")).unwrap();
        let (mut early, mut late) = (body.reader(), body.reader());
        assert_eq!(early.next().await, Ok(Some(bytes("one "))));
        inlet.push(bytes("two")).unwrap();
        inlet.finish(ContentHash::of(b"one two"));
        assert_eq!(read(&mut early).await.unwrap(), b"two");
        assert_eq!(read(&mut late).await.unwrap(), b"one two");
        assert_eq!((body.length(), memory.used()), (Some(7), 7));
        drop((body, inlet, early, late));
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test]
    async fn a_repetition_goes_on_where_the_first_attempt_broke_off() {
        let body = PushedBody::new(Memory::default());
        let mut first = body.inlet();
        first.push(bytes("abc")).unwrap();
        first.push(bytes("def")).unwrap();
        let mut reader = body.reader();
        assert_eq!(reader.next().await, Ok(Some(bytes("abc"))));
        let mut second = body.inlet();
        assert_eq!(first.push(bytes("xyz")), Err(BodyFault::Cut), "it was superseded");
        second.push(bytes("abcde")).unwrap();
        second.push(bytes("fgh")).unwrap();
        second.finish(ContentHash::of(b"abcdefgh"));
        assert_eq!(read(&mut reader).await.unwrap(), b"defgh");
        let mut third = PushedBody::new(Memory::default()).inlet();
        third.push(bytes("abc")).unwrap();
        let mut other = third.body.inlet();
        assert_eq!(other.push(bytes("abX")), Err(BodyFault::Damaged));
    }

    #[tokio::test]
    async fn faults_and_limits_are_told() {
        let body = PushedBody::new(Memory::default());
        let inlet = body.inlet();
        assert_eq!(inlet.announce(Some(MAX_BODY + 1)), Err(BodyFault::TooLarge));
        inlet.fail(BodyFault::SessionLost);
        assert_eq!(body.reader().next().await, Err(BodyFault::SessionLost));
        assert!(!body.has_begun());
        let memory = Memory::default();
        memory.take(MAX_MEMORY - 2).unwrap();
        let mut inlet = PushedBody::new(memory).inlet();
        assert_eq!(inlet.push(bytes("abc")), Err(BodyFault::TooLarge));
    }
}
