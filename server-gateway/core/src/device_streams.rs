//! Stream slots of a device, whose number may change while streams run.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use parking_lot::{Mutex, MutexGuard};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The stream slots of a device.
#[derive(Debug)]
pub struct DeviceStreams {
    semaphore: Arc<Semaphore>,
    size: Mutex<Size>,
    /// Streams of [`Self::acquire_behind`] that wait.
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct Size {
    limit: usize,
    /// Slots in use beyond the limit, after the limit was reduced: so many ending streams free no slot.
    excess: usize,
}

/// The slot of a stream, until dropped.
#[derive(Debug)]
pub struct StreamSlot {
    streams: Arc<DeviceStreams>,
    permit: Option<OwnedSemaphorePermit>,
}

impl DeviceStreams {
    /// Slots for so many streams.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            semaphore: Arc::new(Semaphore::new(limit)),
            size: Mutex::new(Size { limit, excess: 0 }),
            waiting: AtomicUsize::new(0),
        })
    }

    /// Waits for a slot; `None` never occurs in practice, because the semaphore is never closed.
    pub async fn acquire(self: &Arc<Self>) -> Option<StreamSlot> {
        let permit = Arc::clone(&self.semaphore).acquire_owned().await.ok()?;
        Some(StreamSlot {
            streams: Arc::clone(self),
            permit: Some(permit),
        })
    }

    /// The same for streams whose number nothing else bounds; `None` if so many of them wait.
    pub async fn acquire_behind(self: &Arc<Self>, most: usize) -> Option<StreamSlot> {
        let waiting = Waiting(self);
        if self.waiting.fetch_add(1, Relaxed) >= most {
            return None;
        }
        let slot = self.acquire().await;
        drop(waiting);
        slot
    }

    /// Returns true if a stream has a slot.
    pub fn is_used(&self) -> bool {
        let size = self.size();
        self.semaphore.available_permits() < size.limit || size.excess > 0
    }

    /// Changes the number of slots. Streams that run continue; if they are more than the new limit, the next
    /// ones wait until enough of them have ended.
    pub fn resize(&self, limit: usize) {
        let mut size = self.size();
        if limit > size.limit {
            let more = limit - size.limit;
            let kept = more.min(size.excess);
            size.excess -= kept;
            self.semaphore.add_permits(more - kept);
        } else {
            let fewer = size.limit - limit;
            let removed = self.semaphore.forget_permits(fewer);
            size.excess += fewer - removed;
        }
        size.limit = limit;
    }

    fn size(&self) -> MutexGuard<'_, Size> {
        // No code can panic while the guarded data is inconsistent.
        self.size.lock()
    }
}

/// A stream that waits, until dropped.
struct Waiting<'a>(&'a DeviceStreams);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut size = self.streams.size();
        if size.excess > 0
            && let Some(permit) = self.permit.take()
        {
            size.excess -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn is_free(streams: &Arc<DeviceStreams>) -> bool {
        timeout(Duration::from_millis(1), streams.acquire()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_reduced_limit_takes_effect_as_streams_end() {
        let streams = DeviceStreams::new(3);
        let mut running = Vec::new();
        for _ in 0..3 {
            running.push(streams.acquire().await.unwrap());
        }
        streams.resize(1);
        running.pop();
        running.pop();
        assert!(!is_free(&streams).await, "one still runs, and only one may");
        running.pop();
        assert!(is_free(&streams).await);
        let _one = streams.acquire().await.unwrap();
        assert!(!is_free(&streams).await);
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_streams_wait() {
        let streams = DeviceStreams::new(1);
        let _one = streams.acquire_behind(2).await.unwrap();
        let wait = || {
            let streams = Arc::clone(&streams);
            tokio::spawn(async move { streams.acquire_behind(2).await.is_some() })
        };
        let waiting = [wait(), wait()];
        tokio::task::yield_now().await;
        assert!(!wait().await.unwrap(), "the third");
        for task in waiting {
            assert!(!task.is_finished());
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
        let again = wait();
        tokio::task::yield_now().await;
        assert!(!again.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn a_raised_limit_lets_waiting_streams_run() {
        let streams = DeviceStreams::new(1);
        let _one = streams.acquire().await.unwrap();
        let waiting = tokio::spawn({
            let streams = Arc::clone(&streams);
            async move { streams.acquire().await }
        });
        assert!(!is_free(&streams).await);
        streams.resize(2);
        let _two = waiting.await.unwrap().unwrap();
        assert!(!is_free(&streams).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_is_reduced_and_raised_again_is_as_before() {
        let streams = DeviceStreams::new(2);
        let running = [streams.acquire().await.unwrap(), streams.acquire().await.unwrap()];
        streams.resize(1);
        streams.resize(2);
        streams.resize(2);
        assert!(!is_free(&streams).await);
        drop(running);
        let _again = [streams.acquire().await.unwrap(), streams.acquire().await.unwrap()];
        assert!(!is_free(&streams).await);
    }
}
