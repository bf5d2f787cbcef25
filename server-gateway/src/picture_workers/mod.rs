//! Pictures are decoded and transcoded in processes of their own: what takes too much memory or time there, or makes a
//! decoder fail, costs one picture its smaller form and nobody anything else.
//!
//! The way of a picture: `demand` says what it will take, `queue` and `places` when it is its turn, `process` starts a
//! worker and asks it, `worker` is what runs there, within its `confinement`. Everything ends within a bound, at worst with
//! the original.
mod backoff;
mod confinement;
mod counters;
mod demand;
mod places;
#[cfg(unix)]
mod process;
#[cfg(not(unix))]
#[path = "process_elsewhere.rs"]
mod process;
mod queue;
mod worker;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use longhaul_transcode::{
    Header, Kind, Request,
    exchange::{Job, Refusal, Reply},
    inspect,
};
use longhaul_types::{ByteCount, PublicKey};
use tokio::{sync::oneshot, time::Instant};
use tracing::{debug, warn};

use self::{
    backoff::{Backoff, Suspects},
    counters::{Counters, Fate},
    places::{Place, Places},
    process::{AskError, Worker},
    queue::{Capacity, Demand},
};
pub use self::{
    process::Program,
    worker::{WorkerError, work},
};

/// What the operator sets, and what only tests set otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Memory of all pictures that are worked on at a time.
    pub memory: ByteCount,
    /// Pictures that are worked on at a time for one device; one worker more is for the others.
    pub workers: usize,
    /// What workers run.
    pub program: Program,
    /// How long everything may take.
    pub patience: Patience,
}

/// How long everything may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long a picture waits for a worker. A page of sixty pictures for the slowest links takes six seconds of two
    /// cores; from there on most originals are across before their smaller forms would be.
    pub queue: Duration,
    /// How long a picture may take to be made smaller.
    pub work: Duration,
    /// A worker that has not answered by then does not look at its clock: it is ended.
    pub answer: Duration,
    /// A worker without a picture for so long ends: users read a page in that time.
    pub idle: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            queue: Duration::from_secs(15),
            work: Duration::from_secs(8),
            answer: Duration::from_secs(10),
            idle: Duration::from_secs(30),
        }
    }
}

/// What became of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// A smaller WebP goes in its place.
    Smaller(Bytes),
    /// It goes as it is, and will whenever it is asked for.
    Kept,
    /// It goes as it is this time.
    NotNow,
}

/// The worker processes, and who waits for them.
#[derive(Clone, Debug)]
pub struct PictureWorkers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: Settings,
    places: Places<PublicKey>,
    state: Mutex<State>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct State {
    /// The one that became idle last is at the end, and is the next to work: the others can end.
    idle: Vec<(Worker, Instant)>,
    /// Whether somebody looks after the idle ones.
    is_swept: bool,
    starts: Backoff,
    suspects: Suspects<PublicKey>,
}

/// One picture in work.
struct Task {
    device: PublicKey,
    place: Place<PublicKey>,
    demand: Demand,
    job: Job,
    picture: Bytes,
}

impl PictureWorkers {
    /// Workers that will be started when there is a picture.
    pub fn new(settings: Settings) -> Self {
        let capacity = Capacity {
            memory: settings.memory.bytes(),
            workers: settings.workers,
        };
        Self(Arc::new(Shared {
            settings,
            places: Places::new(capacity),
            state: Mutex::default(),
            counters: Counters::default(),
        }))
    }

    /// The text form of what is counted (Prometheus).
    pub(crate) fn render(&self) -> String {
        let idle = self.0.lock().idle.len();
        self.0.counters.render(self.0.places.usage(), idle)
    }

    /// Whether a picture may ever be worked on.
    pub(crate) fn can(&self, picture: &[u8], header: &Header, request: &Request) -> bool {
        demand::of(picture, header, request).is_some_and(|demand| self.0.places.can(demand))
    }

    /// Makes a picture smaller, within a bounded time. `header` is the picture's. Cancel safe: who drops this frees the
    /// picture's place, and its worker goes on with another one.
    pub async fn transcode(
        &self,
        device: PublicKey,
        picture: Bytes,
        header: &Header,
        request: &Request,
    ) -> Made {
        let shared = &self.0;
        let patience = shared.settings.patience;
        let refused = |fate| {
            shared.counters.picture(fate);
            Made::NotNow
        };
        let Some(demand) = demand::of(&picture, header, request) else {
            return refused(Fate::TooLarge);
        };
        if !shared.lock().allows(device) {
            return refused(Fate::Suspended);
        }
        let place = match shared.places.enter(device, demand, patience.queue).await {
            Ok(place) => place,
            Err(places::NoPlace::Room(queue::NoRoom::TooLarge)) => return refused(Fate::TooLarge),
            Err(places::NoPlace::Room(queue::NoRoom::TooMany) | places::NoPlace::Late) => {
                return refused(Fate::Late);
            }
        };
        let task = Task {
            device,
            place,
            demand,
            job: Job {
                request: *request,
                milliseconds: u32::try_from(patience.work.as_millis()).unwrap_or(u32::MAX),
                memory: demand.memory,
            },
            picture,
        };
        let (answer, answered) = oneshot::channel();
        tokio::spawn(Arc::clone(shared).run(task, answer));
        answered.await.unwrap_or(Made::NotNow)
    }
}

impl State {
    fn allows(&self, device: PublicKey) -> bool {
        let now = Instant::now();
        self.starts.allows(now) && self.suspects.allows(device, now)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a picture worked on; what it took is free when this ends.
    async fn run(self: Arc<Self>, task: Task, mut answer: oneshot::Sender<Made>) {
        let Some(mut worker) = self.worker().await else {
            self.counters.picture(Fate::Suspended);
            // Who went away does not want to know.
            let _gone = answer.send(Made::NotNow);
            return;
        };
        let reply = tokio::select! {
            reply = worker.ask(&task.job, &task.picture, self.settings.patience.answer) => reply,
            () = answer.closed() => {
                self.counters.picture(Fate::Cancelled);
                worker.end().await;
                return;
            }
        };
        match reply {
            Ok(reply) => {
                let made = self.judge(reply);
                self.lock().suspects.succeeded(task.device);
                let _gone = answer.send(made);
                self.retire(worker, task).await;
            }
            Err(error) => self.mourn(worker, error, task, answer).await,
        }
    }

    /// An idle worker, or a new one.
    async fn worker(&self) -> Option<Worker> {
        loop {
            let Some((mut worker, _)) = self.lock().idle.pop() else {
                break;
            };
            if worker.is_alive() {
                return Some(worker);
            }
            self.counters.died();
        }
        let started = Worker::start(&self.settings.program, self.settings.memory.bytes()).await;
        let mut state = self.lock();
        match started {
            Ok(worker) => {
                state.starts = Backoff::default();
                self.counters.started();
                Some(worker)
            }
            Err(error) => {
                state.starts.failed(Instant::now());
                self.counters.failed_start();
                warn!(%error, "pictures go as they are for a while");
                None
            }
        }
    }

    /// What a worker's answer means. What it made must at least look like a WebP.
    fn judge(&self, reply: Reply) -> Made {
        let (fate, made) = match reply {
            Reply::Transcoded(webp) if inspect(&webp).is_ok_and(|header| header.kind == Kind::Webp) => {
                (Fate::Smaller, Made::Smaller(webp.into()))
            }
            Reply::Transcoded(_) | Reply::Ready => (Fate::Kept, Made::NotNow),
            Reply::Kept => (Fate::Kept, Made::Kept),
            Reply::Refused(Refusal::Time) => (Fate::TimedOut, Made::Kept),
            Reply::Refused(
                refusal @ (Refusal::Header | Refusal::Limit | Refusal::Pixels | Refusal::Encoder),
            ) => {
                // Its origin's doing: browsers may make something of it all the same.
                debug!(?refusal, "a picture goes as it is");
                (Fate::Kept, Made::Kept)
            }
        };
        self.counters.picture(fate);
        made
    }

    /// The worker waits for its next picture. One that worked on a large picture ends, with all the memory that it took.
    async fn retire(self: &Arc<Self>, worker: Worker, task: Task) {
        if task.demand.is_large {
            worker.end().await;
            return drop(task.place);
        }
        let mut state = self.lock();
        state.idle.push((worker, Instant::now()));
        if !state.is_swept {
            state.is_swept = true;
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        drop(state);
        drop(task.place);
    }

    /// A worker died of a picture, or was so slow that it is ended: nobody but the picture's device notices.
    async fn mourn(&self, worker: Worker, error: AskError, task: Task, answer: oneshot::Sender<Made>) {
        let is_late = matches!(error, AskError::Late);
        self.counters.died();
        self.counters
            .picture(if is_late { Fate::TimedOut } else { Fate::Died });
        let status = worker.end().await;
        // Nobody but the system or the operator kills a worker: that says nothing about the picture.
        let is_innocent =
            matches!(error, AskError::Gone(_)) && status.and_then(Worker::signal) == Some(process::KILLED);
        warn!(%error, status = ?status, "a picture goes as it is: its worker died");
        if !is_innocent {
            self.lock().suspects.failed(task.device, Instant::now());
        }
        let _gone = answer.send(if is_innocent { Made::NotNow } else { Made::Kept });
        drop(task.place);
    }
}

/// Ends workers that have been idle for long, until there is none.
async fn sweep(shared: Weak<Shared>) {
    loop {
        let next = {
            let Some(shared) = shared.upgrade() else { return };
            let patience = shared.settings.patience.idle;
            let mut state = shared.lock();
            let now = Instant::now();
            let old = state
                .idle
                .iter()
                .take_while(|(_, since)| now.saturating_duration_since(*since) >= patience)
                .count();
            let ended: Vec<_> = state.idle.drain(..old).collect();
            let next = state.idle.first().map(|(_, since)| *since + patience);
            state.is_swept = next.is_some();
            drop(state);
            // They are small: taking them apart takes no time.
            drop(ended);
            next
        };
        match next {
            Some(next) => tokio::time::sleep_until(next).await,
            None => return,
        }
    }
}
