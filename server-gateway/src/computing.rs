//! The threads for computing: as many jobs at a time as there are cores, how many wait, and when there are none.
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use longhaul_codec::Load;
use tokio::{
    sync::{Semaphore, watch},
    time::sleep,
};

/// What computes for all sessions.
#[derive(Debug)]
pub(crate) struct Computing {
    cores: usize,
    permits: Arc<Semaphore>,
    jobs: Arc<AtomicUsize>,
    work: watch::Sender<Work>,
    /// Nanoseconds of all jobs.
    spent: AtomicU64,
}

/// What there is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Work {
    /// Jobs, and pushes to pages, that have begun and not ended.
    under_way: usize,
    /// How often something began.
    begun: u64,
}

/// The thread for computing died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("computing was interrupted")]
pub(crate) struct Interrupted;

/// Something that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Computing>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.work.send_modify(|work| work.under_way -= 1);
    }
}

/// A job that runs or waits.
#[derive(Debug)]
pub(crate) struct Job {
    jobs: Arc<AtomicUsize>,
    _busy: Busy,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.jobs.fetch_sub(1, Relaxed);
    }
}

impl Computing {
    pub(crate) fn new(cores: usize) -> Arc<Self> {
        let cores = cores.max(1);
        Arc::new(Self {
            cores,
            permits: Arc::new(Semaphore::new(cores)),
            jobs: Arc::default(),
            work: watch::Sender::default(),
            spent: AtomicU64::new(0),
        })
    }

    pub(crate) const fn cores(&self) -> usize {
        self.cores
    }

    /// Jobs that run or wait.
    pub(crate) fn jobs(&self) -> usize {
        self.jobs.load(Relaxed)
    }

    pub(crate) fn load(&self) -> Load {
        Load::of(self.jobs(), self.cores)
    }

    /// Time of all jobs of [`Self::run`] together.
    pub(crate) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Relaxed))
    }

    /// Runs `work` on a thread of its own when it is its turn: as many at a time as there are cores, more would only take
    /// turns. It learns how many there are then.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(Load) -> T + Send + 'static,
    ) -> Result<T, Interrupted> {
        let job = self.job();
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| Interrupted)?;
        let this = Arc::clone(self);
        let ran = tokio::task::spawn_blocking(move || {
            // Also if nobody waits for it any more: the core is taken until it ends.
            let _until_the_end = (permit, job);
            let begun = Instant::now();
            let outcome = work(this.load());
            let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            this.spent.fetch_add(took, Relaxed);
            outcome
        });
        ran.await.map_err(|_| Interrupted)
    }

    /// A job that is run elsewhere.
    pub(crate) fn job(self: &Arc<Self>) -> Job {
        self.jobs.fetch_add(1, Relaxed);
        Job {
            jobs: Arc::clone(&self.jobs),
            _busy: self.busy(),
        }
    }

    /// Something begins that will need computing, and lasts.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.work.send_modify(|work| {
            work.under_way += 1;
            work.begun = work.begun.wrapping_add(1);
        });
        Busy(Arc::clone(self))
    }

    /// Something came that may soon need computing.
    pub(crate) fn touch(&self) {
        self.work
            .send_modify(|work| work.begun = work.begun.wrapping_add(1));
    }

    /// Waits until nothing has been under way and nothing came for so long.
    pub(crate) async fn quiet(&self, long: Duration) -> Quiet {
        let mut work = self.work.subscribe();
        loop {
            let now = *work.borrow_and_update();
            if now.under_way > 0 {
                // The sender lives as long as `self`.
                let _alive = work.changed().await;
                continue;
            }
            tokio::select! {
                biased;
                _ = work.changed() => {}
                () = sleep(long) => return Quiet(now.begun),
            }
        }
    }

    /// Whether it is still as quiet as it was.
    pub(crate) fn is_still(&self, quiet: Quiet) -> bool {
        self.work.borrow().begun == quiet.0
    }
}

/// A quiet time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quiet(u64);

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_waits_is_load() {
        let computing = Computing::new(2);
        let (mut ends, mut running) = (Vec::new(), Vec::new());
        for _ in 0..6 {
            let (end, ended) = oneshot::channel::<()>();
            ends.push(end);
            let computing = Arc::clone(&computing);
            running.push(tokio::spawn(async move {
                computing
                    .run(move |load| {
                        let _ended = ended.blocking_recv();
                        load.permille()
                    })
                    .await
            }));
        }
        while computing.jobs() < 6 {
            tokio::task::yield_now().await;
        }
        assert_eq!(computing.load(), Load::of(6, 2));
        drop(ends);
        let mut loads = Vec::new();
        for job in running {
            loads.push(job.await.unwrap().unwrap());
        }
        assert!(loads.iter().all(|load| (500..=3000).contains(load)), "{loads:?}");
        assert_eq!(computing.load(), Load::NONE);
        assert!(computing.spent() > Duration::ZERO);
    }

    #[tokio::test]
    async fn a_job_that_nobody_waits_for_is_not_run() {
        let computing = Computing::new(1);
        let (end, ended) = oneshot::channel::<()>();
        let mut first = Box::pin(computing.run(move |_| {
            let _ended = ended.blocking_recv();
        }));
        assert!((&mut first).now_or_never().is_none());
        let mut second = Box::pin(computing.run(|_| ()));
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(computing.jobs(), 2);
        drop(second);
        assert_eq!(computing.jobs(), 1);
        drop(end);
        first.await.unwrap();
        assert_eq!(computing.jobs(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn quiet_is_when_nothing_has_been_for_a_while() {
        const LONG: Duration = Duration::from_secs(3);
        let computing = Computing::new(1);
        let begun = tokio::time::Instant::now();
        let quiet = computing.quiet(LONG).await;
        assert_eq!(begun.elapsed(), LONG);
        assert!(computing.is_still(quiet));
        computing.touch();
        assert!(!computing.is_still(quiet));

        let busy = computing.busy();
        let waiting = tokio::spawn({
            let computing = Arc::clone(&computing);
            async move { computing.quiet(LONG).await }
        });
        sleep(Duration::from_secs(60)).await;
        assert!(!waiting.is_finished());
        drop(busy);
        sleep(Duration::from_secs(2)).await;
        computing.touch();
        sleep(Duration::from_secs(2)).await;
        assert!(!waiting.is_finished());
        sleep(Duration::from_secs(2)).await;
        assert!(waiting.is_finished());
        assert!(computing.is_still(waiting.await.unwrap()));
    }
}
