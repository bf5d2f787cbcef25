//! The driver task's side of each connection: channels to its users, and data that waits for space.
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

use bytes::Bytes;
use longhaul_protocol::{
    connection::Connection,
    endpoint::CloseReason,
    streams::{OpenError, ReadError, ReadOutcome, WriteError},
};
use longhaul_types::{StreamId, Timestamp};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::{
    command::{Commands, ConnectionCommand},
    datagrams::Datagrams,
    session::{End, LinkState, NetworkChange, OpenOptions, Seen, Session, SessionError, Watches},
    stream::{Chunk, READ_AHEAD, RecvStream, SendStream, StreamError, WRITE_AHEAD},
};

/// Capacity for streams that a user has not accepted. A peer may have fewer streams open
/// (`TransportConfig::max_streams`), so the queue is never full.
const UNACCEPTED: usize = 1024;
/// Maximum number of opens that wait for the peer's limit; a browser has at most about 300 requests in
/// progress.
const WAITING_OPENS: usize = 1024;

/// Channels of one connection to its users.
#[derive(Debug)]
pub(crate) struct ConnectionChannels {
    commands: Commands,
    /// Boxed, because the channel allocates space for 32 items at its creation.
    incoming: Option<mpsc::Sender<Box<RecvStream>>>,
    state: watch::Sender<LinkState>,
    seen: Arc<Mutex<Seen>>,
    /// Number of users that wait for data from the peer.
    expecting: Arc<AtomicUsize>,
    token: watch::Sender<Option<[u8; 32]>>,
    sending: BTreeMap<StreamId, Sending>,
    receiving: BTreeMap<StreamId, Receiving>,
    opens: VecDeque<Open>,
    datagrams: Arc<Datagrams>,
}

#[derive(Debug)]
struct Sending {
    waiting: VecDeque<Bytes>,
    end: SendingEnd,
    room: Arc<Semaphore>,
    ended: watch::Sender<Option<StreamError>>,
}

/// What follows the queued bytes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendingEnd {
    Open,
    Finish,
    BreakOff(u64),
}

#[derive(Debug)]
struct Receiving {
    chunks: mpsc::Sender<Chunk>,
    starved: Arc<AtomicBool>,
    total: watch::Sender<Option<u64>>,
}

#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) options: OpenOptions,
    pub(crate) first: Bytes,
    pub(crate) end: End,
    pub(crate) reply: oneshot::Sender<Result<SendStream, SessionError>>,
}

impl ConnectionChannels {
    pub(crate) fn new(commands: Commands, state: LinkState) -> (Self, Session) {
        let (incoming, accept) = mpsc::channel(UNACCEPTED);
        let (state, state_watch) = watch::channel(state);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (token, token_watch) = watch::channel(None);
        let expecting = Arc::new(AtomicUsize::new(0));
        let datagrams = Arc::new(Datagrams::default());
        let watches = Watches {
            datagrams: Arc::clone(&datagrams),
            state: state_watch,
            token: token_watch,
            seen: Arc::clone(&seen),
            expecting: Arc::clone(&expecting),
        };
        let session = Session::new(commands.clone(), accept, watches);
        let channels = Self {
            commands,
            incoming: Some(incoming),
            state,
            seen,
            expecting,
            token,
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            opens: VecDeque::new(),
            datagrams,
        };
        (channels, session)
    }

    pub(crate) fn set_state(&self, state: LinkState) {
        self.state.send_if_modified(|now| {
            let changed = *now != state && !matches!(now, LinkState::Closed(_));
            if changed {
                *now = state;
            }
            changed
        });
    }

    pub(crate) fn set_token(&self, token: [u8; 32]) {
        self.token.send_replace(Some(token));
    }

    /// Records that UDP carried less than the link.
    pub(crate) fn note_worse_udp(&self) {
        self.seen.lock().worse_returns += 1;
    }

    /// Records whether a trial of a link has no result yet.
    pub(crate) fn note_trial(&self, is_trying_link: bool) {
        self.seen.lock().is_trying_link = is_trying_link;
    }

    pub(crate) fn publish(&self, connection: &Connection) {
        let mut seen = self.seen.lock();
        seen.stats = connection.stats();
        if seen.exporter.is_none() {
            seen.exporter = connection.exporter();
        }
    }

    /// Returns true if any user waits for data from the peer.
    pub(crate) fn expects_data(&self) -> bool {
        self.expecting.load(Ordering::Relaxed) > 0
    }

    /// Ends every stream and informs every user of the reason.
    pub(crate) fn close(&mut self, reason: &CloseReason) {
        self.set_state(LinkState::Closed(reason.clone()));
        self.incoming = None;
        for sending in std::mem::take(&mut self.sending).into_values() {
            sending.end(StreamError::SessionLost(reason.clone()));
        }
        for receiving in std::mem::take(&mut self.receiving).into_values() {
            // A reader whose channel is full detects the end by the closed channel.
            let _behind = receiving
                .chunks
                .try_send(Chunk::Failed(StreamError::SessionLost(reason.clone())));
        }
        for open in self.opens.drain(..) {
            let _gone = open.reply.send(Err(SessionError::Lost(reason.clone())));
        }
    }

    /// Opens a stream now, or later when the peer's limit rises.
    pub(crate) fn open(&mut self, now: Timestamp, connection: &mut Connection, open: Open) {
        if self.opens.len() >= WAITING_OPENS {
            let _gone = open.reply.send(Err(SessionError::Busy));
            return;
        }
        self.opens.push_back(open);
        self.open_waiting(now, connection);
    }

    pub(crate) fn open_waiting(&mut self, now: Timestamp, connection: &mut Connection) {
        while let Some(open) = self.opens.pop_front() {
            if open.reply.is_closed() {
                continue;
            }
            match self.open_now(now, connection, open.options, open.first.clone(), open.end) {
                Ok(stream) => {
                    // If the user is gone, the stream is dropped, which cancels it.
                    let _gone = open.reply.send(Ok(stream));
                }
                Err(OpenError::Limit) => {
                    self.opens.push_front(open);
                    return;
                }
                Err(_) => {
                    let _gone = open
                        .reply
                        .send(Err(SessionError::Lost(CloseReason::Local { error: 0 })));
                }
            }
        }
    }

    pub(crate) fn open_now(
        &mut self,
        now: Timestamp,
        connection: &mut Connection,
        options: OpenOptions,
        first: Bytes,
        end: End,
    ) -> Result<SendStream, OpenError> {
        let id = connection.open(options.class, options.early)?;
        if let Some(total) = options.total {
            connection.announce(id, total);
        }
        let room = Arc::new(Semaphore::new(WRITE_AHEAD as usize));
        let (ended, ended_watch) = watch::channel(None);
        let finish = end == End::Finish;
        let waiting = VecDeque::from([first]);
        self.sending.insert(
            id,
            Sending {
                waiting,
                end: if finish {
                    SendingEnd::Finish
                } else {
                    SendingEnd::Open
                },
                room: Arc::clone(&room),
                ended,
            },
        );
        self.write_waiting(now, connection, id);
        Ok(SendStream::new(
            id,
            self.commands.clone(),
            room,
            ended_watch,
            finish,
        ))
    }

    /// Executes a user's command.
    pub(crate) fn execute(&mut self, now: Timestamp, connection: &mut Connection, what: ConnectionCommand) {
        match what {
            ConnectionCommand::Open {
                options,
                first,
                end,
                reply,
            } => {
                self.open(
                    now,
                    connection,
                    Open {
                        options,
                        first,
                        end,
                        reply,
                    },
                );
            }
            ConnectionCommand::Write(id, bytes) => {
                if let Some(sending) = self.sending.get_mut(&id) {
                    sending.waiting.push_back(bytes);
                    self.write_waiting(now, connection, id);
                }
            }
            ConnectionCommand::Announce(id, total) => {
                connection.announce(id, total);
            }
            ConnectionCommand::Finish(id) => {
                if let Some(sending) = self.sending.get_mut(&id) {
                    sending.end = SendingEnd::Finish;
                    self.write_waiting(now, connection, id);
                }
            }
            ConnectionCommand::BreakOff(id, error) => {
                if let Some(sending) = self.sending.get_mut(&id) {
                    sending.end = SendingEnd::BreakOff(error);
                    self.write_waiting(now, connection, id);
                }
            }
            ConnectionCommand::SetPriority(id, class) => {
                connection.set_priority(id, class);
            }
            ConnectionCommand::Cancel(id, error) => {
                self.sending.remove(&id);
                connection.cancel(id, error);
            }
            ConnectionCommand::Stop(id, error) => {
                self.receiving.remove(&id);
                connection.stop(id, error);
            }
            ConnectionCommand::ReadMore(id) => self.read(now, connection, id),
            ConnectionCommand::Datagrams => {
                for datagram in self.datagrams.take_outgoing() {
                    // One that no longer fits the path is lost, as on any path.
                    let _lost = connection.send_datagram(now, datagram);
                }
            }
            ConnectionCommand::LimitRate(limit) => connection.limit_rate(now, limit),
            ConnectionCommand::Close(error, reason) => connection.close(now, error, &reason),
            // The driver task handles it.
            ConnectionCommand::UseAddresses(_) | ConnectionCommand::PermitTrials(_) => {}
            ConnectionCommand::NetworkChanged(NetworkChange::Same) => connection.path_refreshed(now),
            ConnectionCommand::NetworkChanged(NetworkChange::Other(profile)) => {
                connection.moved_to_network(now, profile);
            }
            ConnectionCommand::LivenessProbe(reply) => {
                // The asker may have given up.
                let _gone = reply.send(());
            }
            ConnectionCommand::Abandoned => connection.close(now, 0, ""),
        }
    }

    /// Passes queued bytes of a stream to the connection, as far as the connection accepts them.
    pub(crate) fn write_waiting(&mut self, now: Timestamp, connection: &mut Connection, id: StreamId) {
        let Some(sending) = self.sending.get_mut(&id) else {
            return;
        };
        while let Some(mut bytes) = sending.waiting.pop_front() {
            let length = bytes.len();
            match connection.write(now, id, bytes.clone()) {
                Ok(accepted) => {
                    sending.room.add_permits(accepted.min(length));
                    if accepted < length {
                        sending.waiting.push_front(bytes.split_off(accepted));
                        return;
                    }
                }
                Err(WriteError::Blocked) => {
                    sending.waiting.push_front(bytes);
                    return;
                }
                Err(error) => {
                    tracing::debug!(%id, %error, length, "a write to the stream was refused");
                    return;
                }
            }
        }
        match sending.end {
            SendingEnd::Open => {}
            SendingEnd::Finish => {
                if let Err(error) = connection.finish(id) {
                    tracing::debug!(%id, %error, "the end of the stream was refused");
                }
            }
            SendingEnd::BreakOff(error) => {
                self.sending.remove(&id);
                connection.break_off(id, error);
            }
        }
    }

    pub(crate) fn sent(&mut self, id: StreamId) {
        self.sending.remove(&id);
    }

    pub(crate) fn stopped(&mut self, id: StreamId, error: u64) {
        if let Some(sending) = self.sending.remove(&id) {
            sending.end(StreamError::Stopped(error));
        }
    }

    /// Accepts the streams that the peer opened, as far as the user's queue has space.
    pub(crate) fn accept(&mut self, now: Timestamp, connection: &mut Connection) {
        let Some(incoming) = self.incoming.clone() else {
            return;
        };
        while let Ok(permit) = incoming.try_reserve() {
            let Some(id) = connection.accept() else { return };
            let (chunks, chunks_out) = mpsc::channel(READ_AHEAD);
            let (total, total_watch) = watch::channel(connection.announced_total(id));
            let starved = Arc::new(AtomicBool::new(false));
            let early = connection.was_early(id);
            self.receiving.insert(
                id,
                Receiving {
                    chunks,
                    starved: Arc::clone(&starved),
                    total,
                },
            );
            permit.send(Box::new(RecvStream::new(
                id,
                self.commands.clone(),
                chunks_out,
                starved,
                early,
                total_watch,
            )));
            self.read(now, connection, id);
        }
    }

    /// Passes the received datagrams to the user.
    pub(crate) fn receive_datagrams(&self, connection: &mut Connection) {
        self.datagrams
            .arrived(std::iter::from_fn(|| connection.take_datagram()));
    }

    /// Passes received bytes of a stream to its reader, as far as the reader's queue has space.
    pub(crate) fn read(&mut self, now: Timestamp, connection: &mut Connection, id: StreamId) {
        let Some(receiving) = self.receiving.get(&id) else {
            return;
        };
        let announced = connection.announced_total(id);
        if announced.is_some() && *receiving.total.borrow() != announced {
            receiving.total.send_replace(announced);
        }
        if receiving.take(now, connection, id) == Passed::All {
            self.receiving.remove(&id);
        }
    }
}

impl Drop for ConnectionChannels {
    fn drop(&mut self) {
        self.datagrams.close();
    }
}

/// Progress of passing a stream to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    All,
    Some,
}

impl Receiving {
    fn take(&self, now: Timestamp, connection: &mut Connection, id: StreamId) -> Passed {
        while let Some(permit) = self.room() {
            let last = match connection.read(now, id) {
                Ok(ReadOutcome::Data(bytes)) => {
                    permit.send(Chunk::Data(bytes));
                    continue;
                }
                Ok(ReadOutcome::Blocked) => return Passed::Some,
                Ok(ReadOutcome::Finished) => Chunk::Finished,
                Err(ReadError::Cancelled(error)) => Chunk::Failed(StreamError::Cancelled(error)),
                Err(_) => return Passed::All,
            };
            permit.send(last);
            return Passed::All;
        }
        Passed::Some
    }

    /// Space for one chunk in the reader's queue; if there is none, the reader will request more.
    fn room(&self) -> Option<mpsc::Permit<'_, Chunk>> {
        match self.chunks.try_reserve() {
            Ok(permit) => Some(permit),
            Err(mpsc::error::TrySendError::Closed(())) => None,
            Err(mpsc::error::TrySendError::Full(())) => {
                self.starved.store(true, Ordering::Release);
                // The reader may have emptied the channel before the flag was set: try again.
                let permit = self.chunks.try_reserve().ok()?;
                self.starved.store(false, Ordering::Release);
                Some(permit)
            }
        }
    }
}

impl Sending {
    fn end(self, error: StreamError) {
        self.ended.send_replace(Some(error));
        self.room.close();
    }
}
