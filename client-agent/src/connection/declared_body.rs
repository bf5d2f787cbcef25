//! Requests that declare a body.
use http::{HeaderMap, Request, header};
use http_body::Body as _;
use hyper::body::Incoming;

/// True if a request declares a body, even an empty one.
pub(crate) fn has_body(request: &Request<Incoming>) -> bool {
    announces_body(request.headers()) || !request.body().is_end_stream()
}

fn announces_body(headers: &HeaderMap) -> bool {
    let lengths = headers.get_all(header::CONTENT_LENGTH);
    headers.contains_key(header::TRANSFER_ENCODING)
        || lengths
            .iter()
            .any(|length| length.as_bytes().trim_ascii() != b"0")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_a_length_of_zero_announces_no_body() {
        let announces = |name: header::HeaderName, value: &'static str| {
            announces_body(&HeaderMap::from_iter([(name, HeaderValue::from_static(value))]))
        };
        assert!(!announces_body(&HeaderMap::new()));
        assert!(!announces(header::CONTENT_LENGTH, "0"));
        assert!(announces(header::CONTENT_LENGTH, "5"));
        assert!(announces(header::CONTENT_LENGTH, "0x5"));
        assert!(announces(header::TRANSFER_ENCODING, "chunked"));
    }
}
