//! When to try again what failed again and again.
use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

/// Failures in a row that cost nothing: a worker may be killed by an operator.
const FREE: u32 = 2;
/// The first pause; each failure more doubles it.
const FIRST: Duration = Duration::from_millis(500);
/// The longest: a cause that goes away is noticed within so long.
const LONGEST: Duration = Duration::from_secs(60);

/// Failures in a row, and until when nothing is tried.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    last: Option<Instant>,
    until: Option<Instant>,
}

impl Backoff {
    /// Whether something may be tried.
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

    /// Nothing has failed for so long that a failure would be the first.
    fn is_over(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| last + 2 * LONGEST <= now)
    }
}

/// Devices whose pictures make workers die: each has a pause of its own, so that no device's pictures suspend those of
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
        // No more than the devices whose pictures did so within two minutes.
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
    async fn pauses_grow_to_a_bound() {
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
    async fn a_suspect_suspends_nobody_else() {
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
