//! The number of requests that wait for the gateway.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use tokio::sync::Notify;

/// Number of waiting requests, with notification of new ones.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests {
    pub(super) waiting: AtomicUsize,
    pub(super) arrived: Notify,
}

impl WaitingRequests {
    /// Counts a waiting request until the guard is dropped.
    pub(super) fn register(count: &Arc<Self>) -> WaitingRequest {
        count.waiting.fetch_add(1, Relaxed);
        count.arrived.notify_waiters();
        WaitingRequest(Arc::clone(count))
    }
}

/// Guard of a request that waits for the gateway.
#[derive(Debug)]
pub struct WaitingRequest(Arc<WaitingRequests>);

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}
