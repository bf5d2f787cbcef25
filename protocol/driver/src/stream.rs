//! The two ends of a stream as a user's task holds them.
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use longhaul_protocol::{endpoint::CloseReason, streams::Priority};
use longhaul_types::StreamId;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::command::{Commands, ConnectionCommand};

/// Bytes of one stream that wait between its user and the connection. Two windows of a body, so that one is
/// coded while the other is taken.
pub(crate) const WRITE_AHEAD: u32 = 64 * 1024;
/// Largest piece that is handed over at once.
const PIECE: usize = 16 * 1024;
/// Chunks (16 KiB at most, or what came at once) of one stream that wait for its reader outside the stream's window.
pub(crate) const READ_AHEAD: usize = 8;

/// Why a stream can be used no longer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The peer, who sent on it, cancelled it.
    #[error("stream cancelled by the peer (error {0})")]
    Cancelled(u64),
    /// The peer wants no more of it.
    #[error("stream stopped by the peer (error {0})")]
    Stopped(u64),
    /// This end finished or cancelled it before.
    #[error("stream already finished")]
    Finished,
    /// The session is gone.
    #[error("session lost: {0}")]
    SessionLost(CloseReason),
}

/// The sending end of a stream. Dropped without [`SendStream::finish`], it cancels the stream.
#[derive(Debug)]
pub struct SendStream {
    id: StreamId,
    commands: Commands,
    room: Arc<Semaphore>,
    ended: watch::Receiver<Option<StreamError>>,
    finished: bool,
}

impl SendStream {
    pub(crate) const fn new(
        id: StreamId,
        commands: Commands,
        room: Arc<Semaphore>,
        ended: watch::Receiver<Option<StreamError>>,
        finished: bool,
    ) -> Self {
        Self {
            id,
            commands,
            room,
            ended,
            finished,
        }
    }

    /// The stream's number.
    pub const fn id(&self) -> StreamId {
        self.id
    }

    /// Queues bytes; waits while the stream has too much queued already.
    ///
    /// # Errors
    /// The peer stopped the stream, or the session is lost.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), StreamError> {
        if self.finished {
            return Err(StreamError::Finished);
        }
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE));
            let permits = u32::try_from(piece.len()).unwrap_or(WRITE_AHEAD);
            match self.room.acquire_many(permits).await {
                Ok(permit) => permit.forget(),
                Err(_) => return Err(self.error()),
            }
            self.send(ConnectionCommand::Write(self.id, piece)).await?;
        }
        Ok(())
    }

    /// Says how long the stream will be in all, as soon as that is known: it lets the peer see a missing tail.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn announce(&mut self, total: u64) -> Result<(), StreamError> {
        self.send(ConnectionCommand::Announce(self.id, total)).await
    }

    /// Ends the stream behind what was written.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn finish(&mut self) -> Result<(), StreamError> {
        if self.finished {
            return Ok(());
        }
        self.finished = true;
        self.send(ConnectionCommand::Finish(self.id)).await
    }

    /// Moves the stream to another class.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn set_priority(&mut self, class: Priority) -> Result<(), StreamError> {
        self.send(ConnectionCommand::SetPriority(self.id, class)).await
    }

    /// Ends the stream at once; what was not sent yet is dropped.
    pub fn cancel(&mut self, error: u64) {
        self.finished = true;
        self.commands.send_late(ConnectionCommand::Cancel(self.id, error));
    }

    /// Waits until the peer stops the stream or the session is lost.
    pub async fn stopped(&mut self) -> StreamError {
        match self.ended.wait_for(Option::is_some).await {
            Ok(error) => error
                .clone()
                .unwrap_or(StreamError::SessionLost(CloseReason::Local { error: 0 })),
            Err(_) => StreamError::SessionLost(CloseReason::Local { error: 0 }),
        }
    }

    /// Waits until the peer has acknowledged the stream to its end. Only of use behind [`SendStream::finish`].
    ///
    /// # Errors
    /// The peer stopped the stream, or the session is lost.
    pub async fn delivered(&mut self) -> Result<(), StreamError> {
        match self.ended.wait_for(Option::is_some).await {
            Ok(error) => Err(error
                .clone()
                .unwrap_or(StreamError::SessionLost(CloseReason::Local { error: 0 }))),
            // The shell lets go of a stream once all of it has been acknowledged.
            Err(_) if self.finished => Ok(()),
            Err(_) => Err(StreamError::SessionLost(CloseReason::Local { error: 0 })),
        }
    }

    async fn send(&self, command: ConnectionCommand) -> Result<(), StreamError> {
        self.commands.send(command).await.map_err(|_| self.error())
    }

    fn error(&self) -> StreamError {
        self.ended
            .borrow()
            .clone()
            .unwrap_or(StreamError::SessionLost(CloseReason::Local { error: 0 }))
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        if !self.finished {
            self.commands
                .send_late(ConnectionCommand::Cancel(self.id, crate::ERROR_ABANDONED));
        }
    }
}

/// What the shell hands to a reader.
#[derive(Debug)]
pub(crate) enum Chunk {
    Data(Bytes),
    Finished,
    Failed(StreamError),
}

/// The receiving end of a stream. Dropped before its end, it stops the stream.
#[derive(Debug)]
pub struct RecvStream {
    id: StreamId,
    commands: Commands,
    chunks: mpsc::Receiver<Chunk>,
    starved: Arc<AtomicBool>,
    early: bool,
    total: watch::Receiver<Option<u64>>,
    outcome: Option<Result<(), StreamError>>,
}

impl RecvStream {
    pub(crate) const fn new(
        id: StreamId,
        commands: Commands,
        chunks: mpsc::Receiver<Chunk>,
        starved: Arc<AtomicBool>,
        early: bool,
        total: watch::Receiver<Option<u64>>,
    ) -> Self {
        Self {
            id,
            commands,
            chunks,
            starved,
            early,
            total,
            outcome: None,
        }
    }

    /// The stream's number.
    pub const fn id(&self) -> StreamId {
        self.id
    }

    /// Whether any of it came in early data (docs/protocol/transport.md section 3.3).
    pub const fn was_early(&self) -> bool {
        self.early
    }

    /// The length that the sender announced.
    pub fn total(&self) -> Option<u64> {
        *self.total.borrow()
    }

    /// The next bytes in order; `None` behind the last ones. Can be dropped and called again (cancel safe).
    ///
    /// # Errors
    /// The peer cancelled the stream, or the session is lost.
    pub async fn read(&mut self) -> Result<Option<Bytes>, StreamError> {
        if let Some(outcome) = &self.outcome {
            return outcome.clone().map(|()| None);
        }
        let chunk = self.chunks.recv().await;
        // The shell sets the flag when it found no room; it must hear that there is some again.
        if self.starved.swap(false, Ordering::AcqRel) {
            self.commands.send_late(ConnectionCommand::ReadMore(self.id));
        }
        let outcome = match chunk {
            Some(Chunk::Data(bytes)) => return Ok(Some(bytes)),
            Some(Chunk::Finished) => Ok(()),
            Some(Chunk::Failed(error)) => Err(error),
            None => Err(StreamError::SessionLost(CloseReason::Local { error: 0 })),
        };
        self.outcome = Some(outcome.clone());
        outcome.map(|()| None)
    }

    /// Tells the peer to send no more.
    pub fn stop(&mut self, error: u64) {
        if self.outcome.is_none() {
            self.outcome = Some(Err(StreamError::Finished));
            self.commands.send_late(ConnectionCommand::Stop(self.id, error));
        }
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        if self.outcome.is_none() {
            self.commands
                .send_late(ConnectionCommand::Stop(self.id, crate::ERROR_ABANDONED));
        }
    }
}
