//! Failures of fetches and of bodies.
use http::StatusCode;
use longhaul_cache::ReadError;
use longhaul_codec::{ContentDecodingError, UnsupportedCoding};
use longhaul_origin::{BodyError, FetchError};

/// Reasons for the lack of a response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchFailure {
    /// The origin client received no response.
    #[error(transparent)]
    Origin(#[from] FetchError),
    /// The origin's last response is informational (1xx).
    #[error("the origin answered {0}, which is no final response")]
    Informational(StatusCode),
    /// The response has a content coding that the gateway cannot decode.
    #[error(transparent)]
    UnsupportedCoding(#[from] UnsupportedCoding),
    /// The response has too many content codings.
    #[error(transparent)]
    Codings(#[from] ContentDecodingError),
    /// The gateway is shutting down, or the task of the fetch panicked.
    #[error("the fetch was interrupted")]
    Interrupted,
}

/// Reasons for the premature end of a body. The bytes before it are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyFault {
    /// The origin truncated the body.
    #[error(transparent)]
    Origin(#[from] BodyError),
    /// The content coding is malformed.
    #[error(transparent)]
    Damaged(#[from] ContentDecodingError),
    /// The cache lost the body.
    #[error(transparent)]
    Cache(#[from] ReadError),
    /// The gateway is shutting down, or a thread panicked.
    #[error("the fetch was interrupted")]
    Interrupted,
}
