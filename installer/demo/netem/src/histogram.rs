//! Histogram of times in bounded memory.
use std::time::Duration;

/// Buckets in each power of two of nanoseconds: the relative error of a percentile is at most one divided by
/// this number.
const SUB_BUCKETS: usize = 64;
const SUB_BITS: u32 = SUB_BUCKETS.trailing_zeros();
/// One row for times below `SUB_BUCKETS`, and one for each further power of two of a u64.
const ROWS: usize = 64 - SUB_BITS as usize + 1;

/// Distribution of queueing delays: count, mean and maximum exact, percentiles to 1/64 of their value (never
/// too low).
///
/// The size is fixed, independent of the number of samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayHistogram {
    buckets: Box<[u64]>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Default for DelayHistogram {
    fn default() -> Self {
        Self {
            buckets: vec![0; ROWS * SUB_BUCKETS].into(),
            count: 0,
            sum: 0,
            max: 0,
        }
    }
}

impl DelayHistogram {
    /// Adds a sample.
    pub fn record(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get_mut(bucket_of(nanos)) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Maximum sample.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// Mean; zero without samples.
    pub fn mean(&self) -> Duration {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// Returns the time that `percent` of the samples do not exceed (nearest rank); zero without samples. A
    /// `percent` above 100 counts as 100.
    pub fn percentile(&self, percent: u8) -> Duration {
        let wanted = (u128::from(self.count) * u128::from(percent.min(100)))
            .div_ceil(100)
            .max(1);
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += u128::from(*bucket);
            if seen >= wanted {
                return Duration::from_nanos(upper_bound(index).min(self.max));
            }
        }
        Duration::ZERO
    }
}

/// Times below `SUB_BUCKETS` have a bucket each; above, the leading `SUB_BITS + 1` bits select it.
fn bucket_of(nanos: u64) -> usize {
    let row = (64 - SUB_BITS).saturating_sub(nanos.leading_zeros());
    let shift = row.saturating_sub(1);
    let within = usize::try_from(nanos >> shift).unwrap_or(usize::MAX) % SUB_BUCKETS;
    row as usize * SUB_BUCKETS + within
}

/// Returns the largest time in a bucket.
fn upper_bound(index: usize) -> u64 {
    let (row, within) = (index / SUB_BUCKETS, (index % SUB_BUCKETS) as u64);
    if row == 0 {
        return within;
    }
    let shift = row - 1;
    let next = u128::from(within + SUB_BUCKETS as u64 + 1) << shift;
    u64::try_from(next - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_within_the_bounds_of_its_bucket() {
        let edges = (0..64).flat_map(|bit| {
            let power = 1_u64 << bit;
            [power - 1, power, power + 1, power + power / 3]
        });
        for nanos in edges.chain([u64::MAX]) {
            let bound = upper_bound(bucket_of(nanos));
            assert!(bound >= nanos, "{nanos} is above its bucket's bound {bound}");
            assert!(bound - nanos <= nanos / 64, "{nanos}: bound {bound} is too high");
        }
    }

    #[test]
    fn percentiles_of_evenly_spaced_samples_are_within_the_bucket_error() {
        let mut histogram = DelayHistogram::default();
        assert_eq!(histogram.percentile(95), Duration::ZERO);
        for millis in 1..=1000 {
            histogram.record(Duration::from_millis(millis));
        }
        let p95 = histogram.percentile(95);
        assert!(p95 >= Duration::from_millis(950) && p95 <= Duration::from_millis(965));
        assert_eq!(histogram.percentile(100), Duration::from_secs(1));
        assert_eq!(histogram.max(), Duration::from_secs(1));
        assert_eq!(histogram.mean(), Duration::from_micros(500_500));
        assert_eq!(histogram.count(), 1000);
    }
}
