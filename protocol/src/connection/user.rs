//! What users of a connection call.
use bytes::Bytes;
use longhaul_types::{StreamId, Timestamp};

use super::{Connection, Keys, Life};
use crate::{
    endpoint::CloseReason,
    streams::{OpenError, Priority, ReadError, ReadOutcome, WriteError},
};

/// Whether a stream may go as early data (transport.md 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyData {
    /// It may: what it carries can be replayed by an attacker.
    Allowed,
    /// It waits for the full keys.
    Forbidden,
}

impl Connection {
    /// Opens a stream of class `priority`.
    ///
    /// # Errors
    /// The peer's limit is reached (an `Available` event follows), or the connection is closed.
    pub fn open(&mut self, priority: Priority, early: EarlyData) -> Result<StreamId, OpenError> {
        if !matches!(self.life, Life::Open) {
            return Err(OpenError::Closed);
        }
        let id = self.streams.open(priority)?;
        if early == EarlyData::Forbidden && matches!(self.keys, Keys::Early { .. }) {
            self.streams.hold(id);
        }
        Ok(id)
    }

    /// Appends bytes to a stream; returns how many were taken, from the front. A `Writable` event follows if it is not all.
    ///
    /// # Errors
    /// Nothing was taken.
    pub fn write(&mut self, _now: Timestamp, id: StreamId, data: Bytes) -> Result<usize, WriteError> {
        if !matches!(self.life, Life::Open) {
            return Err(WriteError::Closed);
        }
        let taken = self.streams.write(id, data);
        self.rearm();
        taken
    }

    /// Ends a stream behind what was written.
    ///
    /// # Errors
    /// The stream is not open for writing, or its announced length was not reached.
    pub fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        self.streams.finish(id)
    }

    /// Tells the length of a stream before all of it is written, so that short streams go first and a missing tail shows.
    pub fn announce(&mut self, id: StreamId, total: u64) {
        self.streams.announce(id, total);
    }

    /// Moves a sending stream to another class.
    pub fn set_priority(&mut self, id: StreamId, priority: Priority) {
        self.streams.set_priority(id, priority);
    }

    /// Gives a sending stream up.
    pub fn cancel(&mut self, id: StreamId, error: u64) {
        self.streams.cancel(id, error);
    }

    /// The next stream that the peer opened.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.streams.accept()
    }

    /// The next bytes of a stream.
    ///
    /// # Errors
    /// The peer cancelled it, or it is not open for reading.
    pub fn read(&mut self, _now: Timestamp, id: StreamId) -> Result<ReadOutcome, ReadError> {
        let before = self.room();
        let outcome = self.streams.read(id);
        if before < self.config.receive_buffer.bytes() / 8
            && self.room() >= self.config.receive_buffer.bytes() / 2
        {
            // Credit was short because nobody read: the sender waits for this.
            self.owed.now = true;
        }
        self.rearm();
        outcome
    }

    /// Wants no more of a stream that the peer sends.
    pub fn stop(&mut self, id: StreamId, error: u64) {
        self.streams.stop(id, error);
    }

    /// Whether any of a stream came in early data.
    pub fn was_early(&self, id: StreamId) -> bool {
        self.streams.was_early(id)
    }

    /// The length of a stream that the peer sends, if it told.
    pub fn announced_total(&self, id: StreamId) -> Option<u64> {
        self.streams.announced_total(id)
    }

    /// Asks the peer for a sign of life.
    pub fn ping(&mut self, _now: Timestamp) {
        self.ping_due = true;
        self.rearm();
    }

    /// Says whether the user waits for something from the peer: a response, or more of one. A peer that is silent meanwhile is
    /// asked for a sign of life, ever less often while it answers (transport.md 7.3).
    pub fn expect_data(&mut self, now: Timestamp, expects: bool) {
        if self.expecting_since.is_some() == expects {
            return;
        }
        self.expecting_since = expects.then_some(now);
        self.asked = 0;
        self.rearm();
    }

    /// Whether the user waits for something from the peer.
    pub const fn expects_data(&self) -> bool {
        self.expecting_since.is_some()
    }

    /// The operating system reported another network: everything that was measured is void, and the gateway is to learn of
    /// the new address at once.
    pub fn network_changed(&mut self, now: Timestamp) {
        self.controller.on_path_change();
        self.rtt = crate::recovery::RttEstimator::new(self.profile.map(|profile| profile.rtt));
        self.ping_due = true;
        self.pad_due = !self.is_gateway();
        self.owed.now = self.owed.echo.is_some();
        self.prober.due = true;
        self.prober.hurry(now);
        self.rearm();
    }

    /// Gives the peer a token for its next INIT.
    pub fn send_token(&mut self, _now: Timestamp, token: [u8; 32]) {
        // One is enough: the newest.
        self.tokens.clear();
        self.tokens.push_back(token);
        self.rearm();
    }

    /// Closes the session. The reason is for a person who reads logs, at most 200 bytes of it are sent.
    pub fn close(&mut self, now: Timestamp, error: u64, reason: &str) {
        self.close_with(now, error, reason.to_owned(), CloseReason::Local { error });
    }

    /// The exporter secret (transport.md 3.3), once the handshake is done.
    pub fn exporter(&self) -> Option<[u8; 32]> {
        match &self.keys {
            Keys::Early { .. } => None,
            Keys::Full { exporter, .. } => Some(**exporter),
        }
    }

    /// Bytes that the receive buffer can still take.
    pub(super) fn room(&self) -> u64 {
        self.config
            .receive_buffer
            .bytes()
            .saturating_sub(self.streams.recv_buffered())
    }
}
