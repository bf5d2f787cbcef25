//! A network namespace and its thread.
use std::{
    any::Any,
    future::Future,
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::mpsc as blocking,
    thread::{self, JoinHandle, ThreadId},
};

use futures_util::FutureExt as _;
use nix::{
    errno::Errno,
    sched::{CloneFlags, unshare},
};
use tokio::{
    runtime,
    sync::{mpsc, oneshot},
    task::{LocalSet, spawn_local},
};

type Job = Box<dyn FnOnce() + Send>;

/// Errors of creating a namespace.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// The kernel denied permission.
    #[error(
        "this process may not make network namespaces ({0}): run as root, or start it through the sandbox, which uses a user \
         namespace where the system allows them; in a container, CAP_SYS_ADMIN and CAP_NET_ADMIN are needed"
    )]
    Refused(Errno),
    /// The thread or its event loop could not be started.
    #[error("cannot start a thread for a network namespace: {0}")]
    Thread(#[from] io::Error),
    /// The thread ended before it could report the reason.
    #[error("the thread of a network namespace ended while it started")]
    Died,
}

/// A handle to a network namespace. Clones refer to the same one; it exists as long as its
/// [`World`](crate::World) or [`NamespaceThread`].
#[derive(Clone, Debug)]
pub struct Namespace {
    name: &'static str,
    thread: ThreadId,
    // Unbounded, because each job is one call of `run` or `run_blocking` whose caller waits for it: the
    // number of callers is the bound.
    jobs: mpsc::UnboundedSender<Job>,
}

/// The thread of a namespace; dropping it ends the namespace.
#[derive(Debug)]
pub struct NamespaceThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Namespace {
    /// Creates an empty namespace; even the loopback device is inactive. For networks that a
    /// [`World`](crate::World) does not offer.
    ///
    /// # Errors
    /// The privileges are missing, or the thread cannot be started.
    pub fn create(name: &'static str) -> Result<(Self, NamespaceThread), NamespaceError> {
        let (jobs, queue) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = blocking::channel();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let runtime = match enter() {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            let _ = ready.send(Ok(()));
            LocalSet::new().block_on(&runtime, serve(queue, stopped));
            // A blocking call that does not return (a name lookup) must not prevent the end of the world.
            runtime.shutdown_background();
        })?;
        let id = thread.thread().id();
        let owner = NamespaceThread {
            stop: Some(stop),
            thread: Some(thread),
        };
        started.recv().map_err(|_| NamespaceError::Died)??;
        let namespace = Self {
            name,
            thread: id,
            jobs,
        };
        Ok((namespace, owner))
    }

    /// Its name: `client`, `gateway` or `origins`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs a future on this namespace's thread: every socket that it opens and every process that it starts
    /// is in the namespace. The thread has its own tokio runtime with all features enabled, and a `LocalSet`:
    /// `tokio::spawn` and `spawn_local` work, and spawned tasks continue after the end of the future until
    /// the world is dropped.
    ///
    /// Dropping the returned future drops the running future.
    ///
    /// # Panics
    /// With the future's own panic; and if the world has been dropped.
    pub async fn run<T, F>(&self, make: impl FnOnce() -> F + Send + 'static) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (mut answer, outcome) = oneshot::channel();
        self.submit(Box::new(move || {
            spawn_local(async move {
                let work = AssertUnwindSafe(async move { make().await }).catch_unwind();
                tokio::select! {
                    biased;
                    outcome = work => {
                        let _ = answer.send(outcome);
                    }
                    () = answer.closed() => {}
                }
            });
        }));
        unwrap_outcome(self.name, outcome.await.ok())
    }

    /// Runs `f` on this namespace's thread and waits for it. Nothing else runs on that thread meanwhile, so
    /// use it only for short operations: opening a socket, reading a file of `/proc`.
    ///
    /// # Panics
    /// With the panic of `f`; and if the world has been dropped.
    pub fn run_blocking<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> T {
        if thread::current().id() == self.thread {
            return f();
        }
        let (answer, outcome) = blocking::channel();
        self.submit(Box::new(move || {
            let _ = answer.send(catch_unwind(AssertUnwindSafe(f)));
        }));
        unwrap_outcome(self.name, outcome.recv().ok())
    }

    fn submit(&self, job: Job) {
        // If the thread has ended, the job is dropped together with the sender of its result, and the caller
        // detects this at the receiver.
        let _ = self.jobs.send(job);
    }
}

fn unwrap_outcome<T>(name: &str, outcome: Option<Result<T, Box<dyn Any + Send>>>) -> T {
    match outcome {
        Some(Ok(value)) => value,
        Some(Err(panic)) => resume_unwind(panic),
        None => panic!("the namespace `{name}` is gone: its world has been dropped"),
    }
}

fn enter() -> Result<runtime::Runtime, NamespaceError> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(NamespaceError::Refused)?;
    Ok(runtime::Builder::new_current_thread().enable_all().build()?)
}

async fn serve(mut queue: mpsc::UnboundedReceiver<Job>, mut stopped: oneshot::Receiver<()>) {
    loop {
        tokio::select! {
            _ = &mut stopped => return,
            job = queue.recv() => match job {
                Some(job) => job(),
                None => return,
            }
        }
    }
}

impl Drop for NamespaceThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        let Some(thread) = self.thread.take() else { return };
        if thread::current().id() != thread.thread().id() {
            // Its panics have been passed to their callers.
            let _ = thread.join();
        }
    }
}
