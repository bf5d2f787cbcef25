//! Order, seeds and concurrency of the loads of a run.
use longhaul_types::BitRate;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::loader::Loader;

/// Weight of a whole machine: jobs run concurrently while the sum of their weights does not exceed it.
pub const WHOLE: u32 = 64;

/// Returns the weight of a load: that of the whole machine divided by the number of loads that may run
/// concurrently.
///
/// The defaults keep the load times correct: slow links leave the processor idle, a fast one needs it
/// (docs/BENCHMARKING.md).
pub fn weight(rate: BitRate, loader: Loader, jobs: Option<u32>) -> u32 {
    let jobs = jobs.unwrap_or_else(|| default_jobs(rate, loader));
    (WHOLE / jobs.max(1)).max(1)
}

fn default_jobs(rate: BitRate, loader: Loader) -> u32 {
    match (rate.as_bps(), loader) {
        (..1_000_000, Loader::Model) => 8,
        (..1_000_000, Loader::Chromium) => 4,
        (1_000_000..=10_000_000, _) => 2,
        _ => 1,
    }
}

/// Returns the weight of an experiment of the transport: there is no browser, and the emulator reports its
/// lateness.
pub fn transport_weight(rate: BitRate, jobs: Option<u32>) -> u32 {
    let jobs = jobs.unwrap_or_else(|| match rate.as_bps() {
        ..1_000_000 => 8,
        1_000_000..=20_000_000 => 4,
        _ => 1,
    });
    (WHOLE / jobs.max(1)).max(1)
}

/// Shuffles (Fisher and Yates), so that a drift of the machine affects all systems equally.
pub fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for last in (1..items.len()).rev() {
        let bound = last as u64 + 1;
        // The bias of the remainder is below 2^-50 for any list that fits a machine.
        let chosen = usize::try_from(random.next_u64() % bound).unwrap_or(0);
        items.swap(last, chosen);
    }
}

/// Returns a seed for one run of one page over one link: the same for all systems, different for each run.
pub fn load_seed(seed: u64, page: &str, link: &str, run: u32) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let text = page.bytes().chain([0]).chain(link.bytes()).chain([0]);
    // FNV-1a: the seeds only have to differ.
    for byte in text.chain(run.to_le_bytes()).chain(seed.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_on_slow_links_run_concurrently_and_on_fast_ones_alone() {
        let side_by_side = |bps, loader| WHOLE / weight(BitRate::bps(bps), loader, None);
        assert_eq!(side_by_side(39_600, Loader::Model), 8);
        assert_eq!(side_by_side(384_000, Loader::Chromium), 4);
        assert_eq!(side_by_side(2_000_000, Loader::Model), 2);
        assert_eq!(side_by_side(12_000_000, Loader::Model), 1);
        assert_eq!(
            WHOLE / weight(BitRate::bps(12_000_000), Loader::Model, Some(3)),
            3
        );
    }

    #[test]
    fn shuffling_is_a_permutation_determined_by_the_seed() {
        let mut one: Vec<u32> = (0..100).collect();
        let mut other = one.clone();
        shuffle(&mut one, 7);
        shuffle(&mut other, 7);
        assert_eq!(one, other);
        assert!(!one.is_sorted());
        one.sort_unstable();
        assert!(one.iter().copied().eq(0..100));
    }

    #[test]
    fn seeds_differ_between_runs_and_pages() {
        let seeds = [
            load_seed(1, "a", "gprs", 1),
            load_seed(1, "a", "gprs", 2),
            load_seed(2, "a", "gprs", 1),
            load_seed(1, "b", "gprs", 1),
            load_seed(1, "ag", "prs", 1),
        ];
        let distinct: std::collections::HashSet<_> = seeds.into_iter().collect();
        assert_eq!(distinct.len(), seeds.len());
    }
}
