//! Memory of the responses of a connection that wait for their turn.
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use tokio::sync::Notify;

/// Bytes of waiting responses with which a connection reads no further request.
pub(super) const MAX_HELD: u64 = 1024 * 1024;

/// The responses of a connection that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    held: AtomicU64,
    freed: Notify,
}

/// The bytes of one response, counted until dropped.
#[derive(Debug)]
pub(super) struct HeldBytes {
    ahead: Arc<ReadAhead>,
    bytes: u64,
}

impl ReadAhead {
    /// Counts the bytes of a response.
    pub(super) fn hold(self: &Arc<Self>, bytes: u64) -> HeldBytes {
        self.held.fetch_add(bytes, Relaxed);
        HeldBytes {
            ahead: Arc::clone(self),
            bytes,
        }
    }

    /// No bytes.
    pub(super) fn none(self: &Arc<Self>) -> HeldBytes {
        self.hold(0)
    }

    /// Waits until the waiting responses are small enough to read a further request.
    pub(super) async fn room(&self) {
        while self.held.load(Relaxed) > MAX_HELD {
            // Stores a permit if a response ends before the wait begins; one task waits.
            self.freed.notified().await;
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.ahead.held.fetch_sub(self.bytes, Relaxed);
        self.ahead.freed.notify_one();
    }
}
