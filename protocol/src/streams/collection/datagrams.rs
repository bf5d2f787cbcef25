//! Datagrams beside the streams: the scheduler sees those of a class as one stream of unknown length.
use bytes::Bytes;
use longhaul_types::{Priority, StreamId, Timestamp};

use super::{
    super::{Datagram, Demand},
    Streams,
};

/// The number by which the scheduler knows the datagrams of a class. No stream has it: stream numbers have 62 bits.
const fn turn_of(class: Priority) -> StreamId {
    StreamId(u64::MAX - class.number() as u64)
}

impl Streams {
    /// Queues a datagram.
    pub fn push_datagram(&mut self, now: Timestamp, datagram: Datagram) {
        self.datagrams.push(now, datagram);
        self.refresh_datagrams();
    }

    /// Drops the datagrams that have waited too long.
    pub fn expire_datagrams(&mut self, now: Timestamp) {
        if !self.datagrams.is_empty() {
            self.datagrams.expire(now);
            self.refresh_datagrams();
        }
    }

    /// The class of datagrams that [`Streams::next_sender`] means by this number.
    pub fn datagram_class(&self, sender: StreamId) -> Option<Priority> {
        let number = u8::try_from(u64::MAX - sender.0).ok()?;
        (number < Priority::COUNT).then(|| Priority::new(number))
    }

    /// Length of the next datagram of a class.
    pub fn next_datagram_len(&self, class: Priority) -> Option<usize> {
        self.datagrams.next_len(class)
    }

    /// Returns the next datagram of a class, which is sent now.
    pub fn take_datagram(&mut self, class: Priority) -> Option<Bytes> {
        let bytes = self.datagrams.pop(class);
        self.refresh_datagrams();
        bytes
    }

    /// Drops the next datagram of a class, which fits no packet.
    pub fn drop_datagram(&mut self, class: Priority) {
        self.datagrams.drop_next(class);
        self.refresh_datagrams();
    }

    /// Datagrams that were dropped before they were sent.
    pub const fn dropped_datagrams(&self) -> u64 {
        self.datagrams.dropped()
    }

    /// Reports to the scheduler which classes have datagrams.
    fn refresh_datagrams(&mut self) {
        for (number, demand) in (0..).zip(&mut self.datagram_demand) {
            let class = Priority::new(number);
            let now = Demand {
                new: self.datagrams.next_len(class).is_some(),
                ..Demand::default()
            };
            let before = std::mem::replace(demand, now);
            self.scheduler.update(turn_of(class), class, before, now);
        }
    }
}
