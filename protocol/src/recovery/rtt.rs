//! Smoothed round-trip time as in RFC 9002 section 5, with the smallest sample of a window.
use std::{collections::VecDeque, time::Duration};

use longhaul_types::Timestamp;

/// RTT without a sample and without a profile (RFC 9002 section 6.2.2).
const INITIAL_RTT: Duration = Duration::from_millis(333);
/// Window of the smallest sample: max(30 s, 60 SRTT) (congestion.md section 1).
const MIN_WINDOW: Duration = Duration::from_secs(30);
const MIN_WINDOW_RTTS: u32 = 60;
/// Divisor for the share of a sample that remains after subtraction of the queueing delay.
const LEAST_SHARE: u32 = 10;
/// Maximum number of candidates for the smallest sample.
const MAX_CANDIDATES: usize = 16;

/// Round-trip times of one path.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    smoothed: Duration,
    variation: Duration,
    /// Smoothed difference of successive samples.
    jitter: Duration,
    /// Ascending in time and value.
    minima: VecDeque<(Timestamp, Duration)>,
    latest: Option<(Timestamp, Duration)>,
}

impl RttEstimator {
    /// Creates an estimator that assumes `expected` (the profile's RTT) until the first sample.
    pub fn new(expected: Option<Duration>) -> Self {
        let initial = expected.unwrap_or(INITIAL_RTT);
        // An assumption says less than a profile (RFC 9002 section 6.2.2): with a quarter, the first probes of an unknown
        // GPRS link precede the first feedback.
        let uncertainty = if expected.is_some() { 4 } else { 2 };
        Self {
            smoothed: initial,
            variation: initial / uncertainty,
            jitter: Duration::ZERO,
            minima: VecDeque::new(),
            latest: None,
        }
    }

    /// Records a sample measured at `now`, whose answer had the queueing delay `queue`. The delay is
    /// subtracted for the smallest sample, because a receiver in the middle of a transfer never sees an empty
    /// queue.
    pub fn on_sample(&mut self, now: Timestamp, sample: Duration, queue: Duration) {
        if let Some((_, last)) = self.latest {
            self.jitter = (self.jitter * 7 + last.abs_diff(sample)) / 8;
        }
        if self.latest.is_none() {
            self.smoothed = sample;
            self.variation = sample / 2;
        } else {
            let difference = self.smoothed.abs_diff(sample);
            self.variation = (self.variation * 3 + difference) / 4;
            self.smoothed = (self.smoothed * 7 + sample) / 8;
        }
        self.latest = Some((now, sample));
        let sample = sample.saturating_sub(queue).max(sample / LEAST_SHARE);
        while self.minima.back().is_some_and(|(_, value)| *value >= sample) {
            self.minima.pop_back();
        }
        if self.minima.len() == MAX_CANDIDATES {
            self.minima.pop_back();
        }
        self.minima.push_back((now, sample));
        let window = MIN_WINDOW.max(self.smoothed * MIN_WINDOW_RTTS);
        while self.minima.len() > 1
            && self
                .minima
                .front()
                .is_some_and(|(at, _)| now.saturating_since(*at) > window)
        {
            self.minima.pop_front();
        }
    }

    /// Reduces SRTT and RTTVAR before a packet that is sent after an idle time and takes `sending` at the
    /// known rate: if the last sample is older than 4 SRTT, the queue that it contains has drained.
    pub fn after_idle(&mut self, now: Timestamp, sending: Duration) {
        let (Some(min), Some((at, _))) = (self.min(), self.latest) else {
            return;
        };
        let empty = min + sending;
        if now.saturating_since(at) > self.smoothed * 4 {
            self.smoothed = self.smoothed.min(empty);
            self.variation = self.variation.min(self.smoothed / 4);
        }
    }

    /// Renews the age of the smallest sample at the end of a stall, so that the stall does not age it.
    pub fn on_resume(&mut self, now: Timestamp) {
        if let Some((_, min)) = self.minima.pop_front() {
            self.minima.clear();
            self.minima.push_back((now, min));
        }
    }

    /// SRTT: smoothed RTT.
    pub const fn smoothed(&self) -> Duration {
        self.smoothed
    }
    /// RTTVAR: mean deviation.
    pub const fn variation(&self) -> Duration {
        self.variation
    }
    /// Smoothed difference of successive samples; 0 until there are two.
    pub const fn jitter(&self) -> Duration {
        self.jitter
    }
    /// Smallest sample of the window.
    pub fn min(&self) -> Option<Duration> {
        self.minima.front().map(|(_, value)| *value)
    }
    /// Smallest sample, or the expected RTT before the first sample.
    pub fn min_or_expected(&self) -> Duration {
        self.min().unwrap_or(self.smoothed)
    }
    /// Time of the last sample.
    pub fn last_sample_at(&self) -> Option<Timestamp> {
        self.latest.map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimator_smooths_samples_and_keeps_the_minimum() {
        let mut rtt = RttEstimator::new(Some(Duration::from_millis(660)));
        assert_eq!(rtt.min_or_expected(), Duration::from_millis(660));
        let ms = Duration::from_millis;
        for (at, value) in [(0, 700), (1, 900), (2, 800)] {
            rtt.on_sample(
                Timestamp::ZERO + Duration::from_secs(at),
                ms(value),
                Duration::ZERO,
            );
        }
        assert_eq!(rtt.min(), Some(ms(700)));
        assert!(rtt.smoothed() > ms(700) && rtt.smoothed() < ms(760));
        rtt.on_sample(
            Timestamp::ZERO + Duration::from_secs(100),
            ms(850),
            Duration::ZERO,
        );
        assert_eq!(rtt.min(), Some(ms(850)), "old samples leave the window");
    }

    #[test]
    fn an_idle_time_empties_the_queue_and_a_stall_does_not_age_the_minimum() {
        let (ms, at) = (Duration::from_millis, |s| {
            Timestamp::ZERO + Duration::from_secs(s)
        });
        let mut rtt = RttEstimator::new(None);
        for (second, value) in [(0, 700), (1, 1900), (2, 2000), (3, 1900)] {
            rtt.on_sample(at(second), ms(value), Duration::ZERO);
        }
        let busy = rtt.smoothed();
        rtt.after_idle(at(4), ms(100));
        assert_eq!(rtt.smoothed(), busy, "not idle for long enough");
        rtt.after_idle(at(20), ms(100));
        assert_eq!((rtt.smoothed(), rtt.variation()), (ms(800), ms(200)));
        rtt.on_resume(at(300));
        rtt.on_sample(at(301), ms(1500), Duration::ZERO);
        assert_eq!(rtt.min(), Some(ms(700)));
    }

    #[test]
    fn queueing_delay_is_not_part_of_the_minimum_rtt() {
        let (ms, now) = (Duration::from_millis, Timestamp::ZERO);
        let mut rtt = RttEstimator::new(None);
        rtt.on_sample(now, ms(1600), ms(950));
        assert_eq!((rtt.min(), rtt.smoothed()), (Some(ms(650)), ms(1600)));
        rtt.on_sample(now, ms(1000), ms(3000));
        assert_eq!(
            rtt.min(),
            Some(ms(100)),
            "a queue longer than the sample is a mistake"
        );
    }
}
