//! The time that transcoding takes on this machine, compared with the estimate.
//!
//! The estimate is that of an idle processor of one kind. Others are slower, share their cores with other programs, or
//! have to start a worker first.
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Weight of a new observation.
const WEIGHT: f64 = 0.25;
/// Bounds of the factor.
const LEAST: f64 = 0.25;
const MOST: f64 = 16.0;
/// Time constant with which old observations lose weight. A gateway that transcodes nothing because it was busy tries
/// again.
const MEMORY: Duration = Duration::from_secs(60);

/// Mean quotient of measured and estimated time.
#[derive(Debug, Default)]
pub(super) struct TranscodeSpeed(Mutex<Option<Observed>>);

#[derive(Clone, Copy, Debug)]
struct Observed {
    factor: f64,
    at: Instant,
}

impl TranscodeSpeed {
    /// The estimate, corrected by what was observed.
    pub(super) fn scaled(&self, estimate: Duration, now: Instant) -> Duration {
        estimate.mul_f64(self.factor(now))
    }

    /// Records that a transcoding took this time. `estimate` is the time without correction.
    pub(super) fn observe(&self, estimate: Duration, took: Duration, now: Instant) {
        if estimate.is_zero() {
            return;
        }
        let one = (took.as_secs_f64() / estimate.as_secs_f64()).clamp(LEAST, MOST);
        let before = self.factor(now);
        *self.0.lock() = Some(Observed {
            factor: before + WEIGHT * (one - before),
            at: now,
        });
    }

    fn factor(&self, now: Instant) -> f64 {
        let Some(Observed { factor, at }) = *self.0.lock() else {
            return 1.0;
        };
        let age = now.saturating_duration_since(at).as_secs_f64();
        1.0 + (factor - 1.0) * (-age / MEMORY.as_secs_f64()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ESTIMATE: Duration = Duration::from_millis(100);

    #[test]
    fn a_slow_machine_is_noticed_within_a_few_images() {
        let (speed, now) = (TranscodeSpeed::default(), Instant::now());
        assert_eq!(speed.scaled(ESTIMATE, now), ESTIMATE);
        for _ in 0..8 {
            speed.observe(ESTIMATE, ESTIMATE * 4, now);
        }
        let scaled = speed.scaled(ESTIMATE, now).as_millis();
        assert!((350..=400).contains(&scaled), "{scaled}");
        // One image that waited for a program says little.
        let other = TranscodeSpeed::default();
        other.observe(ESTIMATE, Duration::from_secs(60), now);
        assert!(other.scaled(ESTIMATE, now) < ESTIMATE * 5);
    }

    #[test]
    fn observations_are_forgotten() {
        let (speed, now) = (TranscodeSpeed::default(), Instant::now());
        speed.observe(ESTIMATE, ESTIMATE * 9, now);
        let later = speed.scaled(ESTIMATE, now + MEMORY * 10).as_millis();
        assert_eq!(later, 100);
        speed.observe(Duration::ZERO, ESTIMATE, now);
    }
}
