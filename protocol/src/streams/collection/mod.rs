//! All streams of a connection: opening, limits, what waits to be sent, what the user is to be told.
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use longhaul_types::StreamId;

use super::{
    Delivery, Demand, OpenError, Priority, RangeSet, ReadError, ReadOutcome, RecvStream, Role, Scheduler,
    SendStream, StreamEvent, StreamLimits, WriteError,
};

mod output;
mod peer;

/// Every stream may buffer this much for sending even if the connection's total is used up, so that an urgent stream is
/// never locked out by what less urgent ones have queued.
const GUARANTEED_SEND_BUFFER: u64 = 64 * 1024;

#[derive(Debug)]
struct Stop {
    error: u64,
    delivery: Delivery,
}

/// All streams of one connection.
#[derive(Debug)]
pub struct Streams {
    role: Role,
    limits: StreamLimits,
    send: BTreeMap<StreamId, (SendStream, Demand)>,
    scheduler: Scheduler,
    /// Index of the next stream that this side opens.
    next_index: u64,
    /// Streams that the peer lets this side open in all.
    peer_allows: u64,
    peer_window: u64,
    wants_open: bool,
    send_buffered: u64,
    /// Streams whose write was blocked by a buffer.
    blocked: BTreeSet<StreamId>,

    recv: BTreeMap<StreamId, RecvStream>,
    /// Indices of the peer's streams that are gone; beyond `peer_opened` nothing.
    closed: RangeSet,
    /// Streams that the peer has opened.
    peer_opened: u64,
    accepts: VecDeque<StreamId>,
    /// The last STREAMS that was sent, or the parameter.
    granted_streams: u64,
    recv_buffered: u64,
    stops: BTreeMap<StreamId, Stop>,
    limits_due: BTreeSet<StreamId>,
    cancels_due: BTreeSet<StreamId>,
    count_due: bool,
    /// Streams that have holes or a known missing tail are counted lazily; see `missing`.
    incomplete: BTreeSet<StreamId>,

    events: VecDeque<StreamEvent>,
    /// Streams with a `Readable` or `Writable` in the queue, so that it holds each at most once.
    announced: BTreeSet<(bool, StreamId)>,
}

impl Streams {
    /// No streams yet; the peer's limits come with [`Streams::set_peer`].
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

    /// Sets what the peer allows (its parameters, or what an agent may assume before RESP). Limits only rise.
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
        self.send.insert(id, (stream, Demand::default()));
        Ok(id)
    }

    /// Appends bytes to a stream; returns how many were taken, from the front.
    ///
    /// # Errors
    /// Nothing was taken: the buffer is full or the stream is not open.
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

    /// Ends a stream behind what was written.
    ///
    /// # Errors
    /// The stream is not open, or an announced length was not reached.
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

    /// Tells the length of a stream before all of it is written.
    pub fn announce(&mut self, id: StreamId, total: u64) {
        if let Some((stream, _)) = self.send.get_mut(&id) {
            stream.announce(total);
            self.refresh(id);
        }
    }

    /// Moves a stream to another class.
    pub fn set_priority(&mut self, id: StreamId, priority: Priority) {
        if let Some((stream, demand)) = self.send.get_mut(&id) {
            let before = std::mem::take(demand);
            self.scheduler
                .update(id, stream.priority, before, Demand::default());
            stream.priority = priority;
            self.refresh(id);
        }
    }

    /// Ends a sending stream early: what is not sent will not be.
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

    /// The next stream that the peer opened.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.accepts.pop_front()
    }

    /// The next bytes of a stream.
    ///
    /// # Errors
    /// The peer cancelled the stream, or it is not one to read from.
    pub fn read(&mut self, id: StreamId) -> Result<ReadOutcome, ReadError> {
        self.announced.remove(&(true, id));
        let stream = self.recv.get_mut(&id).ok_or(ReadError::NotOpen)?;
        if stream.is_stopped() {
            return Err(ReadError::NotOpen);
        }
        if let Some(error) = stream.cancelled() {
            self.close_recv(id);
            return Err(ReadError::Cancelled(error));
        }
        let (outcome, freed) = stream.read();
        self.recv_buffered -= freed;
        if stream.is_read() {
            if outcome == ReadOutcome::Finished {
                self.close_recv(id);
            }
        } else if !stream.is_complete() {
            let window = self.limits.stream_window.bytes();
            let limit = stream.read_offset() + window;
            if limit - stream.limit >= window / 8
                && stream.known_total().is_none_or(|total| total > stream.limit)
            {
                stream.limit = limit;
                self.limits_due.insert(id);
            }
        }
        Ok(outcome)
    }

    /// The user wants no more of a stream that the peer sends.
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

    /// Whether any of the stream came in early data.
    pub fn was_early(&self, id: StreamId) -> bool {
        self.recv.get(&id).is_some_and(|stream| stream.early)
    }
    /// The length that the peer told.
    pub fn announced_total(&self, id: StreamId) -> Option<u64> {
        self.recv.get(&id).and_then(RecvStream::known_total)
    }

    /// The next event.
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

    /// Keeps a stream back until [`Streams::release`].
    pub fn hold(&mut self, id: StreamId) {
        if let Some((stream, _)) = self.send.get_mut(&id) {
            stream.held = true;
            self.refresh(id);
        }
    }
    /// Lets all streams go that were held.
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

    /// Whether anything at all waits to be sent.
    pub fn has_output(&self) -> bool {
        self.has_request() || !self.scheduler.is_empty()
    }
    /// Memory of received data that the user has not read.
    pub const fn recv_buffered(&self) -> u64 {
        self.recv_buffered
    }
    /// Memory of data that is not acknowledged.
    pub const fn send_buffered(&self) -> u64 {
        self.send_buffered
    }
    /// Whether received data has holes.
    pub fn has_holes(&self) -> bool {
        self.incomplete
            .iter()
            .any(|id| self.recv.get(id).is_some_and(RecvStream::has_hole))
    }
    /// Bytes that are missing of streams whose length is known (5.3).
    pub fn missing(&self) -> u64 {
        self.incomplete
            .iter()
            .filter_map(|id| self.recv.get(id))
            .map(RecvStream::missing)
            .fold(0, u64::saturating_add)
    }
    /// Whether more than `bytes` are to come as far as is known; a stream of unknown length counts as long.
    pub fn awaits_more_than(&self, bytes: u64) -> bool {
        let mut open = self.incomplete.iter().filter_map(|id| self.recv.get(id));
        self.missing() > bytes || open.any(|stream| stream.known_total().is_none())
    }
    /// Streams in memory, sending and receiving.
    pub fn open_count(&self) -> (usize, usize) {
        (self.send.len(), self.recv.len())
    }
}

#[cfg(test)]
mod tests;
