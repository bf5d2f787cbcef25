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
        });
    }

    /// Bounds W after a heavy round; the bound remains confirmed if it was.
    pub(super) fn bound_window(&mut self, now: Timestamp, bytes: f64) {
        let is_confirmed = self.current.window.is_some_and(|bound| bound.is_confirmed);
        self.current.window = Some(WindowBound {
            bytes,
            since: now,
            is_confirmed,
        });
    }

    pub(super) const fn has_window(&self) -> bool {
        self.current.window.is_some()
    }

    /// Upper bound of the target queueing delay in seconds.
    pub(super) fn queue(&self, parameters: &LossBoundParameters, now: Timestamp) -> Option<f64> {
        let bound = self.current.queue?;
        let rise = rise(
            parameters,
            parameters.queue_rise,
            parameters.firm_for,
            age(now, bound.since),
        );
        Some(bound.seconds * rise)
    }

    /// Upper bound of W in bytes.
    pub(super) fn window(&self, parameters: &LossBoundParameters, now: Timestamp) -> f64 {
        self.current.window.map_or(f64::INFINITY, |bound| {
            let firm_for = if bound.is_confirmed {
                parameters.firm_for
            } else {
                parameters.brief_for
            };
            bound.bytes
                * rise(
                    parameters,
                    parameters.window_rise,
                    firm_for,
                    age(now, bound.since),
                )
        })
    }
}

fn age(now: Timestamp, since: Timestamp) -> f64 {
    now.saturating_since(since).as_secs_f64()
}

/// Factor by which a bound has risen that held for `firm_for` seconds.
fn rise(parameters: &LossBoundParameters, factor: f64, firm_for: f64, age: f64) -> f64 {
    let rising_for = age - firm_for;
    factor.powf((rising_for / parameters.rise_time).max(0.0))
}
