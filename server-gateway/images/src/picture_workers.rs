//! Transcoding in separate processes: an image that exhausts memory or time or crashes a decoder is sent as
//! the original, and affects nothing else.
//!
//! `demand` estimates an image's needs, `queue` and `worker_slots` schedule it, `process` starts a worker and sends
//! it the image, `worker` runs in that process, within its `confinement`. Every wait is bounded and ends, at
//! worst, with the original.
mod ask_error;
mod backoff;
mod confinement;
mod counters;
mod demand;
#[cfg(unix)]
mod process;
#[cfg(not(unix))]
#[path = "picture_workers/process_elsewhere.rs"]
mod process;
mod queue;
mod worker;
mod worker_slots;

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use bytes::Bytes;
use longhaul_transcode::{
    Header, ImageFormat, Request,
    exchange::{Job, Refusal, Reply},
    inspect,
};
use longhaul_types::{ByteCount, PublicKey};
use prometheus_client::registry::Registry;
use tokio::{sync::oneshot, time::Instant};
use tracing::{debug, warn};

use self::{
    ask_error::AskError,
    backoff::{Backoff, Suspects},
    counters::{Counters, Fate},
    process::Worker,
    queue::{Capacity, Demand},
    worker_slots::{WorkerSlot, WorkerSlots},
};
pub use self::{
    process::Program,
    worker::{WorkerError, work},
};

/// Settings of the operator, and some that only tests change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Memory for all images that are transcoded at the same time.
    pub memory: ByteCount,
    /// Images of one device that are transcoded at the same time; one additional worker is reserved for other
    /// devices.
    pub workers: usize,
    /// Program of the workers.
    pub program: Program,
    /// Time limits.
    pub timeouts: TranscodeTimeouts,
}

/// Time limits of transcoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranscodeTimeouts {
    /// Maximum wait of an image for a worker. Sixty images of a page for the slowest links take six seconds
    /// of two cores; beyond this limit most originals would arrive before their smaller forms.
    pub queue: Duration,
    /// Maximum time of one transcoding, checked by the worker.
    pub work: Duration,
    /// Time after which the gateway ends a worker that has not answered, because the worker ignores its own
    /// limit.
    pub answer: Duration,
    /// Idle time after which a worker ends; users read a page meanwhile.
    pub idle: Duration,
}

impl Default for TranscodeTimeouts {
    fn default() -> Self {
        Self {
            queue: Duration::from_secs(15),
            work: Duration::from_secs(8),
            answer: Duration::from_secs(10),
            idle: Duration::from_secs(30),
        }
    }
}

/// Result for an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// This smaller WebP image replaces the original.
    Smaller(Bytes),
    /// The original is sent, now and for every later request.
    Kept,
    /// The original is sent this time.
    NotNow,
}

/// The worker processes and the queue of images.
#[derive(Clone, Debug)]
pub struct PictureWorkers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: Settings,
    worker_slots: WorkerSlots<PublicKey>,
    state: Mutex<State>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct State {
    /// Idle workers, the most recently used last. The last one works next, so that the others can end.
    idle: Vec<(Worker, Instant)>,
    /// True if a task ends idle workers.
    is_swept: bool,
    starts: Backoff,
    suspects: Suspects<PublicKey>,
}

/// One image that is being transcoded.
struct Task {
    device: PublicKey,
    slot: WorkerSlot<PublicKey>,
    demand: Demand,
    job: Job,
    picture: Bytes,
}

impl PictureWorkers {
    /// Creates the pool; workers start with the first images.
    pub fn new(settings: Settings) -> Self {
        let capacity = Capacity {
            memory: settings.memory.bytes(),
            workers: settings.workers,
        };
        Self(Arc::new(Shared {
            settings,
            worker_slots: WorkerSlots::new(capacity),
            state: Mutex::default(),
            counters: Counters::default(),
        }))
    }

    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let idle = self.0.lock().idle.len();
        self.0
            .counters
            .register(registry, self.0.worker_slots.usage(), idle);
    }

    /// Returns true if an image could ever be transcoded within the limits.
    pub fn can(&self, picture: &[u8], header: &Header, request: &Request) -> bool {
        demand::of(picture, header, request).is_some_and(|demand| self.0.worker_slots.can(demand))
    }

    /// Transcodes an image within a bounded time; also returns the time that a worker took, from its start if it had to
    /// be started. `header` is the image's header. Cancel safe: dropping the future releases the image's slot.
    pub async fn transcode(
        &self,
        device: PublicKey,
        picture: Bytes,
        header: &Header,
        request: &Request,
    ) -> (Made, Duration) {
        let shared = &self.0;
        let timeouts = shared.settings.timeouts;
        let refused = |fate| {
            shared.counters.picture(fate);
            (Made::NotNow, Duration::ZERO)
        };
        let Some(demand) = demand::of(&picture, header, request) else {
            return refused(Fate::TooLarge);
        };
        if !shared.lock().allows(device) {
            return refused(Fate::Suspended);
        }
        let slot = match shared.worker_slots.enter(device, demand, timeouts.queue).await {
            Ok(slot) => slot,
            Err(worker_slots::SlotRefusal::Room(queue::NoRoom::TooLarge)) => return refused(Fate::TooLarge),
            Err(
                worker_slots::SlotRefusal::Room(queue::NoRoom::TooMany) | worker_slots::SlotRefusal::Late,
            ) => {
                return refused(Fate::Late);
            }
        };
        let task = Task {
            device,
            slot,
            demand,
            job: Job {
                request: *request,
                milliseconds: u32::try_from(timeouts.work.as_millis()).unwrap_or(u32::MAX),
                memory: demand.memory,
            },
            picture,
        };
        let (answer, answered) = oneshot::channel();
        tokio::spawn(Arc::clone(shared).run(task, answer));
        answered.await.unwrap_or((Made::NotNow, Duration::ZERO))
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
        self.state.lock()
    }

    /// Runs one image on a worker; releases its resources at the end.
    async fn run(self: Arc<Self>, task: Task, mut answer: oneshot::Sender<(Made, Duration)>) {
        let begun = Instant::now();
        let Some(mut worker) = self.worker().await else {
            self.counters.picture(Fate::Suspended);
            // Fails if the request was cancelled, which is harmless.
            let _gone = answer.send((Made::NotNow, Duration::ZERO));
            return;
        };
        let reply = tokio::select! {
            reply = worker.ask(&task.job, &task.picture, self.settings.timeouts.answer) => reply,
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
                let _gone = answer.send((made, begun.elapsed()));
                self.retire(worker, task).await;
            }
            Err(error) => self.mourn(worker, error, task, answer).await,
        }
    }

    /// Returns an idle worker or starts a new one.
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
                warn!(%error, "no picture worker can be started; images are sent unchanged for a while");
                None
            }
        }
    }

    /// Interprets a worker's reply. A transcoded image must at least have a WebP header.
    fn judge(&self, reply: Reply) -> Made {
        let (fate, made) = match reply {
            Reply::Transcoded(webp)
                if inspect(&webp).is_ok_and(|header| header.format == ImageFormat::Webp) =>
            {
                (Fate::Smaller, Made::Smaller(webp.into()))
            }
            Reply::Transcoded(_) | Reply::Ready => (Fate::Kept, Made::NotNow),
            Reply::Kept => (Fate::Kept, Made::Kept),
            Reply::Refused(Refusal::Time) => (Fate::TimedOut, Made::Kept),
            Reply::Refused(
                refusal @ (Refusal::Header | Refusal::Limit | Refusal::Pixels | Refusal::Encoder),
            ) => {
                // The image itself is defective; browsers may still display it.
                debug!(?refusal, "an image is sent unchanged");
                (Fate::Kept, Made::Kept)
            }
        };
        self.counters.picture(fate);
        made
    }

    /// Returns a worker to the idle list. A worker that transcoded a large image ends, to release its memory.
    async fn retire(self: &Arc<Self>, worker: Worker, task: Task) {
        if task.demand.is_large {
            worker.end().await;
            return drop(task.slot);
        }
        let mut state = self.lock();
        state.idle.push((worker, Instant::now()));
        if !state.is_swept {
            state.is_swept = true;
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        drop(state);
        drop(task.slot);
    }

    /// Handles the failure or timeout of a worker; only the image's device is affected.
    async fn mourn(
        &self,
        worker: Worker,
        error: AskError,
        task: Task,
        answer: oneshot::Sender<(Made, Duration)>,
    ) {
        let is_late = matches!(error, AskError::Late);
        self.counters.died();
        self.counters
            .picture(if is_late { Fate::TimedOut } else { Fate::Died });
        let status = worker.end().await;
        // Only the operating system or the operator sends this signal, so it says nothing about the image.
        let is_innocent =
            matches!(error, AskError::Gone(_)) && status.and_then(Worker::signal) == Some(process::KILLED);
        warn!(%error, status = ?status, "an image is sent unchanged: its picture worker ended");
        if !is_innocent {
            self.lock().suspects.failed(task.device, Instant::now());
        }
        let made = if is_innocent { Made::NotNow } else { Made::Kept };
        let _gone = answer.send((made, Duration::ZERO));
        drop(task.slot);
    }
}

/// Ends workers that exceed the idle time, until none is left.
async fn sweep(shared: Weak<Shared>) {
    loop {
        let next = {
            let Some(shared) = shared.upgrade() else { return };
            let max_idle = shared.settings.timeouts.idle;
            let mut state = shared.lock();
            let now = Instant::now();
            let old = state
                .idle
                .iter()
                .take_while(|(_, since)| now.saturating_duration_since(*since) >= max_idle)
                .count();
            let ended: Vec<_> = state.idle.drain(..old).collect();
            let next = state.idle.first().map(|(_, since)| *since + max_idle);
            state.is_swept = next.is_some();
            drop(state);
            // Idle workers are small, so ending them is fast.
            drop(ended);
            next
        };
        match next {
            Some(next) => tokio::time::sleep_until(next).await,
            None => return,
        }
    }
}
