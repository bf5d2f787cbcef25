//! The number of requests that wait for the gateway.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use tokio::sync::Notify;

/// Number of waiting requests, with notification of new ones.
#[derive(Debug, Default)]
pub(super) struct DemandCount {
    pub(super) waiting: AtomicUsize,
    pub(super) arrived: Notify,
}

impl DemandCount {
    /// Counts a waiting request until the guard is dropped.
    pub(super) fn register(count: &Arc<Self>) -> Demand {
        count.waiting.fetch_add(1, Relaxed);
        count.arrived.notify_waiters();
        Demand(Arc::clone(count))
    }
}

/// Guard of a request that waits for the gateway.
#[derive(Debug)]
pub struct Demand(Arc<DemandCount>);

impl Drop for Demand {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}
