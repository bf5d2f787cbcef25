//! Exponential backoff after repeated failures.
use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

/// Consecutive failures without a pause: an operator may kill a worker.
const FREE: u32 = 2;
/// The first pause; each further failure doubles it.
const FIRST: Duration = Duration::from_millis(500);
/// The longest pause, after which the end of the cause is noticed.
const LONGEST: Duration = Duration::from_secs(60);

/// Consecutive failures, and the end of the pause.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    last: Option<Instant>,
    until: Option<Instant>,
}

impl Backoff {
    /// Returns true if an attempt is allowed now.
    pub(super) fn allows(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.last = Some(now);
        if let Some(doublings) = self.failures.checked_sub(FREE + 1) {
            let pause = 2_u32
                .checked_pow(doublings)
                .and_then(|times| FIRST.checked_mul(times));
            self.until = Some(now + pause.map_or(LONGEST, |pause| pause.min(LONGEST)));
        }
    }

    /// Returns true if the last failure is so old that its record can be removed.
    fn is_over(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| last + 2 * LONGEST <= now)
    }
}

/// Devices whose images crash workers: each has its own backoff, so that no device's images suspend those of
/// others.
#[derive(Debug)]
pub(super) struct Suspects<K>(BTreeMap<K, Backoff>);

impl<K> Default for Suspects<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Copy + Ord> Suspects<K> {
    pub(super) fn allows(&self, device: K, now: Instant) -> bool {
        self.0.get(&device).is_none_or(|backoff| backoff.allows(now))
    }

    pub(super) fn failed(&mut self, device: K, now: Instant) {
        // The map contains only devices with such a failure within the last two minutes.
        self.0.retain(|_, backoff| !backoff.is_over(now));
        self.0.entry(device).or_default().failed(now);
    }

    pub(super) fn succeeded(&mut self, device: K) {
        self.0.remove(&device);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn backoff_pauses_grow_to_a_bound() {
        let mut backoff = Backoff::default();
        for _ in 0..FREE {
            backoff.failed(Instant::now());
            assert!(backoff.allows(Instant::now()));
        }
        let mut pauses = Vec::new();
        for _ in 0..40 {
            backoff.failed(Instant::now());
            assert!(!backoff.allows(Instant::now()));
            let until = backoff.until.unwrap();
            pauses.push(until - Instant::now());
            advance(until - Instant::now()).await;
            assert!(backoff.allows(Instant::now()));
        }
        assert_eq!(pauses[..3], [FIRST, 2 * FIRST, 4 * FIRST]);
        assert_eq!(pauses[39], LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_image_suspends_no_other_image() {
        let mut suspects = Suspects::default();
        for _ in 0..5 {
            suspects.failed('a', Instant::now());
        }
        assert!(!suspects.allows('a', Instant::now()));
        assert!(suspects.allows('b', Instant::now()));
        suspects.succeeded('a');
        assert!(suspects.allows('a', Instant::now()));
        for _ in 0..5 {
            suspects.failed('a', Instant::now());
        }
        advance(3 * LONGEST).await;
        suspects.failed('b', Instant::now());
        assert!(!suspects.0.contains_key(&'a'), "it is forgotten");
    }
}
