//! What a link is like.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount};

use crate::{Arq, Codel, DeliveryTrace, Loss, OutageSchedule, Policer, Probability};

/// How fast the link sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// Always at this rate. A rate of zero never sends.
    Rate(BitRate),
    /// As recorded.
    Trace(DeliveryTrace),
}

/// Packets that take a longer way and may be overtaken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// The share of packets that take it.
    pub share: Probability,
    /// How much longer it takes.
    pub extra_delay: Duration,
    /// Most packets that may overtake one: it arrives right behind this many, however long it would take. 0 means
    /// that none is overtaken.
    pub max_distance: u64,
}

/// One direction of a link.
///
/// # Queue bound
/// `queue` counts every byte that the link has accepted and not finished sending: the waiting packets and the
/// *whole* packet being serialised. A packet is accepted when it fits entirely. A full queue therefore takes exactly
/// `queue * 8 / rate` to send, and a bound below a packet's length never lets that packet through.
/// Packets under way after serialisation do not count.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// How fast it sends.
    pub capacity: Capacity,
    /// One-way propagation delay, after serialisation.
    pub delay: Duration,
    /// Added to the delay, uniform from zero to this, a draw for each packet. The order is kept: a packet that would
    /// arrive before its predecessor arrives with it.
    pub jitter: Duration,
    /// Bound of the drop-tail queue, see above.
    pub queue: ByteCount,
    /// Drops packets that waited too long, in addition to the queue's bound.
    pub codel: Option<Codel>,
    /// Drops packets above a rate before they reach the queue.
    pub policer: Option<Policer>,
    /// The largest packet; none is too large without it.
    pub mtu: Option<ByteCount>,
    /// Loss in transit.
    pub loss: Loss,
    /// Frame loss that the link layer repairs.
    pub arq: Option<Arq>,
    /// Packets that may be overtaken.
    pub reordering: Option<Reordering>,
    /// The share of packets of which a second copy arrives. It occupies no capacity: the copy is made behind the link.
    pub duplication: Probability,
    /// The share of packets that arrive with one bit flipped. Both copies of a duplicated packet have it.
    pub corruption: Probability,
    /// When the link is out.
    pub outages: OutageSchedule,
}

impl LinkConfig {
    /// A link of this capacity, delay and queue bound, and without impairments.
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
