//! Systems without Unix sockets have no admin socket.
use std::path::Path;

use axum::Router;

/// Exists only on Unix.
#[derive(Debug)]
pub(crate) enum AdminSocket {}

/// Errors of opening the admin socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminSocketError {
    /// The system has no Unix sockets.
    #[error("there is no admin socket on this system; the operator's commands change the files")]
    Unsupported,
}

impl AdminSocketError {
    pub(crate) const fn is_limit_of_system(&self) -> bool {
        true
    }
}

impl AdminSocket {
    #[expect(clippy::unused_async, reason = "the same signature as on Unix")]
    pub(crate) async fn bind(_path: &Path) -> Result<Self, AdminSocketError> {
        Err(AdminSocketError::Unsupported)
    }

    pub(crate) fn path(&self) -> &Path {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the same signature as on Unix")]
    pub(crate) async fn serve(self, _router: Router) {
        match self {}
    }
}
