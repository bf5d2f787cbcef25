//! Configuration of a link.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount};

use crate::{Arq, Codel, DeliveryTrace, Loss, OutageSchedule, Policer, Probability};

/// Capacity of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// Constant rate. A rate of zero never sends.
    Rate(BitRate),
    /// Recorded delivery opportunities.
    Trace(DeliveryTrace),
}

/// Reordering: packets that take a longer path and may be overtaken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// Share of packets that take the longer path.
    pub share: Probability,
    /// Additional delay of the longer path.
    pub extra_delay: Duration,
    /// Maximum number of packets that may overtake one packet: it arrives directly after them, whatever its
    /// delay. 0 disables overtaking.
    pub max_distance: u64,
}

/// One direction of a link.
///
/// # Queue bound
/// `queue` counts every byte that the link has accepted and not finished sending: the waiting packets and the
/// *whole* packet being serialised. A packet is accepted if it fits entirely. A full queue therefore takes
/// exactly `queue * 8 / rate` to send, and a bound below a packet's length never admits that packet. Packets
/// in flight after serialisation do not count.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Capacity.
    pub capacity: Capacity,
    /// One-way propagation delay, after serialisation.
    pub delay: Duration,
    /// Jitter added to the delay: uniform from zero to this value, drawn for each packet. The order is kept:
    /// a packet that would arrive before its predecessor arrives together with it.
    pub jitter: Duration,
    /// Bound of the drop-tail queue, see above.
    pub queue: ByteCount,
    /// Drops packets that waited too long, in addition to the bound of the queue.
    pub codel: Option<Codel>,
    /// Drops packets above a rate before they reach the queue.
    pub policer: Option<Policer>,
    /// Maximum packet length; `None` for no maximum.
    pub mtu: Option<ByteCount>,
    /// Packet loss after serialisation.
    pub loss: Loss,
    /// Frame loss that the link layer retransmits.
    pub arq: Option<Arq>,
    /// Reordering of packets.
    pub reordering: Option<Reordering>,
    /// Share of packets that are duplicated. The copy occupies no capacity: it is made after serialisation.
    pub duplication: Probability,
    /// Share of packets that arrive with one inverted bit. Both copies of a duplicated packet have it.
    pub corruption: Probability,
    /// Schedule of outages.
    pub outages: OutageSchedule,
}

impl LinkConfig {
    /// Creates a link of this capacity, delay and queue bound, without impairments.
    pub fn new(capacity: Capacity, delay: Duration, queue: ByteCount) -> Self {
        Self {
            capacity,
            delay,
            jitter: Duration::ZERO,
            queue,
            codel: None,
            policer: None,
            mtu: None,
            loss: Loss::Never,
            arq: None,
            reordering: None,
            duplication: Probability::ZERO,
            corruption: Probability::ZERO,
            outages: OutageSchedule::default(),
        }
    }
}
