//! Systems without socket pairs between processes have no workers: originals are sent.
use std::{io, path::PathBuf, process::ExitStatus, time::Duration};

use longhaul_transcode::exchange::{Job, Reply};

use super::ask_error::AskError;

/// SIGKILL, which cannot be caught.
pub(super) const KILLED: i32 = 9;

/// The program of the workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// The running program.
    #[default]
    Running,
    /// A `longhaul-gateway` in this file.
    File(PathBuf),
}

/// Errors of starting a worker.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// The operating system cannot create the process.
    #[error("a picture worker cannot be started: {0}")]
    System(#[from] io::Error),
}

/// A worker, which cannot exist on these systems.
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
        _max_wait: Duration,
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
