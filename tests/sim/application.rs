//! The users of the two connections: they exchange the data of the plan and check every received byte.
mod receiving;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
};

use longhaul_protocol::{
    connection::{Connection, EarlyData},
    streams::{OpenError, Priority, StreamEvent, WriteError},
};
use longhaul_types::{StreamId, Timestamp};

use crate::{
    content,
    plan::{Ending, Exchange, Length, PIECE},
};

/// Error code of an agent's user that abandons an exchange.
const LEFT: u64 = 77;
/// Error code of a gateway that abandons a response.
const FAILED: u64 = 88;
/// Length of the prefix of every stream, which is the number of its exchange.
const PREFIX: u64 = 4;
/// Maximum bytes of one write to a stream.
const CHUNK: u64 = 16 * 1024;

/// The end of the connection that a user is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Agent,
    Gateway,
}

/// An action of a user at a set time.
#[derive(Clone, Copy, Debug)]
enum Action {
    Open(usize),
    Leave(usize),
    Read(StreamId),
    Write(StreamId),
    Reclass(StreamId, Priority),
}

/// A stream sent by this side.
#[derive(Debug)]
struct Outgoing {
    exchange: usize,
    opened: Timestamp,
    length: u64,
    written: u64,
    fails_at: Option<u64>,
    end: Option<SendEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendEnd {
    Acknowledged,
    Cancelled,
    Stopped,
}

/// A stream received by this side.
#[derive(Debug, Default)]
struct Incoming {
    exchange: Option<usize>,
    prefix: Vec<u8>,
    received: u64,
    reading_planned: bool,
    end: Option<ReceiveEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiveEnd {
    Finished,
    Cancelled,
    Stopped,
}

/// Progress of an exchange at this side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Time of the first byte received.
    pub(crate) first_byte: Option<Timestamp>,
    /// Time of the complete reception.
    pub(crate) done: Option<Timestamp>,
    /// Set if this side has abandoned the exchange.
    abandoned: bool,
}

/// The user at one end.
pub(crate) struct Application {
    user: User,
    plan: Rc<[Exchange]>,
    salt: u64,
    actions: BTreeMap<(Timestamp, u64), Action>,
    next_action: u64,
    /// Exchanges that wait for the stream limit of the peer.
    unopened: VecDeque<usize>,
    outgoing: BTreeMap<StreamId, Outgoing>,
    incoming: BTreeMap<StreamId, Incoming>,
    answered: BTreeSet<usize>,
    progress: Vec<Progress>,
    /// Stream bytes delivered to this user.
    pub(crate) delivered: u64,
    /// Received pieces of typed exchanges: exchange, bytes received so far, time.
    pub(crate) heard: Vec<(usize, u64, Timestamp)>,
}

impl Application {
    pub(crate) fn new(user: User, plan: Rc<[Exchange]>, salt: u64) -> Self {
        let progress = vec![Progress::default(); plan.len()];
        let mut application = Self {
            user,
            plan,
            salt,
            actions: BTreeMap::new(),
            next_action: 0,
            unopened: VecDeque::new(),
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            answered: BTreeSet::new(),
            progress,
            delivered: 0,
            heard: Vec::new(),
        };
        if user == User::Agent {
            for index in 0..application.plan.len() {
                let at = Timestamp::ZERO + application.plan[index].at;
                application.at(at, Action::Open(index));
            }
        }
        application
    }

    /// Time of the next action.
    pub(crate) fn next_action(&self) -> Option<Timestamp> {
        self.actions.first_key_value().map(|((at, _), _)| *at)
    }

    /// Executes all actions that are due.
    pub(crate) fn act(&mut self, now: Timestamp, connection: &mut Connection) {
        while let Some(entry) = self.actions.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Action::Open(exchange) => self.open(now, connection, exchange),
                Action::Leave(exchange) => self.abandon(connection, exchange, LEFT),
                Action::Read(stream) => {
                    if let Some(incoming) = self.incoming.get_mut(&stream) {
                        incoming.reading_planned = false;
                    }
                    self.read(now, connection, stream);
                }
                Action::Write(stream) => self.write(now, connection, stream),
                Action::Reclass(stream, class) => connection.set_priority(stream, class),
            }
        }
    }

    /// Handles an event of the transport.
    pub(crate) fn on_event(&mut self, now: Timestamp, connection: &mut Connection, event: StreamEvent) {
        match event {
            StreamEvent::Opened => {
                while let Some(stream) = connection.accept() {
                    let fresh = self.incoming.insert(stream, Incoming::default()).is_none();
                    assert!(fresh, "{:?}: {stream:?} was accepted twice", self.user);
                    self.readable(now, connection, stream);
                }
            }
            StreamEvent::Readable(stream) => self.readable(now, connection, stream),
            StreamEvent::Writable(stream) => self.write(now, connection, stream),
            StreamEvent::Finished(stream) => self.acknowledged(stream),
            StreamEvent::Cancelled(stream, _) => self.read(now, connection, stream),
            StreamEvent::Stopped(stream, error) => self.stopped(connection, stream, error),
            StreamEvent::Available => {
                for _ in 0..self.unopened.len() {
                    let Some(exchange) = self.unopened.pop_front() else {
                        return;
                    };
                    self.open(now, connection, exchange);
                }
            }
        }
    }

    /// True if every exchange has ended, as far as this side knows.
    pub(crate) fn is_done(&self) -> bool {
        let streams_ended = self.outgoing.values().all(|outgoing| outgoing.end.is_some())
            && self.incoming.values().all(|incoming| incoming.end.is_some());
        streams_ended
            && self.actions.is_empty()
            && self.unopened.is_empty()
            && self
                .progress
                .iter()
                .zip(self.plan.iter())
                .all(|(progress, exchange)| match exchange.ending {
                    Ending::Complete => progress.done.is_some(),
                    Ending::AgentLeaves(_) | Ending::GatewayFails(_) => true,
                })
    }

    /// Progress of an exchange at this side.
    pub(crate) fn progress(&self, exchange: usize) -> Progress {
        self.progress[exchange]
    }

    /// Unfinished exchanges, for failure messages.
    pub(crate) fn describe(&self) -> String {
        let outgoing = self
            .outgoing
            .iter()
            .filter(|(_, outgoing)| outgoing.end.is_none());
        let incoming = self
            .incoming
            .iter()
            .filter(|(_, incoming)| incoming.end.is_none());
        format!(
            "{:?}: actions {:?}, unopened {:?}, sending {:?}, receiving {:?}",
            self.user,
            self.actions.iter().take(3).collect::<Vec<_>>(),
            self.unopened,
            outgoing.take(6).collect::<Vec<_>>(),
            incoming.take(6).collect::<Vec<_>>(),
        )
    }

    fn at(&mut self, at: Timestamp, action: Action) {
        self.next_action += 1;
        self.actions.insert((at, self.next_action), action);
    }

    /// Key of the content of the stream that `sender` sends for an exchange.
    const fn key(&self, exchange: usize, sender: User) -> u64 {
        let direction = match sender {
            User::Agent => 1,
            User::Gateway => 2,
        };
        crate::datagram::mix(self.salt ^ ((exchange as u64) << 8) ^ direction)
    }

    const fn peer(&self) -> User {
        match self.user {
            User::Agent => User::Gateway,
            User::Gateway => User::Agent,
        }
    }

    fn open(&mut self, now: Timestamp, connection: &mut Connection, index: usize) {
        if self.progress[index].abandoned {
            return;
        }
        let exchange = self.plan[index].clone();
        let early = match (exchange.request <= CHUNK, self.user) {
            (true, User::Agent) => EarlyData::Allowed,
            _ => EarlyData::Forbidden,
        };
        let stream = match connection.open(exchange.class, early) {
            Ok(stream) => stream,
            Err(OpenError::Limit) => return self.unopened.push_back(index),
            Err(OpenError::Closed) => panic!("{:?}: the session closed under exchange {index}", self.user),
        };
        let (length, fails_at) = match (self.user, exchange.ending) {
            (User::Agent, _) => (exchange.request.max(PREFIX), None),
            (User::Gateway, Ending::GatewayFails(at)) => (exchange.response + PREFIX, Some(at)),
            (User::Gateway, Ending::Complete | Ending::AgentLeaves(_)) => (exchange.response + PREFIX, None),
        };
        if exchange.length == Length::Announced {
            connection.announce(stream, length);
        }
        let outgoing = Outgoing {
            exchange: index,
            opened: now,
            length,
            written: 0,
            fails_at,
            end: None,
        };
        let fresh = self.outgoing.insert(stream, outgoing).is_none();
        assert!(fresh, "{:?}: {stream:?} was opened twice", self.user);
        match (self.user, exchange.ending, exchange.reclass) {
            (User::Agent, Ending::AgentLeaves(after), _) => self.at(now + after, Action::Leave(index)),
            (User::Gateway, _, Some((after, class))) => self.at(now + after, Action::Reclass(stream, class)),
            _ => {}
        }
        self.write(now, connection, stream);
    }

    fn write(&mut self, now: Timestamp, connection: &mut Connection, stream: StreamId) {
        let Some(outgoing) = self
            .outgoing
            .get(&stream)
            .filter(|outgoing| outgoing.end.is_none())
        else {
            return;
        };
        let (index, length, fails_at) = (outgoing.exchange, outgoing.length, outgoing.fails_at);
        let mut written = outgoing.written;
        let key = self.key(index, self.user);
        let mut end = fails_at.map_or(length, |at| at.min(length));
        if let Some(interval) = self.plan[index].typed {
            let pieces = (now - outgoing.opened).as_nanos() / interval.as_nanos() + 1;
            end = end.min(u64::try_from(pieces).unwrap_or(u64::MAX).saturating_mul(PIECE));
            if end < length {
                let next = u32::try_from(pieces).expect("the number of pieces fits 32 bits");
                self.at(outgoing.opened + interval * next, Action::Write(stream));
            }
        }
        while written < end {
            let chunk = if written < PREFIX {
                let prefix = u32::try_from(index)
                    .expect("the number of exchanges fits 32 bits")
                    .to_be_bytes();
                let from = usize::try_from(written).expect("below the prefix's length");
                bytes::Bytes::copy_from_slice(&prefix[from..])
            } else {
                let len = usize::try_from((end - written).min(CHUNK)).expect("at most a chunk");
                content::generate(key, written - PREFIX, len)
            };
            let chunk = chunk.slice(
                ..chunk
                    .len()
                    .min(usize::try_from(end - written).unwrap_or(usize::MAX)),
            );
            match connection.write(now, stream, chunk) {
                Ok(taken) => written += taken as u64,
                // CLOSE may arrive at the same time as stream credit; the event of the end follows.
                Err(WriteError::Blocked | WriteError::Closed) => break,
                Err(error) => panic!("{:?}: writing {stream:?} of exchange {index}: {error}", self.user),
            }
        }
        let outgoing = self
            .outgoing
            .get_mut(&stream)
            .expect("the stream was found above");
        let before = std::mem::replace(&mut outgoing.written, written);
        if written == end && fails_at.is_some() {
            connection.cancel(stream, FAILED);
            outgoing.end = Some(SendEnd::Cancelled);
            self.progress[index].abandoned = true;
        } else if written == length && (before < length || length == 0) {
            connection
                .finish(stream)
                .expect("the stream is open and its length as announced");
        }
    }

    fn acknowledged(&mut self, stream: StreamId) {
        let outgoing = self.outgoing.get_mut(&stream).expect("only own streams finish");
        match outgoing.end {
            None => {
                assert_eq!(
                    outgoing.written, outgoing.length,
                    "{stream:?} is acknowledged before it was written"
                );
                outgoing.end = Some(SendEnd::Acknowledged);
            }
            Some(SendEnd::Acknowledged) => panic!("{:?}: {stream:?} finished twice", self.user),
            Some(SendEnd::Cancelled | SendEnd::Stopped) => {}
        }
    }

    fn stopped(&mut self, connection: &mut Connection, stream: StreamId, error: u64) {
        let outgoing = self
            .outgoing
            .get_mut(&stream)
            .expect("only own streams are stopped");
        assert_eq!(error, LEFT, "{stream:?} was stopped with an unknown error code");
        if outgoing.end.is_none() {
            outgoing.end = Some(SendEnd::Stopped);
            connection.cancel(stream, error);
        }
        let index = outgoing.exchange;
        self.progress[index].abandoned = true;
    }

    /// Cancels both streams of an exchange.
    fn abandon(&mut self, connection: &mut Connection, index: usize, error: u64) {
        self.progress[index].abandoned = true;
        self.unopened.retain(|unopened| *unopened != index);
        for (stream, outgoing) in &mut self.outgoing {
            if outgoing.exchange == index && outgoing.end.is_none() {
                outgoing.end = Some(SendEnd::Cancelled);
                connection.cancel(*stream, error);
            }
        }
        for (stream, incoming) in &mut self.incoming {
            if incoming.exchange == Some(index) && incoming.end.is_none() {
                incoming.end = Some(ReceiveEnd::Stopped);
                connection.stop(*stream, error);
            }
        }
    }
}
