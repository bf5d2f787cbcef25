//! The worker process of a world, which leaves no processes, mounts or files behind.
//!
//! A parent starts the worker through [`Sandbox::command`], which runs it by `unshare` (util-linux): in its
//! own process namespace, its own mount namespace and, without root, its own user namespace. The worker calls
//! [`enter`] first. In the process with id 1 that call never returns: the process sets up the mounts, runs
//! the same program again as its child and acts as the `init` that adopts and reaps orphans (browsers create
//! them). In that child the call returns, and the worker is an ordinary process: no other code waits for its
//! children.
//!
//! All processes end together: when the worker ends, `init` ends, and the kernel kills all other processes of
//! the process namespace. When the parent ends, even by SIGKILL, the worker's standard input closes, and
//! `init` ends. When `unshare` is killed, the kernel kills `init`. Mounts, temporary files and network
//! namespaces are removed with the processes.
//!
//! Therefore the parent must keep the worker's standard input open while it needs the worker. `Child::wait`
//! of std and of tokio close it: take it out of the handle first (`child.stdin.take()`).
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

/// Role of a process of the sandbox: [`INIT`] or [`WORKER`].
const ROLE: &str = "LONGHAUL_SANDBOX";
const INIT: &str = "init";
const WORKER: &str = "worker";
/// Paths that must stay visible, in the format of `PATH`.
const KEEP: &str = "LONGHAUL_SANDBOX_KEEP";
/// Folder of temporary files.
const SCRATCH: &str = "LONGHAUL_SANDBOX_SCRATCH";

/// Options without a user namespace, for root.
const AS_ROOT: &[&str] = &["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
/// Options with a user namespace.
const AS_USER: &[&str] = &[
    "--user",
    "--map-root-user",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];

/// Errors of starting sandboxes on this system.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// `unshare` cannot be run.
    #[error("cannot run `unshare`: {0}; install the package util-linux")]
    Unshare(io::Error),
    /// The system does not allow namespaces.
    #[error(
        "this system does not let us make namespaces ({message}): run as root, or enable unprivileged user namespaces \
         (`sysctl kernel.unprivileged_userns_clone=1` on Debian, `sysctl kernel.apparmor_restrict_unprivileged_userns=0` on \
         Ubuntu, `user.max_user_namespaces` above 0 elsewhere); a container needs CAP_SYS_ADMIN and CAP_NET_ADMIN"
    )]
    Refused {
        /// Error output of `unshare`.
        message: String,
    },
}

/// Errors of entering a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// The process was not started through a sandbox.
    #[error("this process was not started in a sandbox; it is an internal part of the command")]
    NotSandboxed,
    /// The process with id 1 failed.
    #[error(transparent)]
    Init(#[from] InitError),
}

/// The way to start workers on this system.
#[derive(Clone, Debug)]
pub struct Sandbox {
    flags: &'static [&'static str],
    keep: Vec<PathBuf>,
}

impl Sandbox {
    /// Determines by trial how workers can be started.
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

    /// Keeps `path` visible in the sandbox, because the worker reads it. The program, the working folder and
    /// the folders of `PATH` stay visible in any case.
    #[must_use]
    pub fn keep(mut self, path: impl Into<PathBuf>) -> Self {
        self.keep.push(path.into());
        self
    }

    /// Returns the command that starts `program` as a worker, with pipes for its standard input and output.
    /// The program must call [`enter`] first. Killing the started process kills all processes of the worker.
    ///
    /// # Errors
    /// A kept path contains a colon and therefore cannot be passed on.
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

/// The sandbox, as seen by its worker.
#[derive(Clone, Debug)]
pub struct Inside {
    scratch: PathBuf,
}

impl Inside {
    /// Folder of temporary files, in memory, of limited size and private to this worker. `TMPDIR` and `HOME`
    /// point into it, so that programs started by the worker use it.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }
}

/// Enters the sandbox; a worker must call this first, see the [module](self).
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
