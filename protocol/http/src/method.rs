//! Methods of requests that may be repeated, or sent as early data, which an attacker can replay.
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use crate::framing::content_length;

/// The field that marks a request as received in early data (RFC 8470 section 5.1).
pub const EARLY_DATA: HeaderName = HeaderName::from_static("early-data");

/// The only value of [`EARLY_DATA`].
pub const EARLY_DATA_ONE: HeaderValue = HeaderValue::from_static("1");

/// Effect of a repetition of a request (RFC 9110 section 9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repeatability {
    /// No effect: GET, HEAD, OPTIONS, TRACE.
    Safe,
    /// No effect beyond that of the first request: PUT, DELETE. May be repeated if no response has begun and
    /// the body is available.
    Idempotent,
    /// Possibly a second effect: POST, PATCH, CONNECT and every unknown method. A proxy never repeats the
    /// request once a byte of it may have reached the origin; the browser gets an error and asks its user.
    Never,
}

/// Returns the repeatability of `method`.
pub fn repeatability(method: &Method) -> Repeatability {
    if [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(method) {
        Repeatability::Safe
    } else if [Method::PUT, Method::DELETE].contains(method) {
        Repeatability::Idempotent
    } else {
        Repeatability::Never
    }
}

/// Returns true if a request may be sent in early data, which an attacker can replay (RFC 8470 section 3):
/// GET, HEAD or OPTIONS without a body. All others wait for the handshake.
pub fn is_safe_bodyless(method: &Method, headers: &HeaderMap) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS].contains(method)
        && !headers.contains_key(header::TRANSFER_ENCODING)
        && !headers.contains_key(header::UPGRADE)
        && !headers.contains_key(header::EXPECT)
        && matches!(content_length(headers), Ok(None | Some(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_post_is_never_repeated() {
        for method in ["POST", "PATCH", "CONNECT", "LOCK", "get"] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(repeatability(&method), Repeatability::Never);
        }
        assert_eq!(repeatability(&Method::DELETE), Repeatability::Idempotent);
        assert_eq!(repeatability(&Method::GET), Repeatability::Safe);
    }

    #[test]
    fn early_data_is_for_bodyless_safe_requests() {
        let none = HeaderMap::new();
        for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
            assert!(is_safe_bodyless(&method, &none));
        }
        for method in [
            Method::POST,
            Method::PUT,
            Method::DELETE,
            Method::TRACE,
            Method::CONNECT,
        ] {
            assert!(!is_safe_bodyless(&method, &none));
        }
        for (name, value, fits) in [
            (header::CONTENT_LENGTH, "0", true),
            (header::CONTENT_LENGTH, "1", false),
            (header::CONTENT_LENGTH, "x", false),
            (header::TRANSFER_ENCODING, "chunked", false),
            (header::UPGRADE, "websocket", false),
            (header::EXPECT, "100-continue", false),
        ] {
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
            assert_eq!(is_safe_bodyless(&Method::GET, &headers), fits, "{headers:?}");
        }
    }
}
