//! The receiving side of a user, which checks every byte and reacts to received data.
use longhaul_protocol::{
    connection::Connection,
    streams::{ReadError, ReadOutcome},
};
use longhaul_types::{StreamId, Timestamp};

use super::{Action, Application, FAILED, LEFT, PREFIX, ReceiveEnd, User};
use crate::{
    content,
    plan::{Answer, Ending, Reader},
};

impl Application {
    pub(super) fn readable(&mut self, now: Timestamp, connection: &mut Connection, stream: StreamId) {
        let incoming = self
            .incoming
            .get_mut(&stream)
            .expect("a readable stream was accepted");
        let reader = incoming
            .exchange
            .map_or(Reader::Eager, |index| self.plan[index].reader);
        match (self.user, reader) {
            (User::Agent, Reader::Slow(pause)) => {
                if !std::mem::replace(&mut incoming.reading_planned, true) {
                    self.at(now + pause, Action::Read(stream));
                }
            }
            _ => self.read(now, connection, stream),
        }
    }

    pub(super) fn read(&mut self, now: Timestamp, connection: &mut Connection, stream: StreamId) {
        loop {
            let incoming = self
                .incoming
                .get_mut(&stream)
                .expect("a readable stream was accepted");
            if incoming.end.is_some() {
                return;
            }
            match connection.read(now, stream) {
                Ok(ReadOutcome::Data(bytes)) => {
                    assert!(
                        !bytes.is_empty(),
                        "{:?}: {stream:?} delivered an empty piece",
                        self.user
                    );
                    self.take(now, stream, &bytes);
                    self.mind_progress(now, connection, stream);
                }
                Ok(ReadOutcome::Blocked) => return,
                Ok(ReadOutcome::Finished) => {
                    incoming.end = Some(ReceiveEnd::Finished);
                    return self.finished(now, stream);
                }
                Err(ReadError::Cancelled(error)) => {
                    incoming.end = Some(ReceiveEnd::Cancelled);
                    let exchange = incoming.exchange;
                    return self.cancelled(connection, exchange, error);
                }
                Err(error) => panic!("{:?}: reading {stream:?}: {error}", self.user),
            }
        }
    }

    /// Checks delivered bytes.
    fn take(&mut self, now: Timestamp, stream: StreamId, mut bytes: &[u8]) {
        self.delivered += bytes.len() as u64;
        let incoming = self
            .incoming
            .get_mut(&stream)
            .expect("a stream that is read was accepted");
        let missing = usize::try_from(PREFIX).expect("small") - incoming.prefix.len();
        let (prefix, rest) = bytes.split_at(missing.min(bytes.len()));
        incoming.prefix.extend_from_slice(prefix);
        bytes = rest;
        let Ok(prefix) = <[u8; 4]>::try_from(incoming.prefix.as_slice()) else {
            return;
        };
        let index = u32::from_be_bytes(prefix) as usize;
        assert!(
            index < self.plan.len(),
            "{stream:?} begins with the number of an unknown exchange: {index}"
        );
        if incoming.exchange.replace(index).is_none() {
            let first = &mut self.progress[index].first_byte;
            assert_eq!(*first, None, "two streams for exchange {index}");
            *first = Some(now);
        }
        let at = incoming.received;
        incoming.received += bytes.len() as u64;
        if self.plan[index].typed.is_some() {
            self.heard.push((index, incoming.received + PREFIX, now));
        }
        let key = self.key(index, self.peer());
        let wrong = content::mismatch(key, at, bytes);
        assert_eq!(
            wrong, None,
            "{:?}: a wrong byte in {stream:?} of exchange {index}",
            self.user
        );
    }

    /// Starts the response of the gateway; an agent that has abandoned the exchange stops it.
    fn mind_progress(&mut self, now: Timestamp, connection: &mut Connection, stream: StreamId) {
        let incoming = self
            .incoming
            .get_mut(&stream)
            .expect("a stream that is read was accepted");
        let Some(index) = incoming.exchange else { return };
        match self.user {
            User::Agent if self.progress[index].abandoned => {
                incoming.end = Some(ReceiveEnd::Stopped);
                connection.stop(stream, LEFT);
            }
            User::Gateway if self.plan[index].answer == Answer::AtHead => self.answer(now, index),
            User::Agent | User::Gateway => {}
        }
    }

    fn answer(&mut self, now: Timestamp, index: usize) {
        if self.answered.insert(index) {
            self.at(now + self.plan[index].origin, Action::Open(index));
        }
    }

    fn finished(&mut self, now: Timestamp, stream: StreamId) {
        let incoming = &self.incoming[&stream];
        let index = incoming
            .exchange
            .unwrap_or_else(|| panic!("{stream:?} ended before its prefix"));
        let expected = match self.user {
            User::Agent => self.plan[index].response,
            User::Gateway => self.plan[index].request.max(PREFIX) - PREFIX,
        };
        assert_eq!(
            incoming.received, expected,
            "{:?}: the length of {stream:?}, exchange {index}",
            self.user
        );
        assert!(
            self.user == User::Gateway || !matches!(self.plan[index].ending, Ending::GatewayFails(_)),
            "exchange {index}: a cancelled response ended cleanly"
        );
        self.progress[index].done = Some(now);
        if self.user == User::Gateway {
            self.answer(now, index);
        }
    }

    /// Handles the cancellation of a stream by its sender.
    fn cancelled(&mut self, connection: &mut Connection, exchange: Option<usize>, error: u64) {
        match self.user {
            User::Agent => assert!(
                error == FAILED || error == LEFT,
                "a cancellation with an unknown error code: {error}"
            ),
            User::Gateway => {
                assert_eq!(error, LEFT, "a cancellation with an unknown error code");
                if let Some(index) = exchange {
                    self.abandon(connection, index, error);
                }
            }
        }
    }
}
