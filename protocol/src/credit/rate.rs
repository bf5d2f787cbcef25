//! The delivery rate of incoming data and its variability (credit.md 4).
use std::collections::VecDeque;

use longhaul_types::Timestamp;

use super::{FULL_PACKET, MaxFilter};

/// Arrivals kept for the rate's window; at 100 Mbit/s and 60 ms they are 600.
const MAX_ARRIVALS: usize = 8192;
/// Samples of the variability.
const VARIABILITY_SAMPLES: usize = 40;

#[derive(Clone, Debug)]
pub(super) struct RateMeter {
    arrivals: VecDeque<(Timestamp, f64)>,
    in_window: f64,
    /// Start of the present busy period and the bytes of its first packet: its rate counts from the first arrival, else
    /// every start would look slow until the window is full.
    busy_from: (Timestamp, f64),
    /// Bytes per second over the window.
    pub(super) current: f64,
    max: MaxFilter,
    /// The rate that the link is believed to have: the profile's, then what a backlogged sender got through.
    pub(super) capacity: f64,
    samples: VecDeque<f64>,
    sampled_at: Timestamp,
}

impl RateMeter {
    pub(super) fn new(capacity: f64) -> Self {
        Self {
            arrivals: VecDeque::new(),
            in_window: 0.0,
            busy_from: (Timestamp::ZERO, 0.0),
            current: 0.0,
            max: MaxFilter::default(),
            capacity,
            samples: VecDeque::new(),
            sampled_at: Timestamp::ZERO,
        }
    }

    /// The time over which r is taken.
    pub(super) fn window(&self, rtt: f64) -> f64 {
        let packet_time = FULL_PACKET / self.max().max(1.0);
        rtt.max(0.07).max(4.0 * packet_time).min(10.0)
    }

    pub(super) fn on_arrival(&mut self, now: Timestamp, size: f64, rtt: f64, memory: f64) {
        let window = self.window(rtt);
        self.arrivals.push_back((now, size));
        self.in_window += size;
        while self.arrivals.len() > MAX_ARRIVALS
            || self
                .arrivals
                .front()
                .is_some_and(|(at, _)| now.saturating_since(*at).as_secs_f64() > window)
        {
            if let Some((_, size)) = self.arrivals.pop_front() {
                self.in_window -= size;
            }
        }
        if self.arrivals.len() == 1 {
            self.busy_from = (now, size);
        }
        let (busy_from, first) = self.busy_from;
        let busy = now.saturating_since(busy_from).as_secs_f64();
        self.current = if busy >= window {
            self.in_window / window
        } else if self.arrivals.len() >= 4 && busy > 0.03 {
            (self.in_window - first) / busy
        } else {
            self.in_window / window
        };
        self.max.push(now, self.current, memory);
    }

    /// The largest rate of the last max(1.05 s, 4 R), or the last one there was; before any, the assumed one.
    pub(super) fn max(&self) -> f64 {
        self.max.get().unwrap_or(self.capacity)
    }

    /// Learns the link's rate from a sender that has more to send for longer than the window.
    pub(super) fn learn(&mut self, backlogged_for: f64, memory: f64) {
        let max = self.max.get().unwrap_or(0.0);
        if max > self.capacity || backlogged_for > memory {
            self.capacity = max;
        }
    }

    pub(super) fn sample_variability(&mut self, now: Timestamp, rtt: f64) {
        if now.saturating_since(self.sampled_at).as_secs_f64() < rtt.max(0.1) {
            return;
        }
        self.sampled_at = now;
        if self.samples.len() == VARIABILITY_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(self.current);
    }

    /// cv = mean |difference of successive samples| / mean sample.
    #[expect(clippy::cast_precision_loss, reason = "at most 40 samples")]
    pub(super) fn variability(&self) -> f64 {
        let count = self.samples.len();
        if count < 4 {
            return 0.0;
        }
        let mean = self.samples.iter().sum::<f64>() / count as f64;
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1));
        let change = pairs.map(|(a, b)| (a - b).abs()).sum::<f64>() / (count - 1) as f64;
        if mean > 0.0 { change / mean } else { 0.0 }
    }
}
