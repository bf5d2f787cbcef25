//! The agent that runs with a state directory, as its files and its program show it.
use std::{
    env,
    fs::{File, TryLockError},
    io::{self, Read as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use longhaul_demo::ProgramError;
use serde_json::Value;

/// Maximum size of a small file of the state directory.
const MAX_FILE: u64 = 64 * 1024;

/// The data that an agent publishes when it starts.
#[derive(Clone, Debug)]
pub struct PublishedAgent {
    /// Address of the proxy.
    pub proxy: SocketAddr,
    /// Address of the control port.
    pub control: SocketAddr,
    /// The process.
    pub pid: u32,
    /// The agent's version.
    pub version: String,
}

/// Errors of moving a running agent to a new enrolment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// The agent's program is missing.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The agent's program cannot be run.
    #[error("longhaul-agent cannot be run: {0}")]
    Run(#[from] io::Error),
    /// The agent does not move.
    #[error("{0}")]
    Refused(String),
}

/// Returns what the last agent of a state directory has published. That agent may have ended.
pub(crate) fn published(state_dir: &Path) -> Option<PublishedAgent> {
    let about: Value = serde_json::from_str(&read_small(&state_dir.join("agent.json")).ok()?).ok()?;
    let address = |name: &str| about[name].as_str()?.parse::<SocketAddr>().ok();
    Some(PublishedAgent {
        proxy: address("proxy")?,
        control: address("control")?,
        pid: u32::try_from(about["pid"].as_u64()?).ok()?,
        version: about["version"].as_str().unwrap_or_default().to_owned(),
    })
}

/// Reads a small text file.
pub(crate) fn read_small(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// The lock of a state directory, which an agent holds as long as it runs. The system releases it when the
/// process ends, in whatever way, so that it says more than files and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// No agent runs.
    Free,
    /// An agent runs; contains its process, if it is known.
    Held(Option<u32>),
    /// There is no lock: an agent of a version without locks, a file system without locks, or a directory of
    /// another user.
    Unknown,
}

impl Lock {
    /// Looks at the lock of a state directory.
    pub(crate) fn of(state_dir: &Path) -> Self {
        let path = state_dir.join("lock");
        let Ok(file) = File::open(&path) else {
            return Self::Unknown;
        };
        match file.try_lock_shared() {
            Ok(()) => Self::Free,
            Err(TryLockError::WouldBlock) => {
                let holder = read_small(&path).ok();
                Self::Held(holder.and_then(|text| text.trim().parse().ok()))
            }
            Err(TryLockError::Error(_)) => Self::Unknown,
        }
    }
}

/// Returns the agent's program: beside this program, else on the search path.
///
/// # Errors
/// The program is in neither place.
pub fn program() -> Result<PathBuf, ProgramError> {
    longhaul_demo::find_agent().or_else(|error| {
        let path = env::var_os("PATH").unwrap_or_default();
        let name = format!("longhaul-agent{}", env::consts::EXE_SUFFIX);
        let mut found = env::split_paths(&path).map(|folder| folder.join(&name));
        found.find(|program| program.is_file()).ok_or(error)
    })
}

/// Lets the running agent use the invite that was stored in its state directory; returns its answer.
///
/// # Errors
/// The agent's program is missing, or the agent refuses.
pub fn use_invite(state_dir: &Path) -> Result<String, MoveError> {
    let mut command = Command::new(program()?);
    let output = command
        .args(["use-invite", "--state-dir"])
        .arg(state_dir)
        .output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !output.status.success() {
        return Err(MoveError::Refused(text(&output.stderr)));
    }
    Ok(text(&output.stdout))
}
