//! Output of the streams, and its acknowledgement and loss.
use std::ops::Range;

use longhaul_types::{StreamId, Timestamp};

use super::{
    super::{Delivery, Demand, Priority, Segment, SendStream, SentControl, StreamEvent, StreamRequest},
    GUARANTEED_SEND_BUFFER, Reported, Streams,
};

impl Streams {
    /// Returns true if a control frame is pending.
    pub fn has_request(&self) -> bool {
        self.count_due
            || !self.cancels_due.is_empty()
            || !self.limits_due.is_empty()
            || self.stops.values().any(|stop| stop.delivery == Delivery::Pending)
    }

    /// Returns the next control frame; it remains the next one until [`Streams::on_request_sent`].
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

    /// Records that a control frame was put into a packet.
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

    /// Records the acknowledgement of a control frame.
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

    /// Records the loss of a control frame; the frame is sent again if it is still valid.
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

    /// The stream whose data is sent in the next packet.
    pub fn next_sender(&self) -> Option<StreamId> {
        self.scheduler.next()
    }

    /// Number of bytes that stream `id` can send now.
    pub fn sendable(&self, id: StreamId) -> u64 {
        self.send.get(&id).map_or(0, |(stream, _)| stream.sendable())
    }

    /// The sending stream `id`.
    pub fn sender(&mut self, id: StreamId) -> Option<&mut SendStream> {
        self.send.get_mut(&id).map(|(stream, _)| stream)
    }

    /// Returns the next segment of stream `id`, at most `max` bytes, and records it as sent.
    pub fn take_segment(&mut self, id: StreamId, max: u64) -> Option<Segment> {
        let (stream, _) = self.send.get_mut(&id)?;
        let segment = stream.next_segment(max)?;
        self.refresh(id);
        Some(segment)
    }

    /// Appends the bytes of a segment of stream `id` to `out`.
    pub fn copy_segment(&mut self, id: StreamId, range: &Range<u64>, out: &mut Vec<u8>) {
        if let Some((stream, _)) = self.send.get_mut(&id) {
            stream.copy_range(range, out);
        }
    }

    /// Records a packet with new data or datagrams of a class for the scheduler.
    pub fn charge(&mut self, class: Priority, now: Timestamp) {
        self.scheduler.charge(class, now);
    }

    /// Records the acknowledgement of stream data.
    pub fn on_data_acked(&mut self, id: StreamId, range: Range<u64>, fin: bool) {
        let Some((stream, _)) = self.send.get_mut(&id) else {
            return;
        };
        let freed = stream.on_acked(range, fin);
        self.refresh(id);
        self.free_send(freed);
        self.cancel_delivered(id);
        self.settle(id);
    }

    /// Records the loss of stream data. Returns the number of bytes to be retransmitted.
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

    /// Removes a sending stream that is complete.
    pub(super) fn settle(&mut self, id: StreamId) {
        let Some((stream, reported)) = self.send.get(&id) else {
            return;
        };
        if !stream.is_done() {
            return;
        }
        if stream.cancelled().is_none() {
            self.events.push_back(StreamEvent::Finished(id));
        }
        let Reported { class, demand } = *reported;
        self.scheduler.update(id, class, demand, Demand::default());
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
                    // An eighth of the buffer at a time: less would wake the user for every packet; with
                    // more, a sender would run out of data while one gap is retransmitted.
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

    /// Reports the current demand of a stream to the scheduler.
    pub(super) fn refresh(&mut self, id: StreamId) {
        if let Some((stream, reported)) = self.send.get_mut(&id) {
            let now = Reported {
                class: stream.priority(),
                demand: Demand {
                    retransmission: stream.has_retransmission(),
                    new: stream.has_new(),
                    remaining: stream.remaining(),
                },
            };
            let mut before = std::mem::replace(reported, now);
            if before.class != now.class {
                self.scheduler
                    .update(id, before.class, before.demand, Demand::default());
                before.demand = Demand::default();
            }
            self.scheduler.update(id, now.class, before.demand, now.demand);
        }
    }
}
