//! Commands of users' tasks to the task that owns the socket.
use bytes::Bytes;
use longhaul_protocol::{endpoint::ConnectionHandle, streams::Priority};
use longhaul_types::{BitRate, StreamId};
use tokio::sync::{mpsc, oneshot};

use crate::{
    session::{End, GatewayAddresses, NetworkChange, OpenOptions, SessionError},
    stream::SendStream,
};

/// Capacity of the command queue; senders wait when it is full.
const QUEUE: usize = 256;

/// A command to the driver task about one connection.
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
    BreakOff(StreamId, u64),
    SetPriority(StreamId, Priority),
    Cancel(StreamId, u64),
    Stop(StreamId, u64),
    ReadMore(StreamId),
    Close(u64, String),
    /// Limits the rate of the session in each direction.
    LimitRate(Option<BitRate>),
    /// The gateway's addresses from the computer's present network.
    PermitTrials(bool),
    UseAddresses(GatewayAddresses),
    /// Datagrams of the user wait.
    Datagrams,
    /// The computer's attachment to the network has changed.
    NetworkChanged(NetworkChange),
    /// Asks whether the task runs.
    LivenessProbe(oneshot::Sender<()>),
    /// The last handle of the session was dropped.
    Abandoned,
}

/// Error: the driver task has ended.
#[derive(Debug)]
pub(crate) struct DriverGone;

/// Sender of commands for one connection.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    connection: ConnectionHandle,
    queue: mpsc::Sender<Command>,
    /// For commands that must not wait: dropped handles and reads. At most one command per stream and kind is
    /// queued, so the number of streams bounds the queue.
    unlimited: mpsc::UnboundedSender<Command>,
}

impl Commands {
    pub(crate) async fn send(&self, what: ConnectionCommand) -> Result<(), DriverGone> {
        let command = Command {
            connection: self.connection,
            what,
        };
        self.queue.send(command).await.map_err(|_| DriverGone)
    }

    pub(crate) fn send_at_once(&self, what: ConnectionCommand) {
        // A task that has ended has already dropped all streams.
        let _gone = self.unlimited.send(Command {
            connection: self.connection,
            what,
        });
    }
}

/// The driver task's end of the command channels.
#[derive(Debug)]
pub(crate) struct CommandQueue {
    pub(crate) queue: mpsc::Receiver<Command>,
    pub(crate) unlimited: mpsc::UnboundedReceiver<Command>,
    queue_sender: mpsc::Sender<Command>,
    unlimited_sender: mpsc::UnboundedSender<Command>,
}

impl CommandQueue {
    pub(crate) fn new() -> Self {
        let (queue_sender, queue) = mpsc::channel(QUEUE);
        let (unlimited_sender, unlimited) = mpsc::unbounded_channel();
        Self {
            queue,
            unlimited,
            queue_sender,
            unlimited_sender,
        }
    }

    /// The next command, if one waits.
    pub(crate) fn waiting(&mut self) -> Option<Command> {
        let next = self.unlimited.try_recv().or_else(|_| self.queue.try_recv());
        next.ok()
    }

    /// Creates the sender for the users of `connection`.
    pub(crate) fn commands(&self, connection: ConnectionHandle) -> Commands {
        Commands {
            connection,
            queue: self.queue_sender.clone(),
            unlimited: self.unlimited_sender.clone(),
        }
    }
}
