//! Runs of many loads: planned, distributed to workers, stored in a results file.
mod plan;
mod pool;
mod progress;
mod store;

pub use plan::{WHOLE, load_seed, shuffle, transport_weight, weight};
pub use pool::{WorkerError, run as run_job};
pub use progress::Progress;
pub use store::{LoadKey, Store, StoreError, load as load_results};

use std::future::Future;

use futures_util::{StreamExt, stream::FuturesUnordered};

/// Runs as many jobs concurrently as their weights allow, and passes each result to `each` in the order of
/// completion.
///
/// `each` decides whether the run continues.
pub async fn side_by_side<J, T, F>(
    jobs: Vec<(u32, J)>,
    start: impl Fn(J) -> F,
    mut each: impl FnMut(T) -> std::ops::ControlFlow<()>,
) where
    F: Future<Output = T>,
{
    let mut waiting = jobs.into_iter().peekable();
    let mut used = 0;
    let mut running = FuturesUnordered::new();
    loop {
        while let Some((weight, _)) = waiting.peek()
            && (used == 0 || used + weight <= WHOLE)
        {
            let Some((weight, job)) = waiting.next() else {
                break;
            };
            used += weight;
            let job = start(job);
            running.push(async move { (weight, job.await) });
        }
        let Some((weight, ended)) = running.next().await else {
            return;
        };
        used -= weight;
        if each(ended).is_break() {
            return;
        }
    }
}
