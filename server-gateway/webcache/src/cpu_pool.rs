//! Thread pool for compression: as many concurrent jobs as cores, fair between devices, with load measurement
//! and idle detection.
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use longhaul_codec::Load;
use longhaul_origin::{FairShares, Shares};
use longhaul_types::PublicKey;
use tokio::{sync::watch, time::sleep};

/// Averaging time of the load. The images and texts of a page arrive in a burst and are encoded while the
/// first of them cross a slow link, so a burst alone must not lower the effort. Only demand above the
/// capacity of the cores for longer than this time is overload.
const WINDOW: Duration = Duration::from_secs(5);

/// Thread pool of all sessions.
#[derive(Debug)]
pub struct CpuPool {
    cores: usize,
    /// Fair shares: each device has its own queue, so that one device's hundred jobs do not delay another
    /// device's first. `None` is the gateway itself.
    slots: Arc<FairShares<Option<PublicKey>>>,
    jobs: AtomicUsize,
    average: Mutex<AverageJobs>,
    work: watch::Sender<Work>,
    /// Total run time of all jobs, in nanoseconds.
    spent: AtomicU64,
}

/// Exponentially weighted average of the number of jobs, with time constant [`WINDOW`].
#[derive(Clone, Copy, Debug)]
struct AverageJobs {
    jobs: f64,
    at: Instant,
}

impl AverageJobs {
    /// Adds the time since the last call, during which `jobs` jobs were active.
    fn update(&mut self, jobs: usize, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        let kept = (-elapsed / WINDOW.as_secs_f64()).exp();
        let jobs = f64::from(u32::try_from(jobs).unwrap_or(u32::MAX));
        self.jobs = self.jobs * kept + jobs * (1.0 - kept);
        self.at = now;
    }
}

/// Amount of current work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Work {
    /// Active jobs, and active pushes of page loads.
    active: usize,
    /// Number of starts so far.
    begun: u64,
}

/// A job panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the job in the thread pool was interrupted")]
pub struct Interrupted;

/// Guard that counts work in progress until it is dropped.
#[derive(Debug)]
pub struct Busy(Arc<CpuPool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.work.send_modify(|work| work.active -= 1);
    }
}

/// Guard of a job that runs or waits.
#[derive(Debug)]
pub struct Job(Busy);

impl Drop for Job {
    fn drop(&mut self) {
        let cpu_pool = &self.0.0;
        cpu_pool.update();
        cpu_pool.jobs.fetch_sub(1, Relaxed);
    }
}

impl CpuPool {
    /// Creates a thread pool that runs `cores` jobs at a time.
    pub fn new(cores: usize) -> Arc<Self> {
        let cores = cores.max(1);
        Arc::new(Self {
            cores,
            slots: FairShares::new(Shares {
                total: cores,
                per_owner: cores,
                reserved: 0,
                // Unbounded: each stream has at most one job at a time, and the number of streams is bounded.
                waiting: usize::MAX,
            }),
            jobs: AtomicUsize::new(0),
            average: Mutex::new(AverageJobs {
                jobs: 0.0,
                at: Instant::now(),
            }),
            work: watch::Sender::default(),
            spent: AtomicU64::new(0),
        })
    }

    /// Number of jobs that run at a time.
    pub const fn cores(&self) -> usize {
        self.cores
    }

    /// Number of jobs that run or wait.
    pub fn jobs(&self) -> usize {
        self.jobs.load(Relaxed)
    }

    /// Current load: the smaller of the number of jobs now and its average.
    pub fn load(&self) -> Load {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and `as` saturates"
        )]
        let average = self.update() as usize;
        Load::of(self.jobs().min(average), self.cores)
    }

    /// Updates the average to the current time and returns it.
    fn update(&self) -> f64 {
        let mut average = self.average.lock();
        average.update(self.jobs(), Instant::now());
        average.jobs
    }

    /// Total run time of all jobs of [`Self::run`].
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Relaxed))
    }

    /// Runs `work` on a blocking thread when the device's turn comes. At most as many jobs as cores run at a
    /// time, because more would only share the cores. `work` receives the load at its start.
    pub async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        device: Option<PublicKey>,
        work: impl FnOnce(Load) -> T + Send + 'static,
    ) -> Result<T, Interrupted> {
        let job = self.job();
        let slot = self.slots.acquire(device).await;
        let slot = slot.map_err(|_| Interrupted)?;
        let this = Arc::clone(self);
        let ran = tokio::task::spawn_blocking(move || {
            // Held until the job ends, even if its caller was cancelled: the core is in use until then.
            let _until_the_end = (slot, job);
            let begun = Instant::now();
            let outcome = work(this.load());
            let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            this.spent.fetch_add(took, Relaxed);
            outcome
        });
        ran.await.map_err(|_| Interrupted)
    }

    /// Registers a job that runs outside this thread pool.
    pub fn job(self: &Arc<Self>) -> Job {
        self.update();
        self.jobs.fetch_add(1, Relaxed);
        Job(self.busy())
    }

    /// Registers a longer activity that will need computation.
    pub fn busy(self: &Arc<Self>) -> Busy {
        self.work.send_modify(|work| {
            work.active += 1;
            work.begun = work.begun.wrapping_add(1);
        });
        Busy(Arc::clone(self))
    }

    /// Notes an event that may soon need computation.
    pub fn touch(&self) {
        self.work
            .send_modify(|work| work.begun = work.begun.wrapping_add(1));
    }

    /// Waits until nothing has been active or started for the duration `long`.
    pub async fn idle_for(&self, long: Duration) -> IdlePeriod {
        let mut work = self.work.subscribe();
        loop {
            let now = *work.borrow_and_update();
            if now.active > 0 {
                // The sender lives as long as `self`.
                let _alive = work.changed().await;
                continue;
            }
            tokio::select! {
                biased;
                _ = work.changed() => {}
                () = sleep(long) => return IdlePeriod(now.begun),
            }
        }
    }

    /// Returns true if nothing has started since `idle` was returned.
    pub fn is_still_idle(&self, idle: IdlePeriod) -> bool {
        self.work.borrow().begun == idle.0
    }
}

/// Token of an idle period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePeriod(u64);

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn sustained_work_is_load_and_a_burst_is_not() {
        let begun = Instant::now();
        let mut average = AverageJobs { jobs: 0.0, at: begun };
        average.update(0, begun + WINDOW);
        // A page of forty images: a second of computation on two cores.
        average.update(40, begun + WINDOW + Duration::from_millis(100));
        average.update(5, begun + WINDOW + Duration::from_millis(500));
        assert!(average.jobs < 2.0, "{average:?}");
        average.update(0, begun + 2 * WINDOW);
        assert!(average.jobs < 0.5, "{average:?}");
        // Many users, for a longer time.
        average.update(40, begun + 3 * WINDOW);
        assert!(average.jobs > 25.0, "{average:?}");
        average.update(40, begun + 9 * WINDOW);
        assert!(average.jobs > 39.0, "{average:?}");
        average.update(40, begun);
        assert!(average.jobs > 39.0, "a clock that stands still");
    }

    #[tokio::test]
    async fn waiting_jobs_are_counted() {
        let cpu_pool = CpuPool::new(2);
        let (mut ends, mut running) = (Vec::new(), Vec::new());
        for _ in 0..6 {
            let (end, ended) = oneshot::channel::<()>();
            ends.push(end);
            let mut job = Box::pin(cpu_pool.run(None, move |load| {
                let _ended = ended.blocking_recv();
                load.permille()
            }));
            // A job is counted as soon as its caller waits for it.
            assert!((&mut job).now_or_never().is_none());
            running.push(job);
        }
        assert_eq!(cpu_pool.jobs(), 6);
        assert!(cpu_pool.load() <= Load::of(6, 2));
        drop(ends);
        let mut loads = Vec::new();
        for job in running {
            loads.push(job.await.unwrap());
        }
        assert!(loads.iter().all(|load| *load <= 3000), "{loads:?}");
        assert_eq!(cpu_pool.load(), Load::NONE);
        assert!(cpu_pool.spent() > Duration::ZERO);
    }

    #[tokio::test]
    async fn a_cancelled_job_is_not_run() {
        let cpu_pool = CpuPool::new(1);
        let (end, ended) = oneshot::channel::<()>();
        let mut first = Box::pin(cpu_pool.run(None, move |_| {
            let _ended = ended.blocking_recv();
        }));
        assert!((&mut first).now_or_never().is_none());
        let mut second = Box::pin(cpu_pool.run(None, |_| ()));
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(cpu_pool.jobs(), 2);
        drop(second);
        assert_eq!(cpu_pool.jobs(), 1);
        drop(end);
        first.await.unwrap();
        assert_eq!(cpu_pool.jobs(), 0);
    }

    #[tokio::test]
    async fn jobs_of_devices_run_in_turn() {
        let cpu_pool = CpuPool::new(1);
        let (end, ended) = oneshot::channel::<()>();
        let (ran, order) = std::sync::mpsc::channel();
        let mut jobs = vec![
            Box::pin(cpu_pool.run(Some(PublicKey::from_bytes([1; 32])), move |_| {
                let _ended = ended.blocking_recv();
            })) as std::pin::Pin<Box<dyn Future<Output = Result<(), Interrupted>>>>,
        ];
        // The first device queues all its jobs before the second device's job arrives.
        for device in [1, 1, 1, 1, 2] {
            let ran = ran.clone();
            let work = move |_: Load| {
                let _heard = ran.send(device);
            };
            jobs.push(Box::pin(
                cpu_pool.run(Some(PublicKey::from_bytes([device; 32])), work),
            ));
        }
        for job in &mut jobs {
            assert!(job.now_or_never().is_none());
        }
        drop(end);
        futures_util::future::try_join_all(jobs).await.unwrap();
        drop(ran);
        assert_eq!(order.iter().collect::<Vec<_>>(), [1, 2, 1, 1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_pool_is_idle_after_a_time_without_jobs() {
        const LONG: Duration = Duration::from_secs(3);
        let cpu_pool = CpuPool::new(1);
        let begun = tokio::time::Instant::now();
        let quiet = cpu_pool.idle_for(LONG).await;
        assert_eq!(begun.elapsed(), LONG);
        assert!(cpu_pool.is_still_idle(quiet));
        cpu_pool.touch();
        assert!(!cpu_pool.is_still_idle(quiet));

        let busy = cpu_pool.busy();
        let waiting = tokio::spawn({
            let cpu_pool = Arc::clone(&cpu_pool);
            async move { cpu_pool.idle_for(LONG).await }
        });
        sleep(Duration::from_secs(60)).await;
        assert!(!waiting.is_finished());
        drop(busy);
        sleep(Duration::from_secs(2)).await;
        cpu_pool.touch();
        sleep(Duration::from_secs(2)).await;
        assert!(!waiting.is_finished());
        sleep(Duration::from_secs(2)).await;
        assert!(waiting.is_finished());
        assert!(cpu_pool.is_still_idle(waiting.await.unwrap()));
    }

    #[test]
    fn the_load_is_that_of_the_jobs_now_after_much_work() {
        let cpu_pool = CpuPool::new(2);
        let jobs: Vec<_> = (0..6).map(|_| cpu_pool.job()).collect();
        *cpu_pool.average.lock() = AverageJobs {
            jobs: 40.0,
            at: Instant::now() + WINDOW,
        };
        assert_eq!(cpu_pool.load(), Load::of(6, 2));
        drop(jobs);
        assert_eq!(cpu_pool.load(), Load::NONE);
    }
}
