//! The two ends of a stream for the users' tasks.
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use longhaul_protocol::{endpoint::CloseReason, streams::Priority};
use longhaul_types::StreamId;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::command::{Commands, ConnectionCommand};

/// Bytes of one stream that are queued between its user and the connection: two windows of a body, so that
/// one is encoded while the other is sent.
pub(crate) const WRITE_AHEAD: u32 = 64 * 1024;
/// Maximum number of bytes passed to the connection at once.
const PIECE: usize = 16 * 1024;
/// Chunks of one stream (at most 16 KiB, or the bytes that arrived together) that are queued for its reader
/// outside the stream's window.
pub(crate) const READ_AHEAD: usize = 8;

/// Reason for which a stream can no longer be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The peer cancelled the stream, which it sent.
    #[error("stream cancelled by the peer (error {0})")]
    Cancelled(u64),
    /// The peer stopped the stream.
    #[error("stream stopped by the peer (error {0})")]
    Stopped(u64),
    /// This end has already finished or cancelled the stream.
    #[error("stream already finished")]
    Finished,
    /// The session is lost.
    #[error("session lost: {0}")]
    SessionLost(CloseReason),
}

/// Sending end of a stream. If dropped without [`SendStream::finish`], the stream is cancelled.
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

    /// Number of the stream.
    pub const fn id(&self) -> StreamId {
        self.id
    }

    /// Queues bytes; waits while the queue of the stream is full.
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

    /// Announces the length of the stream, so that the peer can detect a missing tail.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn announce(&mut self, total: u64) -> Result<(), StreamError> {
        self.send(ConnectionCommand::Announce(self.id, total)).await
    }

    /// Ends the stream after the written bytes.
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

    /// Cancels the stream once the peer has acknowledged the written bytes: their source failed behind them.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn break_off(&mut self, error: u64) -> Result<(), StreamError> {
        if self.finished {
            return Ok(());
        }
        self.finished = true;
        self.send(ConnectionCommand::BreakOff(self.id, error)).await
    }

    /// Moves the stream to another priority class.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn set_priority(&mut self, class: Priority) -> Result<(), StreamError> {
        self.send(ConnectionCommand::SetPriority(self.id, class)).await
    }

    /// Cancels the stream at once; unsent bytes are dropped.
    pub fn cancel(&mut self, error: u64) {
        self.finished = true;
        self.commands
            .send_at_once(ConnectionCommand::Cancel(self.id, error));
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

    /// Waits until the peer has acknowledged the stream to its end. Useful only after [`SendStream::finish`].
    ///
    /// # Errors
    /// The peer stopped the stream, or the session is lost.
    pub async fn delivered(&mut self) -> Result<(), StreamError> {
        match self.ended.wait_for(Option::is_some).await {
            Ok(error) => Err(error
                .clone()
                .unwrap_or(StreamError::SessionLost(CloseReason::Local { error: 0 }))),
            // The driver task drops a stream once all of it has been acknowledged.
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
                .send_at_once(ConnectionCommand::Cancel(self.id, crate::ERROR_ABANDONED));
        }
    }
}

/// Item that the driver task passes to a reader.
#[derive(Debug)]
pub(crate) enum Chunk {
    Data(Bytes),
    Finished,
    Failed(StreamError),
}

/// Receiving end of a stream. If dropped before the end of the stream, the stream is stopped.
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

    /// Number of the stream.
    pub const fn id(&self) -> StreamId {
        self.id
    }

    /// Returns true if a part of the stream arrived in early data (docs/protocol/transport.md section 3.3).
    pub const fn was_early(&self) -> bool {
        self.early
    }

    /// Length that the sender announced.
    pub fn total(&self) -> Option<u64> {
        *self.total.borrow()
    }

    /// Returns the next bytes in order; `None` after the last ones. Cancel safe.
    ///
    /// # Errors
    /// The peer cancelled the stream, or the session is lost.
    pub async fn read(&mut self) -> Result<Option<Bytes>, StreamError> {
        if let Some(outcome) = &self.outcome {
            return outcome.clone().map(|()| None);
        }
        let chunk = self.chunks.recv().await;
        // The driver task sets the flag if the queue was full and must be informed of free space.
        if self.starved.swap(false, Ordering::AcqRel) {
            self.commands.send_at_once(ConnectionCommand::ReadMore(self.id));
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

    /// Stops the stream.
    pub fn stop(&mut self, error: u64) {
        if self.outcome.is_none() {
            self.outcome = Some(Err(StreamError::Finished));
            self.commands
                .send_at_once(ConnectionCommand::Stop(self.id, error));
        }
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        if self.outcome.is_none() {
            self.commands
                .send_at_once(ConnectionCommand::Stop(self.id, crate::ERROR_ABANDONED));
        }
    }
}
