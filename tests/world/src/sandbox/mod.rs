//! The worker process that a world lives in, and that leaves nothing behind.
//!
//! A parent starts the worker through [`Sandbox::command`], which puts `unshare` (util-linux) in front of it: a process
//! namespace of its own, a mount namespace of its own, and without root a user namespace. The worker calls [`enter`] before
//! anything else. In the process with id 1 that call never returns: it sets up the mounts, runs the same program again as
//! its child and is the `init` that adopts and reaps orphans (browsers make them). In that child it returns, and the worker
//! is an ordinary process: nothing competes for its children's exit statuses.
//!
//! Everything dies together: when the worker ends, `init` ends, and the kernel kills whatever else is in the process
//! namespace. When the parent dies, even by SIGKILL, the worker's standard input closes, and `init` ends. When `unshare` is
//! killed, the kernel kills `init`. Mounts, temporary files and network namespaces go with the processes.
//!
//! So the parent must hold the worker's standard input open for as long as the worker is wanted. `Child::wait` of std and
//! of tokio close it: take it out of the handle first (`child.stdin.take()`).
use std::{
    env,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

mod init;
mod mounts;

pub use init::InitError;
pub use mounts::MountError;

/// Tells a process of the sandbox what it is: [`INIT`] or [`WORKER`].
const ROLE: &str = "LONGHAUL_SANDBOX";
const INIT: &str = "init";
const WORKER: &str = "worker";
/// The paths that must stay visible, as in `PATH`.
const KEEP: &str = "LONGHAUL_SANDBOX_KEEP";
/// Where the temporary files are.
const SCRATCH: &str = "LONGHAUL_SANDBOX_SCRATCH";

/// Without a user namespace, for root.
const AS_ROOT: &[&str] = &["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
/// With one.
const AS_USER: &[&str] = &[
    "--user",
    "--map-root-user",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];

/// Why no sandbox can be made here.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// `unshare` is not there.
    #[error("cannot run `unshare`: {0}; install the package util-linux")]
    Unshare(io::Error),
    /// The system allows no namespaces.
    #[error(
        "this system does not let us make namespaces ({message}): run as root, or enable unprivileged user namespaces \
         (`sysctl kernel.unprivileged_userns_clone=1` on Debian, `sysctl kernel.apparmor_restrict_unprivileged_userns=0` on \
         Ubuntu, `user.max_user_namespaces` above 0 elsewhere); a container needs CAP_SYS_ADMIN and CAP_NET_ADMIN"
    )]
    Refused {
        /// What `unshare` printed.
        message: String,
    },
}

/// Why a process is not in a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// Nobody made one for it.
    #[error(
        "this process was not started through the sandbox; it is a part of the command, not a command of its own"
    )]
    NotSandboxed,
    /// The process with id 1 could not do its work.
    #[error(transparent)]
    Init(#[from] InitError),
}

/// How workers are started on this system.
#[derive(Clone, Debug)]
pub struct Sandbox {
    flags: &'static [&'static str],
    keep: Vec<PathBuf>,
}

impl Sandbox {
    /// Finds out how, by trying.
    ///
    /// # Errors
    /// `unshare` is missing, or the system allows no namespaces.
    pub fn probe() -> Result<Self, SandboxError> {
        let ways: &[_] = if nix::unistd::geteuid().is_root() {
            &[AS_ROOT, AS_USER]
        } else {
            &[AS_USER]
        };
        let mut message = String::new();
        for flags in ways {
            let output = Command::new("unshare")
                .args(*flags)
                .arg("true")
                .stdin(Stdio::null())
                .output()
                .map_err(SandboxError::Unshare)?;
            if output.status.success() {
                return Ok(Self {
                    flags,
                    keep: Vec::new(),
                });
            }
            message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        }
        Err(SandboxError::Refused { message })
    }

    /// Has the sandbox leave `path` visible: the worker reads it. The program, the working folder and the folders of `PATH`
    /// stay visible in any case.
    #[must_use]
    pub fn keep(mut self, path: impl Into<PathBuf>) -> Self {
        self.keep.push(path.into());
        self
    }

    /// The command that starts `program` as a worker, with pipes for its standard input and output. The program must call
    /// [`enter`] first. Killing the process that this starts kills all of the worker's.
    ///
    /// # Errors
    /// A kept path contains a colon, and so cannot be handed on.
    pub fn command<A: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Command, env::JoinPathsError> {
        let mut command = Command::new("unshare");
        command
            .args(self.flags)
            .arg("--")
            .arg(program)
            .args(args)
            .env(ROLE, INIT)
            .env(KEEP, env::join_paths(&self.keep)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Ok(command)
    }
}

/// The sandbox from inside.
#[derive(Clone, Debug)]
pub struct Inside {
    scratch: PathBuf,
}

impl Inside {
    /// The folder of temporary files, in memory and of limited size, private to this worker. `TMPDIR` and `HOME` lead into it,
    /// so that the programs that the worker starts find it by themselves.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }
}

/// To be called first in a worker: see the [module](self).
///
/// # Errors
/// The process was not started through [`Sandbox::command`], or the mounts could not be made.
pub fn enter() -> Result<Inside, EnterError> {
    let role = env::var_os(ROLE);
    let role = role.as_deref().and_then(OsStr::to_str);
    match (role, env::var_os(SCRATCH)) {
        (Some(INIT), _) if std::process::id() == 1 => match init::run()? {},
        (Some(WORKER), Some(scratch)) => Ok(Inside {
            scratch: scratch.into(),
        }),
        _ => Err(EnterError::NotSandboxed),
    }
}
