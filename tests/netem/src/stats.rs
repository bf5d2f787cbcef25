//! What a link has done.
use longhaul_types::ByteCount;

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of packets.
    pub packets: u64,
    /// Their bytes on the link.
    pub bytes: ByteCount,
}

impl Count {
    pub(crate) fn add(&mut self, len: u64) {
        self.packets += 1;
        self.bytes += ByteCount::new(len);
    }

    pub(crate) fn remove(&mut self, len: u64) {
        self.packets = self.packets.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(ByteCount::new(len));
    }
}

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// It is larger than the link's MTU.
    TooLarge,
    /// It exceeded the policer's rate.
    Policed,
    /// The queue had no room.
    QueueFull,
    /// CoDel dropped it from the queue.
    Codel,
    /// It was sent during an outage that drops.
    Outage,
    /// The loss model took it.
    Loss,
    /// ARQ gave up on one of its frames.
    Arq,
    /// More packets are under way than the model keeps: the caller does not poll, or the delay is excessive.
    TooManyInFlight,
}

impl DropCause {
    /// All causes.
    pub const ALL: [Self; 8] = [
        Self::TooLarge,
        Self::Policed,
        Self::QueueFull,
        Self::Codel,
        Self::Outage,
        Self::Loss,
        Self::Arq,
        Self::TooManyInFlight,
    ];
}

/// What became of a packet handed to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It waits or is being sent. Whether it arrives is another matter.
    Accepted,
    /// It was dropped at once.
    Dropped(DropCause),
}

/// Counters of a link since its beginning. At any time
/// `offered + duplicated = delivered + dropped + queued + in_flight`, in packets and in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Handed to the link.
    pub offered: Count,
    /// Left the queue: has been serialised, whatever came afterwards.
    pub sent: Count,
    /// Bytes that ARQ sent again.
    pub repeated: ByteCount,
    /// Taken out by the receiver, duplicates included.
    pub delivered: Count,
    /// Second copies made.
    pub duplicated: Count,
    /// Packets of which a bit was flipped, each counted once.
    pub corrupted: Count,
    /// Copies that took the longer way, overtaken or not.
    pub detoured: Count,
    /// In the queue now, the packet being serialised included.
    pub queued: Count,
    /// The most bytes that were in the queue.
    pub queued_max: ByteCount,
    /// Under way now: serialised and not yet taken out.
    pub in_flight: Count,
    dropped: [Count; DropCause::ALL.len()],
}

impl LinkStats {
    /// Dropped for this cause.
    pub fn dropped(&self, cause: DropCause) -> Count {
        self.dropped.get(cause as usize).copied().unwrap_or_default()
    }

    /// Dropped for any cause.
    pub fn dropped_total(&self) -> Count {
        self.dropped.iter().fold(Count::default(), |total, count| Count {
            packets: total.packets + count.packets,
            bytes: total.bytes + count.bytes,
        })
    }

    pub(crate) fn drop_packet(&mut self, cause: DropCause, len: u64) {
        if let Some(count) = self.dropped.get_mut(cause as usize) {
            count.add(len);
        }
    }
}
