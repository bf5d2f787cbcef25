//! The lock of a state directory: one agent uses it at a time.
//!
//! The system holds the lock for the process and releases it when the process ends, in whatever way. The file
//! stays; it contains the number of the process that took the lock last.
use std::{
    fmt,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    path::PathBuf,
    time::Duration,
};

use tracing::warn;

use crate::state_dir::{AgentFile, StateDir};

/// File of the lock in the state directory.
const FILE: &str = "lock";
/// Commands that look whether an agent runs hold the lock for microseconds; an agent that starts at that moment
/// tries again.
const ATTEMPTS: u32 = 10;
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(20);

/// The lock, held until this value is dropped or the process ends.
#[derive(Debug)]
pub struct StateLock {
    /// `None` if the file system has no locks.
    _file: Option<File>,
}

/// Errors of taking the lock.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another agent uses the directory.
    #[error(
        "another agent {holder} uses the state directory {}: use that agent, or end it{end}; a second agent needs its own \
         --state-dir, --listen and --control, and an invite of its own", path.display(), end = holder.how_to_end()
    )]
    Held {
        /// The state directory.
        path: PathBuf,
        /// What is known of the other agent.
        holder: Holder,
    },
    /// The file cannot be opened or locked.
    #[error("{} cannot be locked: {source}; check its owner, or choose another state directory with --state-dir", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The agent that holds a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    pid: Option<u32>,
    /// The published addresses; `None` while it starts.
    agent: Option<AgentFile>,
}

impl Holder {
    fn of(state_dir: &StateDir, pid: Option<u32>) -> Self {
        let agent = state_dir
            .published()
            .filter(|agent| pid.is_none_or(|pid| pid == agent.pid));
        Self {
            pid: pid.or_else(|| agent.as_ref().map(|agent| agent.pid)),
            agent,
        }
    }

    fn how_to_end(&self) -> String {
        self.pid
            .map_or_else(String::new, |pid| format!(" with `kill {pid}`"))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, &self.agent) {
            (Some(pid), Some(agent)) => write!(
                f,
                "(process {pid}, proxy {}, dashboard http://{}/)",
                agent.proxy, agent.control
            ),
            (Some(pid), None) => write!(f, "(process {pid})"),
            (None, _) => f.write_str("(its process is not known)"),
        }
    }
}

impl StateLock {
    /// Takes the lock of a directory, which must exist.
    ///
    /// # Errors
    /// Another agent holds it, or the file cannot be opened.
    pub async fn take(state_dir: &StateDir) -> Result<Self, LockError> {
        let path = state_dir.path().join(FILE);
        let fail = |source| LockError::File {
            path: path.clone(),
            source,
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(fail)?;
        for attempt in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => {
                    tokio::time::sleep(ATTEMPT_INTERVAL).await;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(LockError::Held {
                        path: state_dir.path().to_owned(),
                        holder: Holder::of(state_dir, pid_in(&mut file)),
                    });
                }
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    warn!(
                        "the file system of the state directory has no locks: do not start a second agent with it"
                    );
                    return Ok(Self { _file: None });
                }
                Err(TryLockError::Error(error)) => return Err(fail(error)),
            }
        }
        write_pid(&mut file).map_err(fail)?;
        Ok(Self { _file: Some(file) })
    }

    /// Returns whether an agent holds the lock of a directory; `None` if this cannot be determined, as with an
    /// agent of a version without the lock.
    pub fn is_held(state_dir: &StateDir) -> Option<bool> {
        let file = File::open(state_dir.path().join(FILE)).ok()?;
        match file.try_lock_shared() {
            Ok(()) => Some(false),
            Err(TryLockError::WouldBlock) => Some(true),
            Err(TryLockError::Error(_)) => None,
        }
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// The process that took the lock last. Where locks prevent reading, as on Windows, it is not known.
fn pid_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_second_lock_names_the_holder_and_an_ended_one_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::new(dir.path().to_owned());
        assert_eq!(StateLock::is_held(&state), None);
        let first = StateLock::take(&state).await.unwrap();
        assert_eq!(StateLock::is_held(&state), Some(true));
        let pid = std::process::id();
        let refusal = StateLock::take(&state).await.unwrap_err().to_string();
        assert!(refusal.contains(&format!("(process {pid})")), "{refusal}");
        let mut agent = AgentFile {
            proxy: "127.0.0.1:3128".parse().unwrap(),
            control: "127.0.0.1:3129".parse().unwrap(),
            pid: pid + 1,
            version: "1".to_owned(),
        };
        state.publish(&agent).unwrap();
        let refusal = StateLock::take(&state).await.unwrap_err().to_string();
        assert!(!refusal.contains("3128"), "of an earlier process: {refusal}");
        agent.pid = pid;
        state.publish(&agent).unwrap();
        let refusal = StateLock::take(&state).await.unwrap_err().to_string();
        for words in [
            "127.0.0.1:3128",
            "http://127.0.0.1:3129/",
            &format!("`kill {pid}`"),
            "--state-dir",
        ] {
            assert!(refusal.contains(words), "{words}: {refusal}");
        }
        drop(first);
        assert_eq!(StateLock::is_held(&state), Some(false));
        StateLock::take(&state).await.unwrap();
    }
}
