//! Mapping of library errors to the errors of this crate: the first error in the chain of sources, from the
//! outermost to the innermost, that has a definite meaning decides.
use std::{error::Error, io};

use crate::{
    body::BodyError, error::FetchError, response_reader::HeadError, tls::defect_of, upload::UploadError,
};

/// Returns the error of a request without a response.
pub(crate) fn request_failure(error: &hyper::Error) -> FetchError {
    chain(error)
        .find_map(definite_request_failure)
        .unwrap_or(FetchError::Reset)
}

/// Returns the error of a body that ended prematurely.
pub(crate) fn body_failure(error: &hyper::Error) -> BodyError {
    chain(error)
        .find_map(definite_body_failure)
        .unwrap_or(BodyError::Reset)
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}

fn definite_request_failure(error: &(dyn Error + 'static)) -> Option<FetchError> {
    if let Some(error) = error.downcast_ref::<FetchError>() {
        return Some(error.clone());
    }
    if error.is::<UploadError>() {
        return Some(FetchError::Upload);
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return hyper_request_failure(error);
    }
    if let Some(error) = error.downcast_ref::<h2::Error>() {
        return match error.get_io() {
            Some(error) => Some(io_request_failure(error)),
            None if error.is_library() => Some(FetchError::Protocol),
            None => Some(FetchError::Reset),
        };
    }
    error.downcast_ref::<io::Error>().map(io_request_failure)
}

fn hyper_request_failure(error: &hyper::Error) -> Option<FetchError> {
    if error.is_parse() {
        Some(FetchError::Protocol)
    } else if error.is_timeout() {
        Some(FetchError::ResponseTimeout)
    } else if error.is_incomplete_message() {
        Some(FetchError::Reset)
    } else {
        // The causes of all other kinds are inner errors: the body's source, the socket, HTTP/2.
        None
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum is the library's and grows; all that is not named here means the same to us"
)]
fn io_request_failure(error: &io::Error) -> FetchError {
    use io::ErrorKind;

    if let Some(defect) = defect_of(error) {
        return FetchError::Tls(defect);
    }
    if is_head_too_large(error) {
        return FetchError::HeaderTooLarge;
    }
    match error.kind() {
        ErrorKind::InvalidData | ErrorKind::InvalidInput => FetchError::Protocol,
        ErrorKind::TimedOut => FetchError::ResponseTimeout,
        _ => FetchError::Reset,
    }
}

fn is_head_too_large(error: &io::Error) -> bool {
    let head = error
        .get_ref()
        .and_then(|error| error.downcast_ref::<HeadError>());
    head == Some(&HeadError::TooLarge)
}

fn definite_body_failure(error: &(dyn Error + 'static)) -> Option<BodyError> {
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return if error.is_incomplete_message() {
            Some(BodyError::Truncated)
        } else if error.is_timeout() {
            Some(BodyError::Timeout)
        } else if error.is_parse() {
            Some(BodyError::Protocol)
        } else {
            None
        };
    }
    if let Some(error) = error.downcast_ref::<h2::Error>() {
        return match error.get_io() {
            Some(error) => Some(io_body_failure(error)),
            None if error.is_library() => Some(BodyError::Protocol),
            None => Some(BodyError::Reset),
        };
    }
    error.downcast_ref::<io::Error>().map(io_body_failure)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum is the library's and grows; all that is not named here means the same to us"
)]
fn io_body_failure(error: &io::Error) -> BodyError {
    use io::ErrorKind;

    match error.kind() {
        // The HTTP/2 library reports the end of its connection as a broken pipe.
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe => BodyError::Truncated,
        ErrorKind::InvalidData | ErrorKind::InvalidInput => BodyError::Protocol,
        ErrorKind::TimedOut => BodyError::Timeout,
        _ => BodyError::Reset,
    }
}
