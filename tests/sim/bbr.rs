//! A TCP sender with BBR (version 1, as in Linux) and endless data: competing traffic for sessions. Packets and
//! acknowledgements are those of [`crate::cubic`]. Losses do not reduce its rate.
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use longhaul_types::Timestamp;

use crate::cubic::{Ack, LEAST_TIMEOUT, THRESHOLD};

/// Pacing gain of the start, 2/ln 2.
const START_GAIN: f64 = 2.885;
/// Pacing gains of the phases of a cycle, each of which lasts a round-trip time.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Window in bandwidth-delay products, and the packets beside it that acknowledgements of two packets need.
const WINDOW_GAIN: f64 = 2.0;
const WINDOW_EXTRA: f64 = 3.0;
/// Rounds over which the largest bandwidth counts.
const BANDWIDTH_ROUNDS: u64 = 10;
/// Growth of the bandwidth in a round below which the pipe may be full, and rounds without it.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Age of the least round-trip time at which it is measured again, with this window and for this time.
const RTT_AGE: Duration = Duration::from_secs(10);
const PROBE_WINDOW: f64 = 4.0;
const PROBE_TIME: Duration = Duration::from_millis(200);
/// Window before the first sample.
const INITIAL_WINDOW: f64 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Start,
    Drain,
    Cycle,
    /// Until this time, once the window is small.
    ProbeRtt(Option<Timestamp>),
}

/// A packet in flight, with what had been delivered when it was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Timestamp,
    delivered: u64,
    delivered_at: Timestamp,
}

/// The sender.
#[derive(Debug)]
pub(crate) struct BbrSender {
    mode: Mode,
    /// Samples in packets/s with their rounds.
    bandwidth: VecDeque<(u64, f64)>,
    round: u64,
    /// Delivered packets at which the next round begins.
    round_ends: u64,
    full_bandwidth: f64,
    full_rounds: u32,
    least_rtt: Option<(Duration, Timestamp)>,
    phase: usize,
    phase_since: Timestamp,
    next: u64,
    in_flight: BTreeMap<u64, Sent>,
    delivered: u64,
    delivered_at: Timestamp,
    /// Time of the next packet by pacing.
    due: Timestamp,
    progress_at: Timestamp,
    backoff: u32,
}

impl BbrSender {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            mode: Mode::Start,
            bandwidth: VecDeque::new(),
            round: 0,
            round_ends: 0,
            full_bandwidth: 0.0,
            full_rounds: 0,
            least_rtt: None,
            phase: 0,
            phase_since: now,
            next: 0,
            in_flight: BTreeMap::new(),
            delivered: 0,
            delivered_at: now,
            due: now,
            progress_at: now,
            backoff: 0,
        }
    }

    fn rate(&self) -> f64 {
        self.bandwidth.iter().map(|sample| sample.1).fold(0.0, f64::max)
    }

    /// Packets of a bandwidth-delay product.
    fn product(&self) -> f64 {
        self.least_rtt
            .map_or(0.0, |(rtt, _)| self.rate() * rtt.as_secs_f64())
    }

    fn window(&self) -> f64 {
        if matches!(self.mode, Mode::ProbeRtt(_)) {
            return PROBE_WINDOW;
        }
        if self.least_rtt.is_none() {
            return INITIAL_WINDOW;
        }
        let gain = if self.mode == Mode::Start {
            START_GAIN
        } else {
            WINDOW_GAIN
        };
        (gain * self.product() + WINDOW_EXTRA).max(PROBE_WINDOW)
    }

    fn gain(&self) -> f64 {
        match self.mode {
            Mode::Start => START_GAIN,
            Mode::Drain => 1.0 / START_GAIN,
            Mode::Cycle => CYCLE[self.phase],
            Mode::ProbeRtt(_) => 1.0,
        }
    }

    /// The number of the next packet that may be sent now, and whether it requires an acknowledgement at once.
    pub(crate) fn poll(&mut self, now: Timestamp) -> Option<(u64, bool)> {
        let flight = self.in_flight.len() as f64;
        if flight >= self.window() || self.due > now {
            return None;
        }
        if self.in_flight.is_empty() {
            self.progress_at = now;
            self.delivered_at = now;
        }
        let number = self.next;
        self.next += 1;
        let sent = Sent {
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
        };
        self.in_flight.insert(number, sent);
        let rate = self.gain() * self.rate();
        if rate > 0.0 {
            self.due = now + Duration::from_secs_f64(1.0 / rate);
        }
        Some((number, flight < 2.0))
    }

    fn timeout_at(&self) -> Timestamp {
        let rtt = self.least_rtt.map_or(Duration::from_secs(1), |(rtt, _)| rtt * 3);
        self.progress_at + rtt.max(LEAST_TIMEOUT) * (1 << self.backoff.min(6))
    }

    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        let may_send = (self.in_flight.len() as f64) < self.window();
        let timeout = (!self.in_flight.is_empty()).then(|| self.timeout_at());
        may_send.then_some(self.due).into_iter().chain(timeout).min()
    }

    /// Retransmission timeout: all packets are lost.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        if !self.in_flight.is_empty() && self.timeout_at() <= now {
            self.in_flight.clear();
            self.backoff += 1;
            self.progress_at = now;
        }
    }

    pub(crate) fn on_ack(&mut self, now: Timestamp, ack: Ack) {
        let below: Vec<_> = self
            .in_flight
            .range(..=ack.largest())
            .map(|(n, sent)| (*n, *sent))
            .collect();
        let mut newest = None;
        for (number, sent) in below {
            if ack.has(number) {
                self.in_flight.remove(&number);
                self.delivered += 1;
                newest = Some(sent);
            } else if ack.largest() - number >= THRESHOLD {
                self.in_flight.remove(&number);
            }
        }
        let Some(sent) = newest else { return };
        self.delivered_at = now;
        self.progress_at = now;
        self.backoff = 0;
        let is_new_round = sent.delivered >= self.round_ends;
        if is_new_round {
            self.round_ends = self.delivered;
            self.round += 1;
        }
        self.sample(now, sent);
        self.advance(now, is_new_round);
    }

    fn sample(&mut self, now: Timestamp, sent: Sent) {
        let interval = now.saturating_since(sent.delivered_at).as_secs_f64();
        let delivered = (self.delivered - sent.delivered) as f64;
        if interval > 0.0 {
            self.bandwidth.push_back((self.round, delivered / interval));
        }
        self.bandwidth
            .retain(|(round, _)| round + BANDWIDTH_ROUNDS > self.round);
        let rtt = now - sent.at;
        let is_old = |since: Timestamp| now.saturating_since(since) > RTT_AGE;
        match self.least_rtt {
            Some((least, _)) if rtt > least && !matches!(self.mode, Mode::ProbeRtt(Some(_))) => {}
            Some((least, since)) if rtt > least && !is_old(since) => {}
            _ => self.least_rtt = Some((rtt, now)),
        }
    }

    fn advance(&mut self, now: Timestamp, is_new_round: bool) {
        let flight = self.in_flight.len() as f64;
        let Some((rtt, since)) = self.least_rtt else {
            return;
        };
        match self.mode {
            Mode::Start if is_new_round => {
                if self.rate() >= self.full_bandwidth * FULL_GROWTH {
                    self.full_bandwidth = self.rate();
                    self.full_rounds = 0;
                } else {
                    self.full_rounds += 1;
                }
                if self.full_rounds >= FULL_ROUNDS {
                    self.mode = Mode::Drain;
                }
            }
            Mode::Drain if flight <= self.product() => self.begin_cycle(now),
            Mode::Cycle if now.saturating_since(since) > RTT_AGE => self.mode = Mode::ProbeRtt(None),
            Mode::Cycle if now.saturating_since(self.phase_since) > rtt => {
                self.phase = (self.phase + 1) % CYCLE.len();
                self.phase_since = now;
            }
            Mode::ProbeRtt(None) if flight <= PROBE_WINDOW => {
                self.mode = Mode::ProbeRtt(Some(now + PROBE_TIME.max(rtt)));
            }
            Mode::ProbeRtt(Some(until)) if now >= until => {
                self.least_rtt = Some((rtt, now));
                self.begin_cycle(now);
            }
            Mode::Start | Mode::Drain | Mode::Cycle | Mode::ProbeRtt(_) => {}
        }
    }

    fn begin_cycle(&mut self, now: Timestamp) {
        self.mode = Mode::Cycle;
        self.phase = 2;
        self.phase_since = now;
    }
}
