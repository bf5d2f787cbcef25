//! Delivery rate of incoming data and its variability (congestion.md section 4).
use std::collections::VecDeque;

use longhaul_types::Timestamp;

use super::{FULL_PACKET_BYTES, MaxFilter, byte_rate::LEAST_RATE, parameters::RateParameters};

/// Maximum number of arrivals kept for the rate; at 100 Mbit/s and 60 ms there are 600.
const MAX_ARRIVALS: usize = 8192;

#[derive(Clone, Debug)]
pub(super) struct RateMeter {
    parameters: &'static RateParameters,
    arrivals: VecDeque<(Timestamp, f64)>,
    in_interval: f64,
    /// Start of the current busy period and the bytes of its first packet. The rate counts from the first
    /// arrival; otherwise every start would look slow until the interval is over.
    busy_from: (Timestamp, f64),
    /// r: delivery rate over the interval in byte/s.
    pub(super) current: f64,
    max: MaxFilter,
    /// C: estimated capacity in byte/s; the profile's rate at first, then the rate that a backlogged sender
    /// reached.
    pub(super) capacity: f64,
    samples: VecDeque<f64>,
    sampled_at: Timestamp,
    /// True once an interval contained enough arrivals for a rate.
    is_measured: bool,
}

impl RateMeter {
    pub(super) fn new(parameters: &'static RateParameters, capacity: f64) -> Self {
        Self {
            parameters,
            arrivals: VecDeque::new(),
            in_interval: 0.0,
            busy_from: (Timestamp::ZERO, 0.0),
            current: 0.0,
            max: MaxFilter::default(),
            capacity,
            samples: VecDeque::new(),
            sampled_at: Timestamp::ZERO,
            is_measured: false,
        }
    }

    /// Interval in seconds over which r is measured.
    pub(super) fn interval(&self, rtt: f64) -> f64 {
        let parameters = self.parameters;
        let packet_time = FULL_PACKET_BYTES / self.max().max(LEAST_RATE);
        rtt.max(parameters.interval_least)
            .max(parameters.interval_packets * packet_time)
            .min(parameters.interval_longest)
    }

    pub(super) fn on_arrival(&mut self, now: Timestamp, size: f64, rtt: f64, memory: f64) {
        let interval = self.interval(rtt);
        self.arrivals.push_back((now, size));
        self.in_interval += size;
        while self.arrivals.len() > MAX_ARRIVALS
            || self
                .arrivals
                .front()
                .is_some_and(|(at, _)| now.saturating_since(*at).as_secs_f64() > interval)
        {
            if let Some((_, size)) = self.arrivals.pop_front() {
                self.in_interval -= size;
            }
        }
        if self.arrivals.len() == 1 {
            self.busy_from = (now, size);
        }
        let (busy_from, first) = self.busy_from;
        let busy = now.saturating_since(busy_from).as_secs_f64();
        let is_early = busy < interval
            && count(self.arrivals.len()) >= self.parameters.early_arrivals
            && busy > self.parameters.early_time;
        self.current = if is_early {
            (self.in_interval - first) / busy
        } else {
            self.in_interval / interval
        };
        self.is_measured |= count(self.arrivals.len()) >= self.parameters.early_arrivals;
        self.max.push(now, self.current, memory);
    }

    /// True once an interval contained as many arrivals as an early rate needs: the rate of single packets
    /// says when they were sent, not what the link carries.
    pub(super) const fn is_measured(&self) -> bool {
        self.is_measured
    }

    /// rmax: the largest r of its window or, if the window is empty, the last r; the capacity before the
    /// first arrival.
    pub(super) fn max(&self) -> f64 {
        self.max.get().unwrap_or(self.capacity)
    }

    /// Sets C to an estimate; before the first data, the rates of single packets are discarded.
    pub(super) fn adopt(&mut self, capacity: f64, is_before_data: bool) {
        self.capacity = capacity;
        if is_before_data {
            self.max = MaxFilter::default();
        }
    }

    /// Updates C from rmax if rmax is larger or the sender was backlogged for longer than the window of rmax.
    pub(super) fn learn(&mut self, backlogged_for: f64, memory: f64) {
        let max = self.max.get().unwrap_or(0.0);
        if max > self.capacity || backlogged_for > memory {
            self.capacity = max;
        }
    }

    pub(super) fn sample_variability(&mut self, now: Timestamp, rtt: f64) {
        if now.saturating_since(self.sampled_at).as_secs_f64() < rtt.max(self.parameters.sample_interval) {
            return;
        }
        self.sampled_at = now;
        if count(self.samples.len()) >= self.parameters.samples {
            self.samples.pop_front();
        }
        self.samples.push_back(self.current);
    }

    /// cv = mean |difference of successive samples| / mean sample.
    pub(super) fn variability(&self) -> f64 {
        let samples = count(self.samples.len());
        if samples < self.parameters.samples_least {
            return 0.0;
        }
        let mean = self.samples.iter().sum::<f64>() / samples;
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1));
        let change = pairs.map(|(sample, next)| (sample - next).abs()).sum::<f64>() / (samples - 1.0);
        if mean > 0.0 { change / mean } else { 0.0 }
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most 8192")]
const fn count(number: usize) -> f64 {
    number as f64
}
