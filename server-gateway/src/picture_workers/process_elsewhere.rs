//! Where there are no socket pairs between processes there are no workers: pictures go as they are.
use std::{io, path::PathBuf, process::ExitStatus, time::Duration};

use longhaul_transcode::exchange::{ExchangeError, Job, Reply};

/// The signal that nobody can catch.
pub(super) const KILLED: i32 = 9;

/// The program that workers run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// The one that runs now.
    #[default]
    Running,
    /// A `longhaul-gateway` in this file.
    File(PathBuf),
}

/// A worker that could not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// The system gives no process.
    #[error("a picture worker cannot be started: {0}")]
    System(#[from] io::Error),
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

/// There is none.
#[derive(Debug)]
pub(super) enum Worker {}

impl Worker {
    pub(super) async fn start(_program: &Program, _most_memory: u64) -> Result<Self, StartError> {
        std::future::ready(Err(io::Error::from(io::ErrorKind::Unsupported).into())).await
    }

    pub(super) fn is_alive(&mut self) -> bool {
        match *self {}
    }

    pub(super) async fn ask(
        &mut self,
        _job: &Job,
        _picture: &[u8],
        _patience: Duration,
    ) -> Result<Reply, AskError> {
        match *self {}
    }

    pub(super) async fn end(self) -> Option<ExitStatus> {
        match self {}
    }

    pub(super) fn signal(_status: ExitStatus) -> Option<i32> {
        None
    }
}
