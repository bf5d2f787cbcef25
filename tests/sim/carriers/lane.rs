//! One direction of a path.
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use longhaul_netem::{Capacity, LinkConfig, Policer};
use longhaul_types::{BitRate, ByteCount, Timestamp};

use crate::random::Random;

/// Headers of IP, UDP or TCP.
const HEADERS: u64 = 40;

/// One direction of a path.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) rate: BitRate,
    pub(super) delay: Duration,
    /// One of so many packets is lost; 0 for none.
    pub(super) loss: u64,
    /// Interval at whose start all packets are lost, and for how long.
    pub(super) bursts: Option<(Duration, Duration)>,
    /// One of so many packets is late.
    pub(super) reordering: u64,
    pub(super) works: bool,
    /// Bytes that wait for transmission at most; more are lost.
    pub(super) queue: Option<u64>,
    /// Packets above its rate are lost before they reach the queue.
    pub(super) policer: Option<Policer>,
    /// Time at which the policer's bucket is full again.
    pub(super) bucket_full_at: Timestamp,
    pub(super) free_at: Timestamp,
    /// Packets that wait for transmission, with the time of its end.
    pub(super) unsent: VecDeque<(Timestamp, usize)>,
    pub(super) flying: BTreeMap<(Timestamp, u64), Vec<u8>>,
    pub(super) carried: u64,
}

impl Lane {
    pub(super) fn new(random: &mut Random) -> Self {
        Self {
            rate: BitRate::bps(200_000 + random.below(8_000_000)),
            delay: Duration::from_millis(5) + random.time(Duration::from_millis(200)),
            loss: 0,
            bursts: None,
            reordering: 0,
            works: true,
            queue: None,
            policer: None,
            bucket_full_at: Timestamp::ZERO,
            free_at: Timestamp::ZERO,
            unsent: VecDeque::new(),
            flying: BTreeMap::new(),
            carried: 0,
        }
    }

    /// A direction of a link of the benchmark, with its queue.
    pub(super) fn of(config: &LinkConfig) -> Self {
        let Capacity::Rate(rate) = config.capacity else {
            panic!("a link of constant rate");
        };
        Self {
            rate,
            delay: config.delay + config.jitter / 2,
            queue: Some(config.queue.bytes()),
            ..Self::new(&mut Random::new(0, 0))
        }
    }

    /// The same direction for a carrier, whose own queue never overflows.
    pub(super) fn ordered(&self) -> Self {
        Self {
            rate: self.rate,
            delay: self.delay,
            ..Self::new(&mut Random::new(0, 0))
        }
    }

    /// True if the policer lets `bytes` pass.
    fn is_within_rate(&mut self, now: Timestamp, bytes: u64) -> bool {
        let Some(Policer { rate, burst }) = self.policer else {
            return true;
        };
        let full_at = self.bucket_full_at.max(now) + ByteCount::new(bytes) / rate;
        let passes = full_at <= now + burst / rate;
        if passes {
            self.bucket_full_at = full_at;
        }
        passes
    }

    pub(super) fn send(&mut self, now: Timestamp, packet: Vec<u8>, random: &mut Random) {
        if !self.is_within_rate(now, packet.len() as u64 + HEADERS) {
            return;
        }
        let waiting = (self.rate * self.free_at.saturating_since(now)).bytes();
        if self
            .queue
            .is_some_and(|queue| waiting + packet.len() as u64 + HEADERS > queue)
        {
            return;
        }
        self.free_at = self.free_at.max(now) + ByteCount::new(packet.len() as u64 + HEADERS) / self.rate;
        self.carried += 1;
        let is_in_burst = self.bursts.is_some_and(|(interval, burst)| {
            let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
            Duration::from_nanos(now.as_nanos() % interval) < burst
        });
        let lost = !self.works || is_in_burst || self.loss > 0 && random.one_in(self.loss);
        if lost || self.free_at.saturating_since(now) > Duration::from_secs(2) && self.loss > 0 {
            return;
        }
        let late = self.reordering > 0 && random.one_in(self.reordering);
        let extra = if late {
            random.time(Duration::from_millis(30))
        } else {
            Duration::ZERO
        };
        self.unsent.push_back((self.free_at, packet.len()));
        self.flying
            .insert((self.free_at + self.delay + extra, self.carried), packet);
    }

    pub(super) fn unsent(&mut self, now: Timestamp) -> usize {
        while self.unsent.front().is_some_and(|(at, _)| *at <= now) {
            self.unsent.pop_front();
        }
        self.unsent.iter().map(|(_, len)| len).sum()
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
        // The end of a transmission makes space on a link.
        let sent = self.unsent.front().map(|(at, _)| *at);
        arrival.into_iter().chain(sent).min()
    }

    pub(super) fn arrived(&mut self, now: Timestamp) -> Vec<Vec<u8>> {
        self.unsent(now);
        let later = self.flying.split_off(&(now + Duration::from_nanos(1), 0));
        std::mem::replace(&mut self.flying, later).into_values().collect()
    }

    /// Interrupts an ordered lane: everything is late by this time.
    pub(super) fn pause(&mut self, now: Timestamp, time: Duration) {
        self.free_at = self.free_at.max(now) + time;
        let late = std::mem::take(&mut self.flying).into_iter();
        self.flying = late
            .map(|((at, number), packet)| ((at + time, number), packet))
            .collect();
        for (at, _) in &mut self.unsent {
            *at += time;
        }
    }
}
