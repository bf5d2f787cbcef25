//! A worker as the gateway sees it: a child process at the other end of a socket pair.
use std::{
    io,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream as StdUnixStream, process::ExitStatusExt as _},
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use longhaul_transcode::exchange::{ExchangeError, Job, PREFIX, Reply, frame_length};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::timeout,
};

use super::ask_error::AskError;

/// Maximum time until a worker is ready: usually milliseconds, but the machine may be busy.
const START: Duration = Duration::from_secs(5);
/// Threshold in bytes above which glibc returns freed memory to the system at once, so that an idle worker is
/// small.
const KEPT: &str = "1048576";

/// SIGKILL, which cannot be caught: sent by the system when memory is exhausted, or by an operator.
pub(super) const KILLED: i32 = 9;

/// The program of the workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// The running program, even if its file has been replaced.
    #[default]
    Running,
    /// A `longhaul-gateway` in this file, for tests that run the gateway within another program.
    File(PathBuf),
}

impl Program {
    fn command(&self) -> io::Result<Command> {
        Ok(match self {
            Self::File(path) => Command::new(path),
            // The kernel resolves this path in the forked child, whose program is still that of the gateway.
            Self::Running if cfg!(target_os = "linux") => Command::new("/proc/self/exe"),
            Self::Running => Command::new(std::env::current_exe()?),
        })
    }
}

/// Errors of starting a worker.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// The operating system cannot create the process.
    #[error("a picture worker cannot be started: {0}")]
    System(#[from] io::Error),
    /// The process ended or did not report that it is ready.
    #[error("a picture worker did not report that it is ready: {0}")]
    NotReady(AskError),
}

/// A process that transcodes one image at a time. Dropping this value ends the process.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    stream: UnixStream,
}

impl Worker {
    /// Starts a worker whose images take at most `most_memory` bytes, and waits until it is confined.
    pub(super) async fn start(program: &Program, most_memory: u64) -> Result<Self, StartError> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let stream = UnixStream::from_std(ours)?;
        // The child inherits only these descriptors: all others are close-on-exec.
        let child = program
            .command()?
            .args(["picture-worker", "--memory", &most_memory.to_string()])
            .env_clear()
            .env("MALLOC_ARENA_MAX", "1")
            .env("MALLOC_MMAP_THRESHOLD_", KEPT)
            .env("MALLOC_TRIM_THRESHOLD_", KEPT)
            .stdin(OwnedFd::from(theirs.try_clone()?))
            .stdout(OwnedFd::from(theirs))
            .stderr(Stdio::null())
            .spawn()?;
        let mut worker = Self { child, stream };
        let ready = timeout(START, worker.reply(1)).await;
        match ready.map_err(|_| AskError::Late).flatten() {
            Ok(Reply::Ready) => Ok(worker),
            Ok(Reply::Transcoded(_) | Reply::Kept | Reply::Refused(_)) => {
                Err(StartError::NotReady(AskError::Nonsense(ExchangeError::Number)))
            }
            Err(error) => Err(StartError::NotReady(error)),
        }
    }

    /// Returns true if the process is running.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends an image and waits for the reply. After an error the worker is unusable.
    pub(super) async fn ask(
        &mut self,
        job: &Job,
        picture: &[u8],
        max_wait: Duration,
    ) -> Result<Reply, AskError> {
        let head = job.encode(picture.len())?;
        let asked = async {
            self.stream.write_all(&head).await?;
            self.stream.write_all(picture).await?;
            self.reply(Reply::longest(picture.len())).await
        };
        match timeout(max_wait, asked).await {
            Ok(Ok(Reply::Ready)) => Err(ExchangeError::Number.into()),
            Ok(answer) => answer,
            Err(_) => Err(AskError::Late),
        }
    }

    async fn reply(&mut self, most: usize) -> Result<Reply, AskError> {
        let mut prefix = [0; PREFIX];
        self.stream.read_exact(&mut prefix).await?;
        let length = frame_length(prefix, most)?;
        // The buffer grows with the received bytes, not with the announced length.
        let mut frame = Vec::new();
        let mut stream = (&mut self.stream).take(length as u64);
        stream.read_to_end(&mut frame).await?;
        if frame.len() < length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(Reply::decode(&frame)?)
    }

    /// Kills the process and waits until its memory is released; returns its exit status.
    pub(super) async fn end(self) -> Option<ExitStatus> {
        // Releasing a large process takes some milliseconds.
        tokio::task::spawn_blocking(move || {
            let mut worker = self;
            worker.kill()
        })
        .await
        .ok()
        .flatten()
    }

    fn kill(&mut self) -> Option<ExitStatus> {
        // Fails if the process has just ended, which is harmless.
        let _ended = self.child.kill();
        self.child.wait().ok()
    }

    /// The signal that killed the process.
    pub(super) fn signal(status: ExitStatus) -> Option<i32> {
        status.signal()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Does nothing if the process has already been waited for.
        self.kill();
    }
}
