//! Delivery rate of incoming data and its variability (congestion.md section 4).
use std::collections::VecDeque;

use longhaul_types::Timestamp;

use super::{FULL_PACKET, MaxFilter};

/// Maximum number of arrivals kept for the rate; at 100 Mbit/s and 60 ms there are 600.
const MAX_ARRIVALS: usize = 8192;
/// Maximum number of samples of the variability.
const VARIABILITY_SAMPLES: usize = 40;

#[derive(Clone, Debug)]
pub(super) struct RateMeter {
    arrivals: VecDeque<(Timestamp, f64)>,
    in_window: f64,
    /// Start of the current busy period and the bytes of its first packet. The rate counts from the first
    /// arrival; otherwise every start would look slow until the window is full.
    busy_from: (Timestamp, f64),
    /// r: delivery rate over the window in byte/s.
    pub(super) current: f64,
    max: MaxFilter,
    /// C: estimated capacity in byte/s; the profile's rate at first, then the rate that a backlogged sender
    /// reached.
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

    /// Interval in seconds over which r is measured.
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

    /// rmax: the largest r of its window or, if the window is empty, the last r; the capacity before the
    /// first arrival.
    pub(super) fn max(&self) -> f64 {
        self.max.get().unwrap_or(self.capacity)
    }

    /// Updates C from rmax if rmax is larger or the sender was backlogged for longer than the window of rmax.
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
