//! What the failure of an exchange says about the processing of the request by the origin (RFC 9113 section 8.7).
use std::{error::Error, io};

use h2::Reason;

/// Whether the origin processed a request that it did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processing {
    /// It did not: the request was not sent, or the origin said so when it ended the connection.
    Not,
    /// It did not: it refused the stream.
    Refused,
    /// It did not, and requires HTTP/1.1.
    RequiresHttp11,
    /// Perhaps: its HTTP/2 cannot be understood.
    UnknownOverHttp2,
    /// Perhaps: the HTTP/2 connection ended.
    ConnectionLost,
    /// Perhaps.
    Unknown,
}

/// Returns what an error of the HTTP library says about a request that was given to it, over HTTP/2 or HTTP/1.1.
pub(crate) fn processing(error: &hyper::Error, is_h2: bool) -> Processing {
    let Some(error) = source::<h2::Error>(error) else {
        let is_lost = is_h2 && source::<io::Error>(error).is_some();
        return if is_lost {
            Processing::ConnectionLost
        } else {
            Processing::Unknown
        };
    };
    if error.is_library() {
        return Processing::UnknownOverHttp2;
    }
    if !error.is_remote() {
        return Processing::Unknown;
    }
    match error.reason() {
        Some(Reason::HTTP_1_1_REQUIRED) => Processing::RequiresHttp11,
        Some(Reason::REFUSED_STREAM) if error.is_reset() => Processing::Refused,
        // The library gives this error only to streams above the last one that the origin may have processed, whatever the
        // reason of the GOAWAY is.
        _ if error.is_go_away() => Processing::Not,
        _ => Processing::Unknown,
    }
}

/// The first error of a type among the causes of an error.
fn source<E: Error + 'static>(error: &hyper::Error) -> Option<&E> {
    let mut next: Option<&(dyn Error + 'static)> = error.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
