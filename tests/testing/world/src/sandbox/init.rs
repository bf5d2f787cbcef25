//! The process with id 1: starts the worker, reaps orphans, and ends all processes.
use std::{
    convert::Infallible,
    env, io,
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    path::PathBuf,
    process::{self, Command},
    thread,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::wait::{WaitStatus, wait},
    unistd::Pid,
};

use super::{KEEP, ROLE, SCRATCH, WORKER, mounts};

/// Exit code after the end of the parent: no process reads it.
const PARENT_GONE: i32 = 1;
/// Added to a signal's number, as shells do.
const SIGNALLED: i32 = 128;

/// Errors of starting a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// A mount failed.
    #[error(transparent)]
    Mount(#[from] mounts::MountError),
    /// The worker could not be started.
    #[error("cannot start the worker in its sandbox: {0}")]
    Start(io::Error),
    /// Waiting for the worker failed.
    #[error("cannot wait for the worker: {0}")]
    Wait(Errno),
}

/// Starts this program again as the worker and ends the process with its exit code.
pub(super) fn run() -> Result<Infallible, InitError> {
    let keep: Vec<PathBuf> = env::var_os(KEEP)
        .map(|paths| {
            env::split_paths(&paths)
                .filter(|path| !path.as_os_str().is_empty())
                .collect()
        })
        .unwrap_or_default();
    let scratch = mounts::set_up(&keep)?;
    let mut arguments = env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let worker = command
        .args(arguments)
        .env(ROLE, WORKER)
        .env(SCRATCH, &scratch.root)
        .env("TMPDIR", &scratch.temporary)
        .env("HOME", &scratch.home)
        .spawn()
        .map_err(InitError::Start)?;
    thread::Builder::new()
        .name("parent watch".to_owned())
        .spawn(end_with_parent)
        .map_err(InitError::Start)?;
    reap_until_end_of(worker.id())
}

/// Ends the process when the other end of standard input is closed, that is, when the parent has ended.
fn end_with_parent() {
    let stdin = io::stdin();
    loop {
        // No events are requested: a hang-up of the other end is reported anyway, even with unread input.
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => process::exit(PARENT_GONE),
        }
        if fds[0].any().unwrap_or(true) {
            process::exit(PARENT_GONE);
        }
    }
}

/// Reaps every child, including adopted ones, until the worker has ended.
fn reap_until_end_of(worker: u32) -> Result<Infallible, InitError> {
    let is_worker = |pid: Pid| u32::try_from(pid.as_raw()).is_ok_and(|pid| pid == worker);
    loop {
        match wait() {
            Ok(WaitStatus::Exited(pid, code)) if is_worker(pid) => process::exit(code),
            Ok(WaitStatus::Signaled(pid, signal, _)) if is_worker(pid) => {
                process::exit(SIGNALLED + signal as i32)
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(InitError::Wait(error)),
        }
    }
}
