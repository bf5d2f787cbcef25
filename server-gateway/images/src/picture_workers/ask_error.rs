//! Errors of requests to workers, on all systems.
use std::io;

use longhaul_transcode::exchange::ExchangeError;

/// Errors of a request to a worker.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// The worker has ended.
    #[error("a picture worker ended unexpectedly: {0}")]
    Gone(#[from] io::Error),
    /// The reply is malformed.
    #[error("a picture worker sent an invalid message: {0}")]
    Nonsense(#[from] ExchangeError),
    /// The worker reached the time limit.
    #[error("a picture worker exceeded its time limit")]
    Late,
}
