//! The admin socket: a Unix socket that only root and the gateway's own user may use.
use std::{
    fs, io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tower_service::Service as _;
use tracing::{debug, warn};

/// Connections at the same time; further ones wait in the kernel's queue. One operator needs one, and a script
/// a few.
const MAX_CONNECTIONS: usize = 16;
/// Longest time of a connection. A request takes some milliseconds, and waits for those before it.
const CONNECTION_TIME: Duration = Duration::from_secs(30);
/// Size of the head of a request, and of the buffer of a connection; hyper's minimum.
const MAX_HEAD: usize = 8 * 1024;
/// Pause after a connection could not be accepted, for example because no file handle is free.
const PAUSE: Duration = Duration::from_millis(100);
/// Root's user id.
const ROOT: u32 = 0;

/// The bound admin socket; the file is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct AdminSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file, which another gateway may have replaced.
    file: (u64, u64),
}

/// Errors of opening the admin socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminSocketError {
    /// Another gateway listens there.
    #[error("admin-socket: another gateway listens on {path}; choose another path, or \"off\"", path = .0.display())]
    InUse(PathBuf),
    /// Another file has the path.
    #[error("admin-socket: {path} exists and is no socket; choose another path, or \"off\"", path = .0.display())]
    NotASocket(PathBuf),
    /// The path is longer than the system permits.
    #[error("admin-socket: {path} is longer than the system permits for sockets (about 100 characters)", path = .0.display())]
    TooLong(PathBuf),
    /// Any other error.
    #[error("admin-socket: {path} cannot be used: {source}; choose another path, or \"off\"", path = path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl AdminSocketError {
    /// True if the system cannot have a socket at this path, whatever its user does with the files there.
    pub(crate) const fn is_limit_of_system(&self) -> bool {
        match self {
            Self::TooLong(_) => true,
            Self::InUse(_) | Self::NotASocket(_) | Self::Socket { .. } => false,
        }
    }
}

impl AdminSocket {
    /// Listens on a path. A socket file that a killed gateway left is replaced. Requires a tokio runtime.
    ///
    /// # Errors
    /// See [`AdminSocketError`].
    pub(crate) async fn bind(path: &Path) -> Result<Self, AdminSocketError> {
        let fail = |source: io::Error| AdminSocketError::Socket {
            path: path.to_owned(),
            source,
        };
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(AdminSocketError::NotASocket(path.to_owned()));
            }
            Ok(_) if UnixStream::connect(path).await.is_ok() => {
                return Err(AdminSocketError::InUse(path.to_owned()));
            }
            Ok(_) => fs::remove_file(path).map_err(fail)?,
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(|source| {
            if source.kind() == io::ErrorKind::InvalidInput {
                AdminSocketError::TooLong(path.to_owned())
            } else {
                fail(source)
            }
        })?;
        // Until here the file may admit others to connect; the check of the peer rejects them.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(fail)?;
        let found = fs::symlink_metadata(path).map_err(fail)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            file: (found.dev(), found.ino()),
        })
    }

    /// Path of the socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Answers requests until the task is aborted.
    pub(crate) async fn serve(self, router: Router) {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                return;
            };
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!(%error, "a connection to the admin socket cannot be accepted");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            while connections.try_join_next().is_some() {}
            if let Err(refused) = check_peer(&stream) {
                warn!(user = ?refused, "another user tried to use the admin socket and was refused");
                continue;
            }
            let router = router.clone();
            connections.spawn(async move {
                let served = timeout(CONNECTION_TIME, serve_connection(stream, router)).await;
                if !matches!(served, Ok(Ok(()))) {
                    debug!("a connection to the admin socket was broken off");
                }
                drop(slot);
            });
        }
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        let is_own =
            fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.file);
        if is_own {
            // A file that stays is replaced by the next gateway.
            let _left = fs::remove_file(&self.path);
        }
    }
}

/// Checks the user at the other end, whom the kernel names; returns the number of another user.
fn check_peer(stream: &UnixStream) -> Result<(), Option<u32>> {
    let own = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == ROOT || peer.uid() == own => Ok(()),
        Ok(peer) => Err(Some(peer.uid())),
        Err(_) => Err(None),
    }
}

async fn serve_connection(stream: UnixStream, router: Router) -> Result<(), hyper::Error> {
    let service = service_fn(move |request: Request<Incoming>| router.clone().call(request));
    http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_socket_is_private_and_removed_at_the_end() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("admin.sock");
        let socket = AdminSocket::bind(&path).await.unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert!(matches!(
            AdminSocket::bind(&path).await,
            Err(AdminSocketError::InUse(_))
        ));
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_another_file_is_not() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("admin.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a killed gateway leaves its file");
        let socket = AdminSocket::bind(&path).await.unwrap();
        assert!(UnixStream::connect(socket.path()).await.is_ok());
        let file = home.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(matches!(
            AdminSocket::bind(&file).await,
            Err(AdminSocketError::NotASocket(_))
        ));
        let long = home.path().join("x".repeat(120));
        assert!(matches!(
            AdminSocket::bind(&long).await,
            Err(AdminSocketError::TooLong(_))
        ));
    }

    #[tokio::test]
    async fn the_own_user_passes_the_check() {
        let (one, other) = UnixStream::pair().unwrap();
        assert_eq!((check_peer(&one), check_peer(&other)), (Ok(()), Ok(())));
    }
}
