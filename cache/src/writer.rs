//! Writing of a body.
use std::{mem, sync::Arc};

use bytes::{Bytes, BytesMut};
use longhaul_types::ContentHash;

use crate::{
    Cost,
    command::{CHUNK, Part, Queues, WholeBody, Write, WriterId},
};

/// Bodies up to this size stay in memory until they are complete: one transaction, and nothing to undo if
/// they are abandoned.
const BUFFERED: usize = 256 * 1024;

/// Errors of storing a body. They do not affect the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Disk or quota is full; the cache is shrinking.
    #[error("the cache is full and is being shrunk")]
    Full,
    /// The body is larger than an eighth of the quota.
    #[error("the body is too large for the cache's quota")]
    TooLarge,
    /// The cache lost its contents, including the beginning of this body.
    #[error("the cache was emptied while the body was being written")]
    Reset,
    /// The cache was closed.
    #[error("the cache is closed")]
    Closed,
}

/// Writes a body in pieces. [`commit`](Self::commit) makes the body available under its hash; without commit
/// the body is discarded.
#[derive(Debug)]
pub struct BodyWriter {
    queues: Queues,
    writer: WriterId,
    cost: Cost,
    limit: u64,
    hasher: blake3::Hasher,
    length: u64,
    tail: BytesMut,
    state: State,
}

#[derive(Debug)]
enum State {
    Buffered(Vec<Part>),
    /// The thread holds a weak reference, and discards the rows when this reference is gone.
    Streaming(Arc<()>),
    Failed(StoreError),
}

impl BodyWriter {
    pub(crate) fn new(queues: Queues, writer: WriterId, cost: Cost, limit: u64) -> Self {
        Self {
            queues,
            writer,
            cost,
            limit,
            hasher: blake3::Hasher::new(),
            length: 0,
            tail: BytesMut::new(),
            state: State::Buffered(Vec::new()),
        }
    }

    /// Writes the next bytes; waits while the cache's write queue is full. Never fails: if the body cannot be
    /// stored, further bytes are only hashed, and [`commit`](Self::commit) returns the error.
    pub async fn write(&mut self, data: Bytes) {
        self.hasher.update(&data);
        self.length = self.length.saturating_add(data.len() as u64);
        if self.length > self.limit {
            self.fail(StoreError::TooLarge);
        }
        let mut rest = data;
        while !rest.is_empty() && !matches!(self.state, State::Failed(_)) {
            let room = CHUNK.saturating_sub(self.tail.len()).min(rest.len());
            self.tail.extend_from_slice(&rest.split_to(room));
            if self.tail.len() == CHUNK {
                self.emit().await;
            }
        }
    }

    /// Hash of the bytes written so far.
    pub fn hash(&self) -> ContentHash {
        ContentHash::from_bytes(*self.hasher.finalize().as_bytes())
    }

    /// Number of bytes written so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Ends the body, and returns its hash once the body can be found by it, also after a crash of this
    /// process.
    ///
    /// # Errors
    /// The body was not stored; none of its data remain.
    pub async fn commit(mut self) -> Result<ContentHash, StoreError> {
        let chk = self.hash();
        if !self.tail.is_empty() {
            self.emit().await;
        }
        let answer = match mem::replace(&mut self.state, State::Failed(StoreError::Closed)) {
            State::Failed(error) => return Err(error),
            State::Buffered(parts) => {
                let body = WholeBody {
                    chk,
                    length: self.length,
                    parts,
                    cost: self.cost,
                };
                self.queues.tell(|reply| Write::Body { body, reply }).await
            }
            State::Streaming(alive) => {
                let writer = self.writer;
                let answer = self
                    .queues
                    .tell(|reply| Write::Finish { writer, chk, reply })
                    .await;
                drop(alive);
                answer
            }
        };
        answer.unwrap_or(Err(StoreError::Closed))
    }

    async fn emit(&mut self) {
        let data = self.tail.split().freeze();
        let part = Part {
            hash: ContentHash::of(&data),
            data,
        };
        match &mut self.state {
            State::Failed(_) => {}
            State::Streaming(_) => self.append(part).await,
            State::Buffered(parts) => {
                parts.push(part);
                if parts.len() * CHUNK > BUFFERED {
                    self.begin_streaming().await;
                }
            }
        }
    }

    async fn begin_streaming(&mut self) {
        let alive = Arc::new(());
        let begin = Write::Begin {
            writer: self.writer,
            alive: Arc::downgrade(&alive),
            cost: self.cost,
        };
        let before = mem::replace(&mut self.state, State::Streaming(alive));
        if self.queues.writes.send(begin).await.is_err() {
            self.fail(StoreError::Closed);
        }
        if let State::Buffered(parts) = before {
            for part in parts {
                self.append(part).await;
            }
        }
    }

    async fn append(&mut self, part: Part) {
        let append = Write::Append {
            writer: self.writer,
            part,
        };
        if self.queues.writes.send(append).await.is_err() {
            self.fail(StoreError::Closed);
        }
    }

    fn fail(&mut self, error: StoreError) {
        self.tail = BytesMut::new();
        if !matches!(self.state, State::Failed(_)) {
            self.state = State::Failed(error);
        }
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        if matches!(self.state, State::Streaming(_)) {
            self.state = State::Failed(StoreError::Closed);
            // Only a wake-up: if the queue is full, the thread is awake already.
            let _ = self.queues.writes.try_send(Write::Tidy);
        }
    }
}
