//! The lock of a running gateway on its state directory. The locked file names the gateway's admin socket, by
//! which the operator's commands find it.
use std::{
    fs::{self, File, TryLockError},
    io::{Seek as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use super::state::{StateDir, StateError};

const FILE: &str = "gateway.lock";
/// Attempts to lock the directory, and the pause between them: a gateway that is restarted may find its
/// predecessor in the last steps of its end.
const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// The lock; other gateways are kept out of the directory until it is dropped.
#[derive(Debug)]
pub struct GatewayLock(File);

/// Errors of locking the state directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another gateway has the lock.
    #[error(
        "another gateway uses the state directory {path}: stop it, or give each gateway a --state-dir of its own",
        path = path.display()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The file of the lock cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}

impl GatewayLock {
    /// Locks the directory; waits two seconds for a gateway that ends.
    ///
    /// # Errors
    /// Another gateway has the lock, or the file cannot be opened.
    pub async fn acquire(state: &StateDir) -> Result<Self, LockError> {
        let file = state.lock_file(FILE)?;
        for attempt in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => tokio::time::sleep(PAUSE).await,
                Err(TryLockError::WouldBlock) => {
                    let path = state.path().to_owned();
                    return Err(LockError::InUse { path });
                }
                Err(TryLockError::Error(source)) => {
                    let path = state.file(FILE);
                    return Err(StateError::Write { path, source }.into());
                }
            }
        }
        Ok(Self(file))
    }

    /// Writes the path of the admin socket into the file; `None` if there is no socket.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn publish(&mut self, socket: Option<&Path>) -> std::io::Result<()> {
        self.0.set_len(0)?;
        self.0.rewind()?;
        if let Some(socket) = socket {
            let path = std::path::absolute(socket)?;
            self.0.write_all(path.to_string_lossy().as_bytes())?;
        }
        Ok(())
    }
}

/// Path of the admin socket of the gateway that uses the directory, or used it last.
///
/// # Errors
/// The file exists and cannot be read.
pub fn published_socket(state_dir: &Path) -> Result<Option<PathBuf>, StateError> {
    let path = state_dir.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(PathBuf::from(text.trim_end())).filter(|path| path.is_absolute())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StateError::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_gateway_is_refused_until_the_first_one_ends() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::open(home.path()).unwrap();
        let mut first = GatewayLock::acquire(&state).await.unwrap();
        first.publish(Some(Path::new("/run/gateway/admin.sock"))).unwrap();
        let begun = tokio::time::Instant::now();
        let error = GatewayLock::acquire(&state).await.unwrap_err();
        assert!(matches!(error, LockError::InUse { .. }), "{error}");
        assert_eq!(begun.elapsed(), PAUSE * (ATTEMPTS - 1));
        let published = published_socket(home.path()).unwrap();
        assert_eq!(published.as_deref(), Some(Path::new("/run/gateway/admin.sock")));
        drop(first);
        let mut second = GatewayLock::acquire(&state).await.unwrap();
        second.publish(None).unwrap();
        assert_eq!(published_socket(home.path()).unwrap(), None);
    }

    #[test]
    fn a_directory_without_gateway_has_no_socket() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(published_socket(&home.path().join("missing")).unwrap(), None);
        fs::create_dir(home.path().join(FILE)).unwrap();
        assert!(
            published_socket(home.path()).is_err(),
            "a file that cannot be read"
        );
    }
}
