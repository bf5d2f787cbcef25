//! Maximum over a sliding window of time.
use std::collections::VecDeque;

use longhaul_types::Timestamp;

/// Maximum filter over a sliding window; insertion costs amortised O(1).
#[derive(Clone, Debug, Default)]
pub struct MaxFilter {
    /// Descending values, ascending times.
    values: VecDeque<(Timestamp, f64)>,
}

/// Maximum number of candidates. A long window with many packets keeps its maximum and loses some accuracy in
/// when smaller values replace it.
const MAX_CANDIDATES: usize = 64;

impl MaxFilter {
    /// Adds a value and drops values older than `window` seconds.
    pub fn push(&mut self, now: Timestamp, value: f64, window: f64) {
        while self.values.back().is_some_and(|(_, last)| *last <= value) {
            self.values.pop_back();
        }
        if self.values.len() == MAX_CANDIDATES {
            self.values.pop_back();
        }
        self.values.push_back((now, value));
        self.expire(now, window);
    }
    /// Drops values older than `window` seconds, except the last value.
    pub fn expire(&mut self, now: Timestamp, window: f64) {
        while self.values.len() > 1
            && self
                .values
                .front()
                .is_some_and(|(at, _)| now.saturating_since(*at).as_secs_f64() > window)
        {
            self.values.pop_front();
        }
    }
    /// The largest value.
    pub fn get(&self) -> Option<f64> {
        self.values.front().map(|(_, value)| *value)
    }
}
