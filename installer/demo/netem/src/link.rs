//! One direction of a link.
mod service;

use std::{collections::VecDeque, time::Duration};

use longhaul_types::{ByteCount, Timestamp};

use crate::{
    Capacity, DelayHistogram, DropCause, Enqueued, LinkConfig, LinkStats, Packet, arq::Transmission,
    busy::BusyLog, codel::CodelControl, flight::Flight, hash::EventHash, loss::LossProcess,
    policer::TokenBucket, random::Streams,
};

/// Maximum number of packets in flight: a second of a link of 10 Gbit/s with packets of 300 bytes. It bounds
/// the memory if the receiver does not poll.
pub const MAX_IN_FLIGHT: usize = 4 * 1024 * 1024;

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// Time at which it was enqueued.
    pub sent: Timestamp,
    /// Time of arrival, at or before the time of the poll.
    pub arrived: Timestamp,
    /// The packet.
    pub packet: P,
}

/// One direction of a link, as [`LinkConfig`] describes it.
///
/// # Usage
/// Add packets with [`enqueue`](Self::enqueue); call [`poll_deliver`](Self::poll_deliver) until it returns
/// `None`; then wait until [`next_event`](Self::next_event) or the next packet, whichever is first. Times
/// must not decrease: a time earlier than a previous one counts as the previous one. A late call loses
/// nothing: all events between two calls happen at their own times, and [`Delivery::arrived`] contains the
/// time.
pub struct Link<P> {
    config: LinkConfig,
    random: Streams,
    loss: LossProcess,
    policer: Option<TokenBucket>,
    codel: Option<CodelControl>,
    now: Timestamp,
    waiting: VecDeque<Waiting<P>>,
    serving: Option<Serving<P>>,
    /// Number of the next opportunity of a trace; valid while the link is backlogged.
    opportunity: u64,
    flight: Flight<P>,
    stats: LinkStats,
    queueing: DelayHistogram,
    busy: BusyLog,
    hash: EventHash,
    /// Sum of sent bytes at which a packet is lost regardless of the random draw, see [`Link::lose_after`].
    forced_loss: Option<u64>,
}

struct Waiting<P> {
    packet: P,
    len: u64,
    entered: Timestamp,
}

/// The packet being serialised.
struct Serving<P> {
    packet: P,
    len: u64,
    entered: Timestamp,
    began: Timestamp,
    transmission: Transmission,
    progress: Progress,
}

enum Progress {
    /// At a constant rate the end is known from the beginning.
    Until(Timestamp),
    /// With a trace, the remaining bytes wait for opportunities.
    BytesLeft(u64),
}

impl<P: Packet> Link<P> {
    /// Creates an idle link. Equal seeds give equal draws.
    pub fn new(config: LinkConfig, seed: u64) -> Self {
        Self::numbered(config, seed, 0)
    }

    /// Creates link number `number` of several links with the same seed; each has its own random streams.
    pub(crate) fn numbered(config: LinkConfig, seed: u64, number: u64) -> Self {
        Self {
            random: Streams::new(seed, number),
            loss: LossProcess::new(config.loss),
            policer: config.policer.map(TokenBucket::new),
            codel: config.codel.map(CodelControl::new),
            config,
            now: Timestamp::ZERO,
            waiting: VecDeque::new(),
            serving: None,
            opportunity: 0,
            flight: Flight::new(),
            stats: LinkStats::default(),
            queueing: DelayHistogram::default(),
            busy: BusyLog::default(),
            hash: EventHash::default(),
            forced_loss: None,
        }
    }

    /// Loses one packet: the packet with which the bytes that the link sends from `now` on reach `bytes`.
    /// Zero bytes select the next packet. A partly sent packet counts as whole. A further call before that
    /// packet is sent replaces this one.
    pub fn lose_after(&mut self, now: Timestamp, bytes: ByteCount) {
        self.advance(now);
        self.forced_loss = Some(self.stats.sent.bytes.bytes().saturating_add(bytes.bytes()));
    }

    /// Adds a packet to the link at `now`.
    pub fn enqueue(&mut self, now: Timestamp, packet: P) -> Enqueued {
        self.advance(now);
        let len = packet.len_on_link().bytes().max(1);
        self.stats.offered.add(len);
        if self.config.mtu.is_some_and(|mtu| len > mtu.bytes()) {
            return self.refuse(DropCause::TooLarge, len);
        }
        if self
            .policer
            .as_mut()
            .is_some_and(|bucket| !bucket.passes(self.now, len))
        {
            return self.refuse(DropCause::Policed, len);
        }
        let queued = self.stats.queued.bytes + ByteCount::new(len);
        if queued > self.config.queue {
            return self.refuse(DropCause::QueueFull, len);
        }
        self.stats.queued.add(len);
        self.stats.queued_max = self.stats.queued_max.max(queued);
        self.hash.enqueued(self.now, len);
        self.waiting.push_back(Waiting {
            packet,
            len,
            entered: self.now,
        });
        if self.serving.is_none() && self.waiting.len() == 1 {
            self.busy.begin(self.now);
            self.wake();
        }
        Enqueued::Accepted
    }

    /// Returns the next packet that has arrived by `now`.
    pub fn poll_deliver(&mut self, now: Timestamp) -> Option<Delivery<P>> {
        self.advance(now);
        let arrived = self.flight.pop_arrived(self.now)?;
        self.stats.in_flight.remove(arrived.len);
        self.stats.delivered.add(arrived.len);
        self.hash.delivered(arrived.arrives, arrived.len);
        Some(Delivery {
            sent: arrived.entered,
            arrived: arrived.arrives,
            packet: arrived.packet,
        })
    }

    /// Returns the time of the next call of [`poll_deliver`](Self::poll_deliver); `None` if nothing can
    /// arrive without a new packet. No packet arrives earlier, but the time may be too early: then the poll
    /// returns `None` and the next event is later.
    pub fn next_event(&self) -> Option<Timestamp> {
        let (in_order, stray) = self.flight.next_arrivals();
        // The packet being serialised arrives after all packets that are in flight in order.
        let arrival = in_order.or_else(|| self.next_departure().map(|at| at + self.config.delay));
        match (arrival, stray) {
            (Some(arrival), Some(stray)) => Some(arrival.min(stray)),
            (arrival, stray) => arrival.or(stray),
        }
        .filter(|at| *at < Timestamp::MAX)
    }

    /// Runs the link up to `now`, so that the counters are current. All other calls do this, too.
    pub fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        if let Capacity::Trace(trace) = &self.config.capacity {
            let trace = trace.clone();
            self.use_opportunities(&trace);
            return;
        }
        while let Some(Progress::Until(end)) = self.serving.as_ref().map(|serving| &serving.progress)
            && *end <= self.now
        {
            let end = *end;
            self.depart(end);
            self.serve_next(end);
        }
    }

    /// Configuration of the link.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Counters as of the last call.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Time that packets waited from their acceptance until their first bit was sent: one sample for each
    /// packet whose sending has begun, since the beginning or the last call of
    /// [`take_queueing_delays`](Self::take_queueing_delays).
    pub fn queueing_delays(&self) -> &DelayHistogram {
        &self.queueing
    }

    /// Returns the queueing delays and starts a new histogram.
    pub fn take_queueing_delays(&mut self) -> DelayHistogram {
        std::mem::take(&mut self.queueing)
    }

    /// Returns the time between `from` and `to` (both past) in which the link was backlogged and not held by
    /// an outage: at a constant rate, the time in which it was sending. With a trace it includes the waiting
    /// time for the next opportunity; compare with [`capacity_between`](Self::capacity_between) in this case.
    ///
    /// `None` if `from` is before the recorded period (the last 65,536 busy periods).
    pub fn busy_between(&self, from: Timestamp, to: Timestamp) -> Option<Duration> {
        self.busy.between(from, to.min(self.now), &self.config.outages)
    }

    /// Returns the bytes that the link could have sent between `from` and `to`, without deduction of outages.
    pub fn capacity_between(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        match &self.config.capacity {
            Capacity::Rate(rate) => *rate * (to - from),
            Capacity::Trace(trace) => trace.capacity_between(from, to),
        }
    }

    /// Returns a hash of all events on the link: acceptances, drops with their causes, and deliveries, with
    /// times and lengths. Equal hashes mean equal runs of a simulation. Not collision resistant against an
    /// adversary.
    pub fn event_hash(&self) -> u64 {
        self.hash.value()
    }

    fn refuse(&mut self, cause: DropCause, len: u64) -> Enqueued {
        self.drop_packet(self.now, cause, len);
        Enqueued::Dropped(cause)
    }

    fn drop_packet(&mut self, at: Timestamp, cause: DropCause, len: u64) {
        self.stats.drop_packet(cause, len);
        self.hash.dropped(at, cause, len);
    }
}
