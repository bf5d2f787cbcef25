//! Parallel runs of a condition with many seeds; a failure prints its seed and the command that repeats it.
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use parking_lot::Mutex;

/// Number of seeds of a condition without `LONGHAUL_SIM_SEEDS`.
const DEFAULT_SEEDS: u64 = 50;

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}

/// Returns true if experiments that judge nothing are to run, too: they take minutes.
pub(crate) fn experiments() -> bool {
    std::env::var_os("LONGHAUL_SIM_EXPERIMENTS").is_some()
}

/// Runs `run` with each seed and returns the results in the order of the seeds.
///
/// # Panics
/// If a run panics: with the condition, the smallest such seed and the command that repeats it.
pub(crate) fn for_each<R: Send>(condition: &str, run: impl Fn(u64) -> R + Sync) -> Vec<R> {
    for_some(condition, u64::MAX, run)
}

/// As [`for_each`], with at most `most` seeds, for long runs.
pub(crate) fn for_some<R: Send>(condition: &str, most: u64, run: impl Fn(u64) -> R + Sync) -> Vec<R> {
    if let Some(seed) = from_environment("LONGHAUL_SIM_SEED") {
        return vec![run_one(condition, seed, &run)];
    }
    let seeds = from_environment("LONGHAUL_SIM_SEEDS")
        .unwrap_or(DEFAULT_SEEDS)
        .min(most);
    run_all(condition, seeds, run)
}

/// As [`for_each`], with a fixed number of seeds.
pub(crate) fn for_exactly<R: Send>(condition: &str, seeds: u64, run: impl Fn(u64) -> R + Sync) -> Vec<R> {
    match from_environment("LONGHAUL_SIM_SEED") {
        Some(seed) => vec![run_one(condition, seed, &run)],
        None => run_all(condition, seeds, run),
    }
}

fn run_all<R: Send>(condition: &str, seeds: u64, run: impl Fn(u64) -> R + Sync) -> Vec<R> {
    let next = AtomicU64::new(0);
    let results = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return;
            }
            let result = catch_unwind(AssertUnwindSafe(|| run_one(condition, seed, &run)));
            if result.is_err() {
                next.store(seeds, Ordering::Relaxed);
            }
            results.lock().push((seed, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut results = results.into_inner();
    results.sort_by_key(|(seed, _)| *seed);
    results
        .into_iter()
        .map(|(_, result)| result.unwrap_or_else(|panic| resume_unwind(panic)))
        .collect()
}

fn run_one<R>(condition: &str, seed: u64, run: &(impl Fn(u64) -> R + Sync)) -> R {
    let result = catch_unwind(AssertUnwindSafe(|| run(seed)));
    result.unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without a message");
        panic!("{condition} fails with seed {seed}: {message}\n  repeat: LONGHAUL_SIM_SEED={seed} cargo test --test sim {condition}");
    })
}
