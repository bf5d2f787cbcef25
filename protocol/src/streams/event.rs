//! Limits, events and errors of streams, and their control frames.
use longhaul_types::{ByteCount, StreamId};

/// Role of this side in a session. The agent's streams have even numbers, the gateway's odd ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opens the session.
    Agent,
    /// Accepts the session.
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

/// One part in this many of the receive buffer is a reserve that windows of streams do not use.
const WINDOW_RESERVE: u64 = 4;
/// Window of a stream as one part in this many of the free receive buffer without the reserve. Streams whose users have
/// stopped reading, such as paused videos, leave room for the others: each further one holds only a part of what is left.
const WINDOW_SHARE: u64 = 3;
/// Least window of a stream that is read, in bytes.
const LEAST_WINDOW: u64 = 64 * 1024;

/// Limits of the streams' memory.
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// Window that this side grants to each stream of the peer before its user has read any.
    pub stream_window: ByteCount,
    /// Largest window that this side grants later.
    pub largest_stream_window: ByteCount,
    /// Bytes that all receiving streams buffer together.
    pub receive_buffer: ByteCount,
    /// Number of streams that the peer may have open.
    pub max_streams: u64,
    /// Bytes that one sending stream buffers.
    pub send_buffer: ByteCount,
    /// Bytes that all sending streams buffer together.
    pub send_buffer_total: ByteCount,
}

impl StreamLimits {
    /// Bytes that a stream may buffer beyond what its user has read, while all streams buffer `buffered` bytes and
    /// `growing` streams may need a higher limit than they have.
    pub(super) fn window(&self, buffered: u64, growing: u64) -> u64 {
        let usable = self.receive_buffer.bytes() - self.receive_buffer.bytes() / WINDOW_RESERVE;
        let free = usable.saturating_sub(buffered) / WINDOW_SHARE;
        let least = self.stream_window.bytes().min(LEAST_WINDOW);
        free.min(usable / growing.max(1))
            .min(self.largest_stream_window.bytes())
            .max(least)
    }
}

/// An event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The peer opened streams, which `accept` returns.
    Opened,
    /// Bytes or the end of the stream can be read.
    Readable(StreamId),
    /// A blocked write can continue.
    Writable(StreamId),
    /// The peer has acknowledged all bytes and the end.
    Finished(StreamId),
    /// The peer cancelled a stream that it sends; with the error code.
    Cancelled(StreamId, u64),
    /// The peer stopped a stream that this side sends; with the error code.
    Stopped(StreamId, u64),
    /// Streams can be opened again after `OpenError::Limit`.
    Available,
}

/// Errors of opening a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The peer's limit is reached; an `Available` event follows when it rises.
    #[error("the peer allows no more streams for now")]
    Limit,
    /// The connection is closed.
    #[error("the session is closed")]
    Closed,
}

/// Errors of writing to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The send buffer is full; a `Writable` event follows.
    #[error("the send buffer is full")]
    Blocked,
    /// The peer sent STOP, or this side cancelled the stream; with the error code.
    #[error("the stream was stopped with error {0}")]
    Stopped(u64),
    /// The stream was finished, or is not a sending stream of this side.
    #[error("the stream is not open for writing")]
    NotOpen,
    /// The announced length is exceeded or not reached.
    #[error("the stream's announced length is exceeded or not reached")]
    Length,
    /// The connection is closed.
    #[error("the session is closed")]
    Closed,
}

/// Errors of reading from a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The peer cancelled the stream with this error code.
    #[error("the peer cancelled the stream with error {0}")]
    Cancelled(u64),
    /// The stream was read to its end, was stopped, or never existed.
    #[error("the stream is not open for reading")]
    NotOpen,
    /// The connection is closed, and all received bytes were read.
    #[error("the session is closed")]
    Closed,
}

/// A pending control frame of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRequest {
    /// CANCEL.
    Cancel {
        /// The stream.
        stream: StreamId,
        /// Error code.
        error: u64,
        /// Final offset: bytes sent of the stream.
        final_offset: u64,
    },
    /// STOP.
    Stop {
        /// The stream.
        stream: StreamId,
        /// Error code.
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
        /// Total number of streams that the peer may open.
        count: u64,
    },
}

/// A sent control frame, as recorded with its packet.
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
