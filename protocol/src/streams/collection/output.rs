//! What the streams have to send, and what became of it.
use std::ops::Range;

use longhaul_types::{StreamId, Timestamp};

use super::{
    super::{Delivery, Demand, Segment, SendStream, SentControl, StreamEvent, StreamRequest},
    GUARANTEED_SEND_BUFFER, Streams,
};

impl Streams {
    /// Whether a control frame about streams waits.
    pub fn has_request(&self) -> bool {
        self.count_due
            || !self.cancels_due.is_empty()
            || !self.limits_due.is_empty()
            || self.stops.values().any(|stop| stop.delivery == Delivery::Pending)
    }

    /// The next control frame about streams. It stays the next one until [`Streams::on_request_sent`].
    pub fn next_request(&self) -> Option<StreamRequest> {
        if let Some(&stream) = self.cancels_due.first() {
            let (send, _) = self.send.get(&stream)?;
            return Some(StreamRequest::Cancel {
                stream,
                error: send.cancelled().unwrap_or(0),
                final_offset: send.sent(),
            });
        }
        let stop = self
            .stops
            .iter()
            .find(|(_, stop)| stop.delivery == Delivery::Pending);
        if let Some((&stream, stop)) = stop {
            return Some(StreamRequest::Stop {
                stream,
                error: stop.error,
            });
        }
        if let Some(&stream) = self.limits_due.first() {
            let limit = self.recv.get(&stream)?.limit;
            return Some(StreamRequest::Limit { stream, limit });
        }
        self.count_due.then_some(StreamRequest::Count {
            count: self.granted_streams,
        })
    }

    /// The frame was put in a packet.
    pub fn on_request_sent(&mut self, request: &StreamRequest) -> SentControl {
        match *request {
            StreamRequest::Cancel { stream, .. } => {
                self.cancels_due.remove(&stream);
                if let Some((send, _)) = self.send.get_mut(&stream) {
                    send.set_cancel_delivery(Delivery::Sent);
                }
                SentControl::Cancel(stream)
            }
            StreamRequest::Stop { stream, .. } => {
                if let Some(stop) = self.stops.get_mut(&stream) {
                    stop.delivery = Delivery::Sent;
                }
                SentControl::Stop(stream)
            }
            StreamRequest::Limit { stream, .. } => {
                self.limits_due.remove(&stream);
                SentControl::Limit(stream)
            }
            StreamRequest::Count { count } => {
                self.count_due = false;
                SentControl::Count(count)
            }
        }
    }

    /// The packet with a control frame was acknowledged.
    pub fn on_control_acked(&mut self, control: SentControl) {
        match control {
            SentControl::Cancel(id) => {
                if let Some((stream, _)) = self.send.get_mut(&id) {
                    stream.set_cancel_delivery(Delivery::Acked);
                    self.settle(id);
                }
            }
            SentControl::Stop(id) => {
                if let Some(stop) = self.stops.get_mut(&id) {
                    stop.delivery = Delivery::Acked;
                }
            }
            SentControl::Limit(_) | SentControl::Count(_) => {}
        }
    }

    /// The packet with a control frame was lost: it is sent again unless it has lost its meaning.
    pub fn on_control_lost(&mut self, control: SentControl) {
        match control {
            SentControl::Cancel(id) => {
                if let Some((stream, _)) = self.send.get_mut(&id)
                    && stream.cancel_delivery() == Delivery::Sent
                {
                    stream.set_cancel_delivery(Delivery::Pending);
                    self.cancels_due.insert(id);
                }
            }
            SentControl::Stop(id) => {
                if let Some(stop) = self.stops.get_mut(&id)
                    && stop.delivery == Delivery::Sent
                {
                    stop.delivery = Delivery::Pending;
                }
            }
            SentControl::Limit(id) => {
                if self
                    .recv
                    .get(&id)
                    .is_some_and(|stream| !stream.is_complete() && !stream.is_stopped())
                {
                    self.limits_due.insert(id);
                }
            }
            SentControl::Count(count) => {
                self.count_due |= count == self.granted_streams;
            }
        }
    }

    /// The stream whose data goes into the next packet.
    pub fn next_sender(&self) -> Option<StreamId> {
        self.scheduler.next()
    }

    /// Bytes that stream `id` could send now.
    pub fn sendable(&self, id: StreamId) -> u64 {
        self.send.get(&id).map_or(0, |(stream, _)| stream.sendable())
    }

    /// The sending stream `id`.
    pub fn sender(&mut self, id: StreamId) -> Option<&mut SendStream> {
        self.send.get_mut(&id).map(|(stream, _)| stream)
    }

    /// Takes the next segment, of at most `max` bytes, of stream `id`; it counts as sent.
    pub fn take_segment(&mut self, id: StreamId, max: u64) -> Option<Segment> {
        let (stream, _) = self.send.get_mut(&id)?;
        let segment = stream.next_segment(max)?;
        self.refresh(id);
        Some(segment)
    }

    /// Copies the bytes of a segment of stream `id` behind `out`.
    pub fn copy_segment(&mut self, id: StreamId, range: &Range<u64>, out: &mut Vec<u8>) {
        if let Some((stream, _)) = self.send.get_mut(&id) {
            stream.copy_range(range, out);
        }
    }

    /// A packet was filled from stream `id`.
    pub fn charge(&mut self, id: StreamId, now: Timestamp) {
        if let Some((stream, _)) = self.send.get(&id) {
            self.scheduler.charge(stream.priority, now);
        }
    }

    /// A packet with data of a stream was acknowledged.
    pub fn on_data_acked(&mut self, id: StreamId, range: Range<u64>, fin: bool) {
        let Some((stream, _)) = self.send.get_mut(&id) else {
            return;
        };
        let freed = stream.on_acked(range, fin);
        self.refresh(id);
        self.free_send(freed);
        self.settle(id);
    }

    /// A packet with data of a stream was lost. Returns the bytes that are to be sent again.
    pub fn on_data_lost(&mut self, id: StreamId, range: Range<u64>, fin: bool) -> u64 {
        let Some((stream, _)) = self.send.get_mut(&id) else {
            return 0;
        };
        let before = stream.sendable();
        stream.on_lost(range, fin);
        let again = stream.sendable() - before;
        self.refresh(id);
        again
    }

    /// Forgets a sending stream that is done.
    pub(super) fn settle(&mut self, id: StreamId) {
        let Some((stream, demand)) = self.send.get(&id) else {
            return;
        };
        if !stream.is_done() {
            return;
        }
        if stream.cancelled().is_none() {
            self.events.push_back(StreamEvent::Finished(id));
        }
        let (priority, demand) = (stream.priority, *demand);
        self.scheduler.update(id, priority, demand, Demand::default());
        self.blocked.remove(&id);
        self.send.remove(&id);
    }

    pub(super) fn free_send(&mut self, freed: u64) {
        self.send_buffered -= freed;
        if freed == 0 || self.blocked.is_empty() {
            return;
        }
        let total_room = self.send_buffered < self.limits.send_buffer_total.bytes();
        let own = self.limits.send_buffer.bytes();
        let send = &self.send;
        let ready: Vec<_> = self
            .blocked
            .iter()
            .copied()
            .filter(|id| {
                send.get(id).is_some_and(|(stream, _)| {
                    // An eighth of a buffer at a time, or the user is woken for every packet; with more, a sender that waits for the
                    // repair of one hole runs dry.
                    let low = stream.buffered() <= own - own / 8;
                    low && (total_room || stream.buffered() < GUARANTEED_SEND_BUFFER / 2)
                })
            })
            .collect();
        for id in ready {
            self.blocked.remove(&id);
            self.announce_event(false, id);
        }
    }

    pub(super) fn announce_event(&mut self, readable: bool, id: StreamId) {
        if self.announced.insert((readable, id)) {
            self.events.push_back(if readable {
                StreamEvent::Readable(id)
            } else {
                StreamEvent::Writable(id)
            });
        }
    }

    /// Tells the scheduler what a stream has to send now.
    pub(super) fn refresh(&mut self, id: StreamId) {
        if let Some((stream, demand)) = self.send.get_mut(&id) {
            let now = Demand {
                retransmission: stream.has_retransmission(),
                new: stream.has_new(),
                remaining: stream.remaining(),
            };
            let before = std::mem::replace(demand, now);
            self.scheduler.update(id, stream.priority, before, now);
        }
    }
}
