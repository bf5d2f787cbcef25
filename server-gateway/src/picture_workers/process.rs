//! One worker, as the gateway sees it: a child process at the other end of a socket pair.
use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream, unix::process::ExitStatusExt as _},
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

/// How long a worker may take to be ready: it takes milliseconds, but the machine may be busy.
const START: Duration = Duration::from_secs(5);
/// glibc gives memory back to the system at once, beyond this many bytes, so that an idle worker is small.
const KEPT: &str = "1048576";

/// The signal that nobody can catch: from the system when memory is out, or from an operator.
pub(super) const KILLED: i32 = 9;

/// The program that workers run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// The one that runs now, also if its file has been replaced meanwhile.
    #[default]
    Running,
    /// A `longhaul-gateway` in this file, for tests that run the gateway within another program.
    File(PathBuf),
}

impl Program {
    fn command(&self) -> io::Result<Command> {
        Ok(match self {
            Self::File(path) => Command::new(path),
            // The kernel resolves this within the child, which still is what it was copied from.
            Self::Running if cfg!(target_os = "linux") => Command::new("/proc/self/exe"),
            Self::Running => Command::new(std::env::current_exe()?),
        })
    }
}

/// A worker that could not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// The system gives no process.
    #[error("a picture worker cannot be started: {0}")]
    System(#[from] io::Error),
    /// It ended, or said something else than that it is ready.
    #[error("a picture worker does not get ready: {0}")]
    NotReady(AskError),
}

/// A worker that did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// It is gone.
    #[error("a picture worker is gone: {0}")]
    Gone(#[from] io::Error),
    /// What it says makes no sense.
    #[error("a picture worker talks nonsense: {0}")]
    Nonsense(#[from] ExchangeError),
    /// It takes too long.
    #[error("a picture worker takes too long")]
    Late,
}

/// A process that transcodes one picture at a time. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    stream: UnixStream,
}

impl Worker {
    /// Starts one whose pictures take so much memory at most, and waits until it is confined.
    pub(super) async fn start(program: &Program, most_memory: u64) -> Result<Self, StartError> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let stream = UnixStream::from_std(ours)?;
        // It begins with nothing of ours but these descriptors: all others are closed on execution.
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

    /// Whether it lives.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Gives it a picture and waits for what becomes of it. After an error it is of no use any more.
    pub(super) async fn ask(
        &mut self,
        job: &Job,
        picture: &[u8],
        patience: Duration,
    ) -> Result<Reply, AskError> {
        let head = job.encode(picture.len())?;
        let asked = async {
            self.stream.write_all(&head).await?;
            self.stream.write_all(picture).await?;
            self.reply(Reply::longest(picture.len())).await
        };
        match timeout(patience, asked).await {
            Ok(Ok(Reply::Ready)) => Err(ExchangeError::Number.into()),
            Ok(answer) => answer,
            Err(_) => Err(AskError::Late),
        }
    }

    async fn reply(&mut self, most: usize) -> Result<Reply, AskError> {
        let mut prefix = [0; PREFIX];
        self.stream.read_exact(&mut prefix).await?;
        let length = frame_length(prefix, most)?;
        // It grows with what comes, not with what is announced.
        let mut frame = Vec::new();
        let mut stream = (&mut self.stream).take(length as u64);
        stream.read_to_end(&mut frame).await?;
        if frame.len() < length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(Reply::decode(&frame)?)
    }

    /// Kills it and waits until its memory is free; how it ended, if it had not been killed by this.
    pub(super) async fn end(self) -> Option<ExitStatus> {
        // A large process takes some milliseconds to be taken apart.
        tokio::task::spawn_blocking(move || {
            let mut worker = self;
            worker.kill()
        })
        .await
        .ok()
        .flatten()
    }

    fn kill(&mut self) -> Option<ExitStatus> {
        // It may have ended by itself just now: the signal then reaches nobody.
        let _ended = self.child.kill();
        self.child.wait().ok()
    }

    /// The signal that killed it.
    pub(super) fn signal(status: ExitStatus) -> Option<i32> {
        status.signal()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Nothing happens to one that has been waited for.
        self.kill();
    }
}
