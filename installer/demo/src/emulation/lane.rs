//! One direction of the direct hop: segments of byte streams, delivered reliably.
use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use longhaul_netem::{Capacity, Link, LinkConfig, Packet};
use longhaul_types::{ByteCount, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::clock::Clock;

/// Largest segment: what TCP puts into an Ethernet packet.
pub(super) const MAX_SEGMENT: usize = 1448;
/// Headers of a packet: IPv4, and TCP with its time stamps.
const HEADERS: usize = 20 + 32;
/// Segments between streams and model, in turns: few, so that concurrent streams share the link.
const ENTRY: usize = 4;

/// A piece of a stream.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// Position in the stream.
    pub(super) number: u64,
    /// Contents; empty at the end of the stream.
    pub(super) data: Bytes,
    /// True if the segment was lost before.
    pub(super) is_repeated: bool,
    /// Share of the stream's window, free when the sender knows that the receiver has used the segment.
    pub(super) window: Option<Arc<OwnedSemaphorePermit>>,
    /// The stream's receiver.
    pub(super) receiver: mpsc::UnboundedSender<Self>,
}

/// Entrance of a lane.
pub(super) type Entrance = mpsc::Sender<Segment>;

/// One direction of the hop for the segments of all streams.
pub(super) struct Lane {
    link: Link<Sent>,
    clock: Clock,
    entry: mpsc::Receiver<Segment>,
    /// Segments in the link, oldest first. The link keeps their order, so that a missing segment is noticed when a
    /// later one arrives.
    sent: VecDeque<Sent>,
    /// Lost segments and the times of their repetition.
    lost: VecDeque<(Timestamp, Segment)>,
    next: u64,
}

/// A segment with its number on the link.
#[derive(Clone)]
struct Sent {
    number: u64,
    segment: Segment,
}

impl Packet for Sent {
    fn len_on_link(&self) -> ByteCount {
        ByteCount::new((self.segment.data.len() + HEADERS) as u64)
    }

    // Checksums of TCP would find the error; no profile has any.
    fn flip_bit(&mut self, _bit: u64) {}
}

impl Lane {
    /// Creates an idle lane and its entrance.
    pub(super) fn new(config: LinkConfig, seed: u64) -> (Entrance, Self) {
        let (entrance, entry) = mpsc::channel(ENTRY);
        let lane = Self {
            link: Link::new(config, seed),
            clock: Clock::start(),
            entry,
            sent: VecDeque::new(),
            lost: VecDeque::new(),
            next: 0,
        };
        (entrance, lane)
    }

    /// Carries segments until the entrance is closed.
    pub(super) async fn run(mut self) {
        loop {
            let now = self.clock.now();
            self.deliver(now);
            self.repeat(now);
            let has_room = self.has_room();
            // The queue has room again after the transmission of a segment.
            let room = (!has_room).then(|| now + self.segment_time());
            let repetition = self.lost.front().map(|(due, _)| *due).filter(|_| has_room);
            let wake = [self.link.next_event(), room, repetition];
            tokio::select! {
                segment = self.entry.recv(), if has_room => match segment {
                    Some(segment) => self.send(self.clock.now(), segment),
                    None => return,
                },
                () = self.clock.wait(wake.into_iter().flatten().min()) => {}
            }
        }
    }

    fn send(&mut self, now: Timestamp, segment: Segment) {
        let sent = Sent {
            number: self.next,
            segment,
        };
        self.next += 1;
        self.sent.push_back(sent.clone());
        self.link.enqueue(now, sent);
    }

    fn deliver(&mut self, now: Timestamp) {
        while let Some(delivery) = self.link.poll_deliver(now) {
            while let Some(sent) = self.sent.pop_front() {
                if sent.number < delivery.packet.number {
                    self.lose(delivery.arrived, sent.segment);
                } else {
                    // A receiver that is gone needs nothing.
                    let _gone = sent.segment.receiver.send(sent.segment.clone());
                    break;
                }
            }
        }
        let stats = self.link.stats();
        if stats.queued.packets == 0 && stats.in_flight.packets == 0 {
            while let Some(sent) = self.sent.pop_front() {
                self.lose(now, sent.segment);
            }
        }
    }

    /// Repeats a segment when its sender can know of the loss: after the way back.
    fn lose(&mut self, noticed: Timestamp, mut segment: Segment) {
        segment.is_repeated = true;
        self.lost.push_back((noticed + self.link.config().delay, segment));
    }

    fn repeat(&mut self, now: Timestamp) {
        while self.has_room()
            && let Some((due, _)) = self.lost.front()
            && *due <= now
            && let Some((_, segment)) = self.lost.pop_front()
        {
            self.send(now, segment);
        }
    }

    fn has_room(&self) -> bool {
        self.link.stats().queued.bytes + ByteCount::new((MAX_SEGMENT + HEADERS) as u64)
            <= self.link.config().queue
    }

    fn segment_time(&self) -> Duration {
        let segment = ByteCount::new((MAX_SEGMENT + HEADERS) as u64);
        match &self.link.config().capacity {
            Capacity::Rate(rate) => segment / *rate,
            Capacity::Trace(_) => Duration::from_millis(1),
        }
    }
}
