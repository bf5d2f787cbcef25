//! Stream frames from the peer.
use longhaul_types::StreamId;

use super::{
    super::{RecvStream, StreamEvent, StreamViolation},
    Streams,
};

impl Streams {
    /// Processes a DATA frame.
    ///
    /// # Errors
    /// The peer violated a limit or contradicted an earlier frame.
    pub fn on_data(
        &mut self,
        id: StreamId,
        offset: u64,
        total: Option<u64>,
        fin: bool,
        bytes: &[u8],
        early: bool,
    ) -> Result<(), StreamViolation> {
        if !self.ensure_recv(id, early)? {
            return Ok(());
        }
        let Some(stream) = self.recv.get_mut(&id) else {
            return Ok(());
        };
        let accepted = stream.on_data(offset, total, fin, bytes)?;
        self.recv_buffered = self.recv_buffered.saturating_add_signed(accepted.buffered);
        if stream.is_complete() {
            self.incomplete.remove(&id);
            self.limits_due.remove(&id);
            if stream.is_stopped() {
                self.close_recv(id);
            }
        } else if stream.missing() > 0 || stream.has_hole() {
            self.incomplete.insert(id);
        } else {
            self.incomplete.remove(&id);
        }
        if accepted.readable {
            self.announce_event(true, id);
        }
        Ok(())
    }

    /// Processes CANCEL.
    ///
    /// # Errors
    /// The peer contradicted an earlier frame.
    pub fn on_cancel(&mut self, id: StreamId, error: u64, final_offset: u64) -> Result<(), StreamViolation> {
        if !self.ensure_recv(id, false)? {
            return Ok(());
        }
        let Some(stream) = self.recv.get_mut(&id) else {
            return Ok(());
        };
        let before = stream.cancelled();
        let accepted = stream.on_cancel(error, final_offset)?;
        self.recv_buffered = self.recv_buffered.saturating_add_signed(accepted.buffered);
        if stream.cancelled().is_some() && before.is_none() {
            self.incomplete.remove(&id);
            self.limits_due.remove(&id);
            if stream.is_stopped() {
                self.close_recv(id);
            } else {
                self.events.push_back(StreamEvent::Cancelled(id, error));
            }
        }
        Ok(())
    }

    /// Processes STOP, which cancels the stream.
    ///
    /// # Errors
    /// The stream was never opened, or is a stream of the peer.
    pub fn on_stop(&mut self, id: StreamId, error: u64) -> Result<(), StreamViolation> {
        self.check_mine(id)?;
        if let Some((stream, _)) = self.send.get(&id)
            && stream.cancelled().is_none()
        {
            self.cancel(id, error);
            self.events.push_back(StreamEvent::Stopped(id, error));
        }
        Ok(())
    }

    /// Processes STREAM_LIMIT.
    ///
    /// # Errors
    /// The stream was never opened, or is a stream of the peer.
    pub fn on_stream_limit(&mut self, id: StreamId, limit: u64) -> Result<(), StreamViolation> {
        self.check_mine(id)?;
        self.on_stream_limit_value(id, limit);
        Ok(())
    }

    pub(super) fn on_stream_limit_value(&mut self, id: StreamId, limit: u64) {
        if let Some((stream, _)) = self.send.get_mut(&id) {
            stream.limit = stream.limit.max(limit);
            self.refresh(id);
        }
    }

    /// Processes STREAMS.
    pub fn on_streams(&mut self, count: u64) {
        if count > self.peer_allows {
            self.peer_allows = count;
            if std::mem::take(&mut self.wants_open) {
                self.events.push_back(StreamEvent::Available);
            }
        }
    }

    const fn check_mine(&self, id: StreamId) -> Result<(), StreamViolation> {
        if self.is_mine(id) && id.0 / 2 < self.next_index {
            Ok(())
        } else {
            Err(StreamViolation::Direction)
        }
    }

    /// Opens a stream of the peer if necessary; returns `false` if the stream is already closed.
    pub(super) fn ensure_recv(&mut self, id: StreamId, early: bool) -> Result<bool, StreamViolation> {
        if self.is_mine(id) {
            return Err(StreamViolation::Direction);
        }
        let index = id.0 / 2;
        if index >= self.granted_streams {
            return Err(StreamViolation::Limit);
        }
        if index >= self.peer_opened {
            for opened in self.peer_opened..=index {
                let id = StreamId(opened * 2 + 1 - self.role.parity());
                let window = self.limits.stream_window.bytes();
                self.recv.insert(id, RecvStream::new(window, false));
                self.accepts.push_back(id);
            }
            self.peer_opened = index + 1;
            self.events.push_back(StreamEvent::Opened);
        }
        match self.recv.get_mut(&id) {
            Some(stream) => {
                stream.early |= early;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Removes a stream of the peer and permits the peer to open another one.
    pub(super) fn close_recv(&mut self, id: StreamId) {
        let Some(stream) = self.recv.remove(&id) else {
            return;
        };
        self.recv_buffered -= stream.buffered();
        self.stops.remove(&id);
        self.limits_due.remove(&id);
        self.incomplete.remove(&id);
        self.closed.insert(id.0 / 2..id.0 / 2 + 1);
        let grant = self.closed.total() + self.limits.max_streams;
        if grant - self.granted_streams >= self.limits.max_streams.div_ceil(4) {
            self.granted_streams = grant;
            self.count_due = true;
        }
    }
}
