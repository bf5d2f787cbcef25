//! All streams of a connection: opening, limits, pending output and events.
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use longhaul_types::StreamId;

use super::{
    DatagramQueue, Delivery, Demand, OpenError, Priority, RangeSet, ReadError, ReadOutcome, RecvStream, Role,
    Scheduler, SendStream, StreamEvent, StreamLimits, WriteError,
};

mod datagrams;
mod output;
mod peer;

/// Bytes that every stream may buffer for sending even if the connection's total is exhausted, so that less
/// urgent streams never block an urgent one.
const GUARANTEED_SEND_BUFFER: u64 = 64 * 1024;

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Stop {
    error: u64,
    delivery: Delivery,
}

/// What the scheduler knows of a sending stream.
#[derive(Clone, Copy, Debug)]
struct Reported {
    class: Priority,
    demand: Demand,
}

/// All streams of one connection.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct Streams {
    role: Role,
    limits: StreamLimits,
    send: BTreeMap<StreamId, (SendStream, Reported)>,
    scheduler: Scheduler,
    /// Index of the next stream that this side opens.
    next_index: u64,
    /// Total number of streams that the peer permits this side to open.
    peer_allows: u64,
    peer_window: u64,
    wants_open: bool,
    send_buffered: u64,
    /// Streams whose write was blocked by a full buffer.
    blocked: BTreeSet<StreamId>,
    datagrams: DatagramQueue,
    /// What the scheduler knows of the datagrams of each class.
    datagram_demand: [Demand; Priority::COUNT as usize],

    recv: BTreeMap<StreamId, RecvStream>,
    /// Indices of the peer's closed streams, all below `peer_opened`.
    closed: RangeSet,
    /// Number of streams that the peer has opened.
    peer_opened: u64,
    accepts: VecDeque<StreamId>,
    /// Count of the last STREAMS, or of the parameters.
    granted_streams: u64,
    recv_buffered: u64,
    stops: BTreeMap<StreamId, Stop>,
    limits_due: BTreeSet<StreamId>,
    cancels_due: BTreeSet<StreamId>,
    count_due: bool,
    /// Receiving streams with a gap or a known missing tail; `missing` counts their bytes on demand.
    incomplete: BTreeSet<StreamId>,

    events: VecDeque<StreamEvent>,
    /// Streams with a queued `Readable` (true) or `Writable` (false) event, so that the queue holds each
    /// event at most once.
    announced: BTreeSet<(bool, StreamId)>,
}

impl Streams {
    /// Creates an empty collection; [`Streams::set_peer`] sets the peer's limits.
    pub fn new(role: Role, limits: StreamLimits) -> Self {
        Self {
            role,
            limits,
            send: BTreeMap::new(),
            scheduler: Scheduler::default(),
            next_index: 0,
            peer_allows: 0,
            peer_window: 0,
            wants_open: false,
            send_buffered: 0,
            blocked: BTreeSet::new(),
            datagrams: DatagramQueue::default(),
            datagram_demand: [Demand::default(); Priority::COUNT as usize],
            recv: BTreeMap::new(),
            closed: RangeSet::new(),
            peer_opened: 0,
            accepts: VecDeque::new(),
            granted_streams: limits.max_streams,
            recv_buffered: 0,
            stops: BTreeMap::new(),
            limits_due: BTreeSet::new(),
            cancels_due: BTreeSet::new(),
            count_due: false,
            incomplete: BTreeSet::new(),
            events: VecDeque::new(),
            announced: BTreeSet::new(),
        }
    }

    /// Raises the peer's limits: its parameters, or what an agent assumes before RESP. Limits never decrease.
    pub fn set_peer(&mut self, window: u64, streams: u64) {
        self.peer_window = self.peer_window.max(window);
        let ids: Vec<_> = self.send.keys().copied().collect();
        for id in ids {
            self.on_stream_limit_value(id, window);
        }
        self.on_streams(streams);
    }

    const fn is_mine(&self, id: StreamId) -> bool {
        id.0 % 2 == self.role.parity()
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// The peer's limit is reached.
    pub fn open(&mut self, priority: Priority) -> Result<StreamId, OpenError> {
        if self.next_index >= self.peer_allows {
            self.wants_open = true;
            return Err(OpenError::Limit);
        }
        let id = StreamId(self.next_index * 2 + self.role.parity());
        self.next_index += 1;
        let stream = SendStream::new(priority, self.peer_window);
        let reported = Reported {
            class: priority,
            demand: Demand::default(),
        };
        self.send.insert(id, (stream, reported));
        Ok(id)
    }

    /// Appends bytes to a stream; returns how many bytes were accepted, from the front.
    ///
    /// # Errors
    /// No bytes were accepted: the buffer is full or the stream is not open.
    pub fn write(&mut self, id: StreamId, mut data: Bytes) -> Result<usize, WriteError> {
        let total_room = self
            .limits
            .send_buffer_total
            .bytes()
            .saturating_sub(self.send_buffered);
        let (stream, _) = self.send.get_mut(&id).ok_or(WriteError::NotOpen)?;
        if let Some(error) = stream.cancelled() {
            return Err(WriteError::Stopped(error));
        }
        if !stream.is_open() {
            return Err(WriteError::NotOpen);
        }
        if data.is_empty() {
            return Ok(0);
        }
        let written = stream.written() + data.len() as u64;
        if stream.announced().is_some_and(|total| written > total) {
            return Err(WriteError::Length);
        }
        let own_room = self.limits.send_buffer.bytes().saturating_sub(stream.buffered());
        let guaranteed = GUARANTEED_SEND_BUFFER.saturating_sub(stream.buffered());
        let room = own_room.min(total_room.max(guaranteed));
        if room == 0 {
            self.blocked.insert(id);
            return Err(WriteError::Blocked);
        }
        let taken = usize::try_from(room).unwrap_or(usize::MAX).min(data.len());
        if taken < data.len() {
            self.blocked.insert(id);
        }
        stream.write(data.split_to(taken));
        self.send_buffered += taken as u64;
        self.refresh(id);
        Ok(taken)
    }

    /// Ends a stream after the written bytes.
    ///
    /// # Errors
    /// The stream is not open, or its announced length was not reached.
    pub fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        let (stream, _) = self.send.get_mut(&id).ok_or(WriteError::NotOpen)?;
        if let Some(error) = stream.cancelled() {
            return Err(WriteError::Stopped(error));
        }
        if !stream.is_open() {
            return Err(WriteError::NotOpen);
        }
        if stream.announced().is_some_and(|total| total != stream.written()) {
            return Err(WriteError::Length);
        }
        stream.finish();
        self.refresh(id);
        Ok(())
    }

    /// Announces the length of a stream before all of it is written.
    pub fn announce(&mut self, id: StreamId, total: u64) {
        if let Some((stream, _)) = self.send.get_mut(&id) {
            stream.announce(total);
            self.refresh(id);
        }
    }

    /// Moves a stream to another priority class.
    pub fn set_priority(&mut self, id: StreamId, priority: Priority) {
        if let Some((stream, _)) = self.send.get_mut(&id) {
            stream.set_priority(priority);
            self.refresh(id);
        }
    }

    /// Cancels a sending stream; unsent bytes are discarded.
    pub fn cancel(&mut self, id: StreamId, error: u64) {
        if let Some((stream, _)) = self.send.get_mut(&id)
            && stream.cancelled().is_none()
        {
            let freed = stream.buffered();
            stream.cancel(error);
            self.cancels_due.insert(id);
            self.blocked.remove(&id);
            self.free_send(freed);
            self.refresh(id);
        }
    }

    /// Cancels a sending stream once the peer has acknowledged what was written before: the source failed, and what came of
    /// it is good.
    pub fn break_off(&mut self, id: StreamId, error: u64) {
        if let Some((stream, _)) = self.send.get_mut(&id)
            && stream.is_open()
        {
            stream.break_off(error);
            self.cancel_delivered(id);
        }
    }

    /// Sends the CANCEL of a stream that was broken off, if all bytes are acknowledged.
    pub(super) fn cancel_delivered(&mut self, id: StreamId) {
        let due = self.send.get(&id).and_then(|(stream, _)| stream.due_cancel());
        if let Some(error) = due {
            self.cancel(id, error);
        }
    }

    /// Returns the next stream that the peer opened.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.accepts.pop_front()
    }

    /// Returns the next bytes of a stream.
    ///
    /// # Errors
    /// The peer cancelled the stream, or the stream is not open for reading.
    pub fn read(&mut self, id: StreamId) -> Result<ReadOutcome, ReadError> {
        self.announced.remove(&(true, id));
        let stream = self.recv.get_mut(&id).ok_or(ReadError::NotOpen)?;
        if stream.is_stopped() {
            return Err(ReadError::NotOpen);
        }
        let (outcome, freed) = stream.read();
        self.recv_buffered -= freed;
        if let (ReadOutcome::Blocked, Some(error)) = (&outcome, stream.cancelled()) {
            self.close_recv(id);
            return Err(ReadError::Cancelled(error));
        }
        if stream.is_read() {
            if outcome == ReadOutcome::Finished {
                self.close_recv(id);
            }
        } else {
            self.extend_limit(id);
        }
        Ok(outcome)
    }

    /// Raises the limit of a stream when its user has read a considerable part of the window.
    fn extend_limit(&mut self, id: StreamId) {
        let Some(stream) = self.recv.get(&id) else { return };
        // The beginning of a stream needs no higher limit, and most objects are short.
        let (read, limit) = (stream.read_offset(), stream.limit);
        let (before, used) = (limit - stream.limit_set_at, read - stream.limit_set_at);
        let is_due = |window: u64| used >= (window / 8).min(before / 3) && read + window > limit;
        if !stream.may_exceed_limit() || !is_due(self.limits.window(self.recv_buffered, 1)) {
            return;
        }
        let growing = self
            .recv
            .values()
            .filter(|stream| stream.may_exceed_limit())
            .count() as u64;
        let window = self.limits.window(self.recv_buffered, growing);
        if is_due(window)
            && let Some(stream) = self.recv.get_mut(&id)
        {
            stream.limit_set_at = read;
            stream.limit = read + window;
            self.limits_due.insert(id);
        }
    }

    /// Stops a receiving stream.
    pub fn stop(&mut self, id: StreamId, error: u64) {
        let Some(stream) = self.recv.get_mut(&id) else {
            return;
        };
        if stream.is_stopped() {
            return;
        }
        self.recv_buffered -= stream.stop();
        if stream.is_complete() {
            self.close_recv(id);
            return;
        }
        self.incomplete.remove(&id);
        self.limits_due.remove(&id);
        self.stops.insert(
            id,
            Stop {
                error,
                delivery: Delivery::Pending,
            },
        );
    }

    /// Returns true if a part of the stream arrived in early data.
    pub fn was_early(&self, id: StreamId) -> bool {
        self.recv.get(&id).is_some_and(|stream| stream.early)
    }
    /// Length of a receiving stream, if the peer announced it.
    pub fn announced_total(&self, id: StreamId) -> Option<u64> {
        self.recv.get(&id).and_then(RecvStream::known_total)
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        let event = self.events.pop_front()?;
        match event {
            StreamEvent::Readable(id) => self.announced.remove(&(true, id)),
            StreamEvent::Writable(id) => self.announced.remove(&(false, id)),
            StreamEvent::Opened
            | StreamEvent::Finished(_)
            | StreamEvent::Cancelled(..)
            | StreamEvent::Stopped(..)
            | StreamEvent::Available => false,
        };
        Some(event)
    }

    /// Holds a stream back until [`Streams::release`].
    pub fn hold(&mut self, id: StreamId) {
        if let Some((stream, _)) = self.send.get_mut(&id) {
            stream.held = true;
            self.refresh(id);
        }
    }
    /// Releases all held streams.
    pub fn release(&mut self) {
        let held: Vec<_> = self
            .send
            .iter()
            .filter(|(_, (s, _))| s.held)
            .map(|(id, _)| *id)
            .collect();
        for id in held {
            if let Some((stream, _)) = self.send.get_mut(&id) {
                stream.held = false;
                self.refresh(id);
            }
        }
    }

    /// Returns true if any output is pending.
    pub fn has_output(&self) -> bool {
        self.has_request() || !self.scheduler.is_empty()
    }
    /// Returns true if this side has opened a stream outside the class of control data that is not yet acknowledged.
    pub fn has_request_stream(&self) -> bool {
        self.send
            .values()
            .any(|(stream, _)| stream.priority() != Priority::CONTROL)
    }
    /// Memory of received and unread data in bytes.
    pub const fn recv_buffered(&self) -> u64 {
        self.recv_buffered
    }
    /// Memory of unacknowledged data in bytes.
    pub const fn send_buffered(&self) -> u64 {
        self.send_buffered
    }
    /// Returns true if received data has gaps.
    pub fn has_holes(&self) -> bool {
        self.incomplete
            .iter()
            .any(|id| self.recv.get(id).is_some_and(RecvStream::has_hole))
    }
    /// Missing bytes of streams of known length (section 5.3).
    pub fn missing(&self) -> u64 {
        self.incomplete
            .iter()
            .filter_map(|id| self.recv.get(id))
            .map(RecvStream::missing)
            .fold(0, u64::saturating_add)
    }
    /// Returns true if more than `bytes` are known to be missing; a stream with a gap and of unknown length
    /// counts as more.
    pub fn awaits_more_than(&self, bytes: u64) -> bool {
        let mut open = self.incomplete.iter().filter_map(|id| self.recv.get(id));
        self.missing() > bytes || open.any(|stream| stream.known_total().is_none())
    }
    /// Number of sending and receiving streams in memory.
    pub fn open_count(&self) -> (usize, usize) {
        (self.send.len(), self.recv.len())
    }
}

#[cfg(test)]
mod tests;
