//! Counters of a link.
use longhaul_types::ByteCount;

/// Number of packets and of their bytes.
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

/// Causes of packet drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// The packet exceeds the link's MTU.
    TooLarge,
    /// The packet exceeds the policer's rate.
    Policed,
    /// The queue has no room.
    QueueFull,
    /// CoDel dropped the packet from the queue.
    Codel,
    /// The packet was sent during an outage that drops packets.
    Outage,
    /// The loss model lost the packet.
    Loss,
    /// ARQ reached the maximum number of transmissions of a frame.
    Arq,
    /// The number of packets in flight exceeds the model's maximum: the caller does not poll, or the delay is
    /// excessive.
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

/// Result of adding a packet to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// The packet waits or is being sent. It may still be lost.
    Accepted,
    /// The packet was dropped at once.
    Dropped(DropCause),
}

/// Counters of a link since its beginning. At any time `offered + duplicated = delivered + dropped + queued +
/// in_flight`, in packets and in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets added to the link.
    pub offered: Count,
    /// Packets that left the queue and were serialised, including those that were lost afterwards.
    pub sent: Count,
    /// Bytes that ARQ retransmitted.
    pub repeated: ByteCount,
    /// Packets taken by the receiver, including duplicates.
    pub delivered: Count,
    /// Copies made by duplication.
    pub duplicated: Count,
    /// Packets with an inverted bit, each counted once.
    pub corrupted: Count,
    /// Packets that took the longer path, overtaken or not.
    pub detoured: Count,
    /// Packets in the queue now, including the packet being serialised.
    pub queued: Count,
    /// Maximum number of bytes in the queue so far.
    pub queued_max: ByteCount,
    /// Packets in flight now: serialised and not yet taken by the receiver.
    pub in_flight: Count,
    dropped: [Count; DropCause::ALL.len()],
}

impl LinkStats {
    /// Returns the packets dropped for this cause.
    pub fn dropped(&self, cause: DropCause) -> Count {
        self.dropped.get(cause as usize).copied().unwrap_or_default()
    }

    /// Returns the packets dropped for any cause.
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
