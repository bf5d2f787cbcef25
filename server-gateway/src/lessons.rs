//! Storage of what ended page loads teach. It takes up to a second for a page (a search of its bodies), and neither the
//! session's other messages nor the end of the session wait for it.
use std::{sync::Arc, time::Duration};

use longhaul_origin::{FairShares, Shares};
use longhaul_types::PublicKey;
use parking_lot::Mutex;
use tokio::{task::JoinHandle, time::timeout};
use tracing::debug;

/// Searches at the same time, of all devices.
const SEARCHES: usize = 2;
/// Page loads of one device whose results wait; those of further ones are not learned from.
const WAITING: usize = 8;
/// Maximum wait for the results at the end of the gateway.
const FAREWELL: Duration = Duration::from_secs(3);

/// The page loads whose results are being stored.
#[derive(Debug)]
pub(crate) struct Lessons {
    turns: Arc<FairShares<PublicKey>>,
    running: Mutex<Vec<Lesson>>,
}

#[derive(Debug)]
struct Lesson {
    device: PublicKey,
    task: JoinHandle<()>,
}

impl Default for Lessons {
    fn default() -> Self {
        Self {
            turns: FairShares::new(Shares {
                total: SEARCHES,
                per_owner: 1,
                reserved: 0,
                waiting: WAITING,
            }),
            running: Mutex::default(),
        }
    }
}

impl Lessons {
    /// Waits for the result of a device's page load, and then for its turn to store it.
    pub(crate) fn keep<S>(&self, device: PublicKey, result: impl Future<Output = Option<S>> + Send + 'static)
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let turns = Arc::clone(&self.turns);
        let task = tokio::spawn(async move {
            let Some(storing) = result.await else { return };
            match turns.acquire(device).await {
                Ok(_turn) => storing.await,
                Err(error) => debug!(%error, "a page load is not learned from"),
            }
        });
        let mut running = self.running.lock();
        running.retain(|lesson| !lesson.task.is_finished());
        running.push(Lesson { device, task });
    }

    /// Discards the results of a device that are not stored yet.
    pub(crate) fn discard(&self, device: &PublicKey) {
        self.running.lock().retain(|lesson| {
            let is_kept = lesson.device != *device;
            if !is_kept {
                lesson.task.abort();
            }
            is_kept
        });
    }

    /// Returns once all results are stored, or after a time.
    pub(crate) async fn finished(&self) {
        let running = std::mem::take(&mut *self.running.lock());
        let all = async {
            for lesson in running {
                // A task that panicked stores nothing.
                let _ended = lesson.task.await;
            }
        };
        if timeout(FAREWELL, all).await.is_err() {
            debug!("the gateway ends before all page loads are learned from");
        }
    }
}
