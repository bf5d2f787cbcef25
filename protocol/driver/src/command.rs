//! Commands of users' tasks to the task that owns the socket.
use bytes::Bytes;
use longhaul_protocol::{endpoint::ConnectionHandle, streams::Priority};
use longhaul_types::StreamId;
use tokio::sync::{mpsc, oneshot};

use crate::{
    session::{End, OpenOptions, SessionError},
    stream::SendStream,
};

/// Capacity of the command queue; senders wait when it is full.
const QUEUE: usize = 256;

/// A command to the shell about one connection.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) connection: ConnectionHandle,
    pub(crate) what: ConnectionCommand,
}

#[derive(Debug)]
pub(crate) enum ConnectionCommand {
    Open {
        options: OpenOptions,
        first: Bytes,
        end: End,
        reply: oneshot::Sender<Result<SendStream, SessionError>>,
    },
    Write(StreamId, Bytes),
    Announce(StreamId, u64),
    Finish(StreamId),
    SetPriority(StreamId, Priority),
    Cancel(StreamId, u64),
    Stop(StreamId, u64),
    ReadMore(StreamId),
    Close(u64, String),
    /// The last handle of the session was dropped.
    Abandoned,
}

/// Error: the shell has ended.
#[derive(Debug)]
pub(crate) struct ShellGone;

/// Sender of commands for one connection.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    connection: ConnectionHandle,
    queue: mpsc::Sender<Command>,
    /// For commands that must not wait: dropped handles and reads. At most one command per stream and kind is
    /// queued, so the number of streams bounds the queue.
    late: mpsc::UnboundedSender<Command>,
}

impl Commands {
    pub(crate) async fn send(&self, what: ConnectionCommand) -> Result<(), ShellGone> {
        let command = Command {
            connection: self.connection,
            what,
        };
        self.queue.send(command).await.map_err(|_| ShellGone)
    }

    pub(crate) fn send_late(&self, what: ConnectionCommand) {
        // A shell that has ended has already dropped all streams.
        let _gone = self.late.send(Command {
            connection: self.connection,
            what,
        });
    }
}

/// The shell's end of the command channels.
#[derive(Debug)]
pub(crate) struct CommandQueue {
    pub(crate) queue: mpsc::Receiver<Command>,
    pub(crate) late: mpsc::UnboundedReceiver<Command>,
    queue_sender: mpsc::Sender<Command>,
    late_sender: mpsc::UnboundedSender<Command>,
}

impl CommandQueue {
    pub(crate) fn new() -> Self {
        let (queue_sender, queue) = mpsc::channel(QUEUE);
        let (late_sender, late) = mpsc::unbounded_channel();
        Self {
            queue,
            late,
            queue_sender,
            late_sender,
        }
    }

    /// Creates the sender for the users of `connection`.
    pub(crate) fn commands(&self, connection: ConnectionHandle) -> Commands {
        Commands {
            connection,
            queue: self.queue_sender.clone(),
            late: self.late_sender.clone(),
        }
    }
}
