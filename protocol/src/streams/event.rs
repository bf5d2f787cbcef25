//! What users of streams give and get: limits, events, errors; and the control frames about streams.
use longhaul_types::{ByteCount, StreamId};

/// Which side of a session this is. The agent's streams have even numbers, the gateway's odd ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opened the session.
    Agent,
    /// Accepted it.
    Gateway,
}

impl Role {
    pub(super) const fn parity(self) -> u64 {
        match self {
            Self::Agent => 0,
            Self::Gateway => 1,
        }
    }
}

/// Sizes that bound the memory of the streams.
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// Window that this side grants to each stream of the peer.
    pub stream_window: ByteCount,
    /// Streams that the peer may have open.
    pub max_streams: u64,
    /// Bytes that a sending stream buffers.
    pub send_buffer: ByteCount,
    /// Bytes that all sending streams buffer together.
    pub send_buffer_total: ByteCount,
}

/// What happened to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The peer opened streams: `accept` returns them.
    Opened,
    /// There is something to read, or the end.
    Readable(StreamId),
    /// A write that was blocked can go on.
    Writable(StreamId),
    /// The peer has acknowledged everything, the end too.
    Finished(StreamId),
    /// The peer cancelled a stream that it sends.
    Cancelled(StreamId, u64),
    /// The peer wants no more of a stream that this side sends.
    Stopped(StreamId, u64),
    /// After `OpenError::Limit`: streams can be opened again.
    Available,
}

/// A stream cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The peer's limit is reached; an `Available` event follows when it rises.
    #[error("the peer allows no more streams for now")]
    Limit,
    /// The connection is closed.
    #[error("the session is closed")]
    Closed,
}

/// Bytes cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The send buffer is full; a `Writable` event follows.
    #[error("the send buffer is full")]
    Blocked,
    /// The peer sent STOP, or this side cancelled the stream; with the error code.
    #[error("the stream was stopped with error {0}")]
    Stopped(u64),
    /// The stream was finished, or never was one that this side sends.
    #[error("the stream is not open for writing")]
    NotOpen,
    /// More than the announced length.
    #[error("the stream's announced length is exceeded or not reached")]
    Length,
    /// The connection is closed.
    #[error("the session is closed")]
    Closed,
}

/// Bytes cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The peer cancelled the stream with this error code.
    #[error("the peer cancelled the stream with error {0}")]
    Cancelled(u64),
    /// The stream was read to its end, stopped, or never existed.
    #[error("the stream is not open for reading")]
    NotOpen,
    /// The connection is closed, and what had arrived was read.
    #[error("the session is closed")]
    Closed,
}

/// A control frame about streams that waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRequest {
    /// CANCEL.
    Cancel {
        /// The stream.
        stream: StreamId,
        /// Its error code.
        error: u64,
        /// Bytes sent of it.
        final_offset: u64,
    },
    /// STOP.
    Stop {
        /// The stream.
        stream: StreamId,
        /// Its error code.
        error: u64,
    },
    /// STREAM_LIMIT.
    Limit {
        /// The stream.
        stream: StreamId,
        /// The new limit.
        limit: u64,
    },
    /// STREAMS.
    Count {
        /// Streams that the peer may open in all.
        count: u64,
    },
}

/// The same, as the book of sent packets remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentControl {
    /// CANCEL of a stream.
    Cancel(StreamId),
    /// STOP of a stream.
    Stop(StreamId),
    /// STREAM_LIMIT of a stream.
    Limit(StreamId),
    /// STREAMS with this count.
    Count(u64),
}
