//! A TCP sender with CUBIC (RFC 9438) and endless data, and its receiver: competing traffic for sessions.
//!
//! Packets are numbered as in QUIC, and acknowledgements contain the state of the last 128, so that a loss is
//! detected exactly (as with SACK) after three later packets. There is no HyStart, no pacing and no receive
//! window, so that the sender fills the buffer.
use std::{collections::BTreeMap, time::Duration};

use longhaul_types::Timestamp;

/// Sizes of an Ethernet packet, and of an acknowledgement with SACK and timestamps.
pub(crate) const SEGMENT: u64 = 1500;
pub(crate) const ACK: u64 = 76;
/// Number of later packets after which a missing packet is declared lost (RFC 9002 section 6.1.1).
pub(crate) const THRESHOLD: u64 = 3;
/// Constants of RFC 9438 section 4.1: C in packets/s³, and β.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Initial window in packets (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0;
/// Minimum retransmission timeout, as in Linux.
pub(crate) const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    largest: u64,
    /// Bit n is set if packet `largest - n` was received.
    came: u128,
}

impl Ack {
    /// Number of the newest packet that was received.
    pub(crate) const fn largest(&self) -> u64 {
        self.largest
    }

    /// Returns true if it acknowledges this packet.
    pub(crate) const fn has(&self, number: u64) -> bool {
        let behind = self.largest.saturating_sub(number);
        number <= self.largest && behind < 128 && self.came >> behind & 1 == 1
    }
}

/// The receiver, which acknowledges every second packet, and packets out of order at once.
#[derive(Debug, Default)]
pub(crate) struct CubicReceiver {
    largest: Option<u64>,
    came: u128,
    owed: u32,
    pub(crate) packets: u64,
}

impl CubicReceiver {
    pub(crate) fn on_packet(&mut self, number: u64, ack_now: bool) -> Option<Ack> {
        let expected = self.largest.map_or(0, |largest| largest + 1);
        match number.checked_sub(self.largest.unwrap_or(0)) {
            Some(ahead) => {
                let shift = u32::try_from(ahead).unwrap_or(u32::MAX);
                self.came = self.came.checked_shl(shift).unwrap_or(0) | 1;
                self.largest = Some(number);
            }
            None => return None,
        }
        self.packets += 1;
        self.owed += 1;
        let due = self.owed >= 2 || number != expected || ack_now;
        due.then(|| {
            self.owed = 0;
            Ack {
                largest: number,
                came: self.came,
            }
        })
    }
}

/// The sender.
#[derive(Debug)]
pub(crate) struct CubicSender {
    window: f64,
    threshold: f64,
    /// W_max and the start of the epoch.
    before: f64,
    epoch: Option<Timestamp>,
    next: u64,
    in_flight: BTreeMap<u64, Timestamp>,
    smoothed: Option<(Duration, Duration)>,
    /// Losses of packets below this number belong to the last reduction.
    recover: u64,
    progress_at: Timestamp,
    backoff: u32,
}

impl CubicSender {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            window: INITIAL_WINDOW,
            threshold: f64::INFINITY,
            before: 0.0,
            epoch: None,
            next: 0,
            in_flight: BTreeMap::new(),
            smoothed: None,
            recover: 0,
            progress_at: now,
            backoff: 0,
        }
    }

    /// The number of the next packet that may be sent now, and whether it requires an acknowledgement at
    /// once.
    pub(crate) fn poll(&mut self, now: Timestamp) -> Option<(u64, bool)> {
        let flight = self.in_flight.len() as f64;
        if flight >= self.window.max(1.0) {
            return None;
        }
        if self.in_flight.is_empty() {
            self.progress_at = now;
        }
        let number = self.next;
        self.next += 1;
        self.in_flight.insert(number, now);
        Some((number, flight < 2.0))
    }

    fn timeout(&self) -> Duration {
        let usual = self
            .smoothed
            .map_or(Duration::from_secs(1), |(srtt, variation)| srtt + variation * 4);
        usual.max(LEAST_TIMEOUT) * (1 << self.backoff.min(6))
    }

    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        (!self.in_flight.is_empty()).then(|| self.progress_at + self.timeout())
    }

    /// Retransmission timeout: all packets are lost, and the window becomes one packet.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        if self.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        self.threshold = (self.window / 2.0).max(2.0);
        self.before = self.window;
        self.epoch = None;
        self.window = 1.0;
        self.in_flight.clear();
        self.recover = self.next;
        self.backoff += 1;
        self.progress_at = now;
    }

    pub(crate) fn on_ack(&mut self, now: Timestamp, ack: Ack) {
        let mut acked = 0.0;
        let mut lost = None;
        let below: Vec<u64> = self.in_flight.range(..=ack.largest).map(|(n, _)| *n).collect();
        for number in below {
            let behind = ack.largest - number;
            if behind < 128 && ack.came >> behind & 1 == 1 {
                let sent = self.in_flight.remove(&number);
                acked += 1.0;
                if behind == 0
                    && let Some(sent) = sent
                {
                    self.sample(now - sent);
                }
            } else if behind >= THRESHOLD {
                self.in_flight.remove(&number);
                lost = Some(number);
            }
        }
        if acked > 0.0 {
            self.progress_at = now;
            self.backoff = 0;
        }
        match lost {
            Some(number) if number >= self.recover => self.reduce(),
            _ => self.grow(now, acked),
        }
    }

    fn sample(&mut self, sample: Duration) {
        self.smoothed = Some(match self.smoothed {
            None => (sample, sample / 2),
            Some((srtt, variation)) => (
                (srtt * 7 + sample) / 8,
                (variation * 3 + srtt.abs_diff(sample)) / 4,
            ),
        });
    }

    fn reduce(&mut self) {
        self.recover = self.next;
        // Fast convergence (RFC 9438 section 4.7).
        self.before = if self.window < self.before {
            self.window * (1.0 + BETA) / 2.0
        } else {
            self.window
        };
        self.window = (self.window * BETA).max(2.0);
        self.threshold = self.window;
        self.epoch = None;
    }

    fn grow(&mut self, now: Timestamp, acked: f64) {
        if self.window < self.threshold {
            self.window += acked;
            return;
        }
        let epoch = *self.epoch.get_or_insert(now);
        let rtt = self.smoothed.map_or(0.1, |(srtt, _)| srtt.as_secs_f64());
        let time = (now - epoch).as_secs_f64();
        let start = self.before.max(self.window) * (1.0 - BETA) / C;
        let target = C * (time + rtt - start.cbrt()).powi(3) + self.before.max(self.threshold);
        let reno = self.before * BETA + 3.0 * (1.0 - BETA) / (1.0 + BETA) * time / rtt;
        let target = target.max(reno).clamp(self.window, 1.5 * self.window);
        self.window += acked * ((target - self.window) / self.window).max(0.01 / self.window);
    }
}
