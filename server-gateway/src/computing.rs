//! The threads for computing: as many jobs at a time as there are cores, devices in turn, how many wait, and when there are
//! none.
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use longhaul_codec::Load;
use longhaul_origin::{FairShares, Shares};
use longhaul_types::PublicKey;
use tokio::{sync::watch, time::sleep};

/// Over how long jobs are averaged. A page's pictures and texts come at once, and are made while the first of them cross a
/// slow link: for their sake alone none of them should take more bytes. Who has more to do than the cores can for longer
/// than this is overloaded.
const WINDOW: Duration = Duration::from_secs(5);

/// What computes for all sessions.
#[derive(Debug)]
pub(crate) struct Computing {
    cores: usize,
    /// Jobs of a device stand in its own queue: a hundred of one do not delay another's first. `None` is the gateway.
    places: Arc<FairShares<Option<PublicKey>>>,
    jobs: AtomicUsize,
    lasting: Mutex<Lasting>,
    work: watch::Sender<Work>,
    /// Nanoseconds of all jobs.
    spent: AtomicU64,
}

/// The average of jobs, each time's share falling by the factor e within [`WINDOW`].
#[derive(Clone, Copy, Debug)]
struct Lasting {
    jobs: f64,
    at: Instant,
}

impl Lasting {
    /// Until now there were so many jobs.
    fn pass(&mut self, jobs: usize, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        let kept = (-passed / WINDOW.as_secs_f64()).exp();
        let jobs = f64::from(u32::try_from(jobs).unwrap_or(u32::MAX));
        self.jobs = self.jobs * kept + jobs * (1.0 - kept);
        self.at = now;
    }
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
pub(crate) struct Job(Busy);

impl Drop for Job {
    fn drop(&mut self) {
        let computing = &self.0.0;
        computing.pass();
        computing.jobs.fetch_sub(1, Relaxed);
    }
}

impl Computing {
    pub(crate) fn new(cores: usize) -> Arc<Self> {
        let cores = cores.max(1);
        Arc::new(Self {
            cores,
            places: FairShares::new(Shares {
                total: cores,
                per_owner: cores,
                reserved: 0,
                // Streams have one job each at a time, and are bounded themselves.
                waiting: usize::MAX,
            }),
            jobs: AtomicUsize::new(0),
            lasting: Mutex::new(Lasting {
                jobs: 0.0,
                at: Instant::now(),
            }),
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

    /// How many jobs there are and have been for a while.
    pub(crate) fn load(&self) -> Load {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and `as` saturates"
        )]
        let lasting = self.pass() as usize;
        Load::of(self.jobs().min(lasting), self.cores)
    }

    /// Brings the average up to now.
    fn pass(&self) -> f64 {
        let mut lasting = self.lasting.lock().unwrap_or_else(PoisonError::into_inner);
        lasting.pass(self.jobs(), Instant::now());
        lasting.jobs
    }

    /// Time of all jobs of [`Self::run`] together.
    pub(crate) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Relaxed))
    }

    /// Runs `work` for a device on a thread of its own when it is its turn: as many at a time as there are cores, more would
    /// only take turns. It learns how many there are then.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        device: Option<PublicKey>,
        work: impl FnOnce(Load) -> T + Send + 'static,
    ) -> Result<T, Interrupted> {
        let job = self.job();
        let place = self.places.acquire(device).await;
        let place = place.map_err(|_| Interrupted)?;
        let this = Arc::clone(self);
        let ran = tokio::task::spawn_blocking(move || {
            // Also if nobody waits for it any more: the core is taken until it ends.
            let _until_the_end = (place, job);
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
        self.pass();
        self.jobs.fetch_add(1, Relaxed);
        Job(self.busy())
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

    #[test]
    fn what_lasts_is_load_and_a_burst_is_none() {
        let begun = Instant::now();
        let mut lasting = Lasting { jobs: 0.0, at: begun };
        lasting.pass(0, begun + WINDOW);
        // A page of forty pictures, a second of computing on two cores.
        lasting.pass(40, begun + WINDOW + Duration::from_millis(100));
        lasting.pass(5, begun + WINDOW + Duration::from_millis(500));
        assert!(lasting.jobs < 2.0, "{lasting:?}");
        lasting.pass(0, begun + 2 * WINDOW);
        assert!(lasting.jobs < 0.5, "{lasting:?}");
        // Many users, for a while.
        lasting.pass(40, begun + 3 * WINDOW);
        assert!(lasting.jobs > 25.0, "{lasting:?}");
        lasting.pass(40, begun + 9 * WINDOW);
        assert!(lasting.jobs > 39.0, "{lasting:?}");
        lasting.pass(40, begun);
        assert!(lasting.jobs > 39.0, "a clock that stands still");
    }

    #[tokio::test]
    async fn what_waits_is_counted() {
        let computing = Computing::new(2);
        let (mut ends, mut running) = (Vec::new(), Vec::new());
        for _ in 0..6 {
            let (end, ended) = oneshot::channel::<()>();
            ends.push(end);
            let computing = Arc::clone(&computing);
            running.push(tokio::spawn(async move {
                computing
                    .run(None, move |load| {
                        let _ended = ended.blocking_recv();
                        load.permille()
                    })
                    .await
            }));
        }
        while computing.jobs() < 6 {
            tokio::task::yield_now().await;
        }
        assert!(computing.load() <= Load::of(6, 2));
        drop(ends);
        let mut loads = Vec::new();
        for job in running {
            loads.push(job.await.unwrap().unwrap());
        }
        assert!(loads.iter().all(|load| *load <= 3000), "{loads:?}");
        assert_eq!(computing.load(), Load::NONE);
        assert!(computing.spent() > Duration::ZERO);
    }

    #[tokio::test]
    async fn a_job_that_nobody_waits_for_is_not_run() {
        let computing = Computing::new(1);
        let (end, ended) = oneshot::channel::<()>();
        let mut first = Box::pin(computing.run(None, move |_| {
            let _ended = ended.blocking_recv();
        }));
        assert!((&mut first).now_or_never().is_none());
        let mut second = Box::pin(computing.run(None, |_| ()));
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(computing.jobs(), 2);
        drop(second);
        assert_eq!(computing.jobs(), 1);
        drop(end);
        first.await.unwrap();
        assert_eq!(computing.jobs(), 0);
    }

    #[tokio::test]
    async fn devices_compute_in_turn() {
        let computing = Computing::new(1);
        let (end, ended) = oneshot::channel::<()>();
        let (ran, order) = std::sync::mpsc::channel();
        let mut jobs = vec![
            Box::pin(computing.run(Some(PublicKey::from_bytes([1; 32])), move |_| {
                let _ended = ended.blocking_recv();
            })) as std::pin::Pin<Box<dyn Future<Output = Result<(), Interrupted>>>>,
        ];
        // The first device's jobs stand in a row before the second's comes.
        for device in [1, 1, 1, 1, 2] {
            let ran = ran.clone();
            let work = move |_: Load| {
                let _heard = ran.send(device);
            };
            jobs.push(Box::pin(
                computing.run(Some(PublicKey::from_bytes([device; 32])), work),
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
