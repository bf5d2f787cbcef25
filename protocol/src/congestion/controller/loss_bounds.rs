//! Upper bounds of queue and window after losses (congestion.md sections 7, 7.1).
use longhaul_types::Timestamp;

use crate::congestion::LossBoundParameters;

/// Bounds after losses. Each bound holds for some seconds, then rises, and is discarded after a minute.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossBounds {
    current: Bounds,
    /// The bound of the queue before the last heavy round.
    kept_queue: Option<QueueBound>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    /// Upper bound of the target queueing delay after a shallow buffer was found.
    queue: Option<QueueBound>,
    /// Upper bound of W.
    window: Option<WindowBound>,
}

#[derive(Clone, Copy, Debug)]
struct QueueBound {
    seconds: f64,
    since: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct WindowBound {
    bytes: f64,
    since: Timestamp,
    /// True if a trial has confirmed the bound.
    is_confirmed: bool,
    /// The bound that the trial has set, or else that of the first heavy round.
    first: f64,
}

impl LossBounds {
    /// Discards old bounds, and the bound of W unless the queue `is_short`: a growing queue is a better signal
    /// than losses.
    pub(super) fn expire(&mut self, parameters: &LossBoundParameters, now: Timestamp, is_short: bool) {
        let is_old = |since| age(now, since) > parameters.discarded_after;
        self.current.queue = self.current.queue.filter(|bound| !is_old(bound.since));
        self.current.window = self
            .current
            .window
            .filter(|bound| is_short && !is_old(bound.since));
    }

    /// Keeps the bounds, before a heavy round changes them.
    pub(super) const fn keep(&mut self) {
        self.kept_queue = self.current.queue;
    }

    /// Withdraws the bounds of the last heavy round, whose losses ended by themselves. The bound of W before it is
    /// discarded, too: losses that end by themselves also explain why they fell during the trial that set this bound.
    pub(super) const fn withdraw(&mut self) {
        self.current.queue = self.kept_queue;
        self.current.window = None;
    }

    pub(super) const fn bound_queue(&mut self, now: Timestamp, seconds: f64) {
        self.current.queue = Some(QueueBound { seconds, since: now });
    }

    /// Bounds W by the result of a trial.
    pub(super) const fn confirm_window(&mut self, now: Timestamp, bytes: f64) {
        self.current.window = Some(WindowBound {
            bytes,
            since: now,
            is_confirmed: true,
            first: bytes,
        });
    }

    /// Bounds W after a heavy round, but not far below the first bound: a policer does not drop packets far below its
    /// rate, so such losses have another cause. The bound remains confirmed if it was.
    pub(super) fn bound_window(&mut self, parameters: &LossBoundParameters, now: Timestamp, bytes: f64) {
        let before = self.current.window;
        let first = before.map_or(bytes, |bound| bound.first);
        self.current.window = Some(WindowBound {
            bytes: bytes.max(parameters.first_share * first),
            since: now,
            is_confirmed: before.is_some_and(|bound| bound.is_confirmed),
            first,
        });
    }

    pub(super) const fn has_window(&self) -> bool {
        self.current.window.is_some()
    }

    /// Upper bound of the target queueing delay in seconds.
    pub(super) fn queue(&self, parameters: &LossBoundParameters, now: Timestamp) -> Option<f64> {
        let bound = self.current.queue?;
        let rises = rises(parameters, parameters.firm_for, age(now, bound.since));
        Some(bound.seconds * parameters.queue_rise.powf(rises))
    }

    /// Upper bound of W in bytes. It rises faster and faster: each rise without heavy losses shows that the bound was
    /// too low.
    pub(super) fn window(&self, parameters: &LossBoundParameters, now: Timestamp) -> f64 {
        self.current.window.map_or(f64::INFINITY, |bound| {
            let firm_for = if bound.is_confirmed {
                parameters.firm_for
            } else {
                parameters.brief_for
            };
            let rises = rises(parameters, firm_for, age(now, bound.since));
            let exponent = rises + parameters.window_acceleration * rises * rises;
            bound.bytes * parameters.window_rise.powf(exponent)
        })
    }
}

fn age(now: Timestamp, since: Timestamp) -> f64 {
    now.saturating_since(since).as_secs_f64()
}

/// Number of times that a bound has risen, in fractions, if it held for `firm_for` seconds.
fn rises(parameters: &LossBoundParameters, firm_for: f64, age: f64) -> f64 {
    ((age - firm_for) / parameters.rise_time).max(0.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::congestion::CongestionParameters;

    const PARAMETERS: &LossBoundParameters = &CongestionParameters::STANDARD.loss_bound;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_bound_holds_and_then_rises_faster_and_faster() {
        let mut bounds = LossBounds::default();
        bounds.confirm_window(at(0), 10_000.0);
        let window = |seconds| bounds.window(PARAMETERS, at(seconds));
        let rises = [10, 12, 14, 16, 18].map(window);
        assert!((rises[0] - 10_000.0).abs() < 1.0, "{rises:?}");
        let factors: Vec<f64> = rises.windows(2).map(|pair| pair[1] / pair[0]).collect();
        assert!(factors.is_sorted() && factors[0] < 1.2, "{factors:?}");
        assert!(window(24) > 30_000.0);
    }

    #[test]
    fn heavy_rounds_far_below_the_first_bound_do_not_lower_it_further() {
        let mut bounds = LossBounds::default();
        bounds.confirm_window(at(0), 100_000.0);
        for (second, bytes) in [(1, 70_000.0), (2, 40_000.0), (3, 10_000.0)] {
            bounds.bound_window(PARAMETERS, at(second), bytes);
        }
        let bound = bounds.window(PARAMETERS, at(3));
        assert!((bound - 50_000.0).abs() < 1.0, "{bound}");
        // Another trial is a reason for less.
        bounds.confirm_window(at(4), 10_000.0);
        bounds.bound_window(PARAMETERS, at(5), 8_000.0);
        assert!(bounds.window(PARAMETERS, at(5)) < 10_000.0);
    }
}
