//! Clocks of hosts that run fast or slow, or jump forward, like that of a machine after sleep.
//!
//! They never go backwards, because the driver reads a monotonic clock.
use std::time::Duration;

use longhaul_types::Timestamp;

const MILLION: i128 = 1_000_000;

/// Clock of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    /// True time at which it shows zero.
    begins: Timestamp,
    /// Rate error in parts per million; positive if it is fast.
    ppm: i32,
    /// True times of the forward jumps, in order, with their lengths.
    steps: Vec<(Timestamp, Duration)>,
}

impl Clock {
    /// A clock with a rate error of `ppm` parts per million; negative if it is slow.
    pub(crate) const fn fast_by(ppm: i32) -> Self {
        Self {
            begins: Timestamp::ZERO,
            ppm,
            steps: Vec::new(),
        }
    }

    /// An exact clock that jumps forward by `ahead` at these times.
    pub(crate) fn stepping(times: &[Duration], ahead: Duration) -> Self {
        let at = |time: &Duration| (Timestamp::ZERO + *time, ahead);
        Self {
            steps: times.iter().map(at).collect(),
            ..Self::default()
        }
    }

    /// The same clock, which shows zero at the true time `begins`.
    pub(crate) fn beginning(mut self, begins: Timestamp) -> Self {
        self.begins = begins;
        self
    }

    /// Shown time at the true time `at`.
    pub(crate) fn read(&self, at: Timestamp) -> Timestamp {
        let stepped = self.steps.iter().filter(|(step, _)| *step <= at);
        let ahead: Duration = stepped.map(|(_, ahead)| *ahead).sum();
        self.without_steps(at) + ahead
    }

    fn without_steps(&self, at: Timestamp) -> Timestamp {
        let elapsed = i128::try_from((at - self.begins).as_nanos()).unwrap_or(i128::MAX);
        let shown = elapsed * (MILLION + i128::from(self.ppm)) / MILLION;
        Timestamp::from_nanos(u64::try_from(shown).unwrap_or(u64::MAX))
    }

    /// The first true time at which it shows at least `shown`.
    pub(crate) fn when(&self, shown: Timestamp) -> Timestamp {
        let mut ahead = Duration::ZERO;
        for (step, by) in &self.steps {
            let at = self.when_without_steps(shown, ahead);
            if at < *step {
                return at;
            }
            ahead += *by;
            if self.without_steps(*step) + ahead >= shown {
                return *step;
            }
        }
        self.when_without_steps(shown, ahead)
    }

    fn when_without_steps(&self, shown: Timestamp, ahead: Duration) -> Timestamp {
        let left = i128::from(shown.as_nanos()) - i128::try_from(ahead.as_nanos()).unwrap_or(0);
        let per_million = MILLION + i128::from(self.ppm);
        let elapsed = (left.max(0) * MILLION + per_million - 1) / per_million;
        self.begins + Duration::from_nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }
}

#[test]
fn clocks_tell_when_they_will_show_a_time() {
    let seconds = |seconds: u64| Timestamp::ZERO + Duration::from_secs(seconds);
    let stepping = Clock::stepping(&[5, 9].map(Duration::from_secs), Duration::from_secs(2));
    assert_eq!(stepping.read(seconds(4)), seconds(4));
    assert_eq!(stepping.read(seconds(5)), seconds(7));
    assert_eq!(stepping.read(seconds(9)), seconds(13));
    for (shown, at) in [(4, 4), (5, 5), (6, 5), (7, 5), (8, 6), (12, 9), (14, 10)] {
        assert_eq!(stepping.when(seconds(shown)), seconds(at), "{shown}");
    }
    for ppm in [-500, 0, 500] {
        let clock = Clock::fast_by(ppm).beginning(seconds(3));
        for nanos in [0, 1, 999_999, 7_777_777_777, 3_600_000_000_001] {
            let shown = Timestamp::from_nanos(nanos);
            let at = clock.when(shown);
            assert!(clock.read(at) >= shown, "{ppm}: {nanos}");
            let before = Timestamp::from_nanos(at.as_nanos() - 1);
            assert!(
                before < seconds(3) || clock.read(before) < shown,
                "{ppm}: {nanos} is shown earlier"
            );
        }
    }
}
