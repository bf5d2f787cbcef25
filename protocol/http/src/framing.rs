//! Length of request bodies (RFC 9112 section 6). This module alone determines the length, and rejects ambiguous
//! framing: two parsers that disagree about a length permit request smuggling.
use http::{HeaderMap, Version, header};

use crate::list::members;

/// The body length of a request as its header section declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// The message has no body.
    None,
    /// Exactly this many bytes; fewer are a truncation.
    Known(u64),
    /// `Transfer-Encoding: chunked`: the body ends with the last chunk and is truncated without it.
    Chunked,
}

/// Errors of determining a body's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FramingError {
    /// Both `Content-Length` and `Transfer-Encoding` are present.
    #[error("the message has both content-length and transfer-encoding")]
    Ambiguous,
    /// `Content-Length` is not a number, or occurs more than once.
    #[error("the content-length is not a single number")]
    ContentLength,
    /// `Transfer-Encoding` is not just `chunked`, or was received with HTTP/1.0.
    #[error("the transfer-encoding is not exactly `chunked`")]
    TransferEncoding,
}

/// Returns the body length of a request.
///
/// # Errors
/// The framing is ambiguous or unknown; respond with 400 and close the connection.
pub fn request_body(version: Version, headers: &HeaderMap) -> Result<BodyLength, FramingError> {
    Ok(match announced(version, headers)? {
        None => BodyLength::None,
        Some(length) => length,
    })
}

/// Returns the value of `Content-Length`, if present.
///
/// # Errors
/// The value is not a number, or occurs more than once. RFC 9110 section 8.6 would allow a list of equal
/// numbers; no correct server sends one.
pub fn content_length(headers: &HeaderMap) -> Result<Option<u64>, FramingError> {
    let mut values = headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let digits = value.as_bytes();
    // `parse` would accept a sign.
    if values.next().is_some() || digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(FramingError::ContentLength);
    }
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or(FramingError::ContentLength)
}

fn announced(version: Version, headers: &HeaderMap) -> Result<Option<BodyLength>, FramingError> {
    let length = content_length(headers)?;
    if !headers.contains_key(header::TRANSFER_ENCODING) {
        return Ok(length.map(BodyLength::Known));
    }
    if length.is_some() {
        return Err(FramingError::Ambiguous);
    }
    let mut codings = members(headers, header::TRANSFER_ENCODING);
    let chunked = codings
        .next()
        .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
    let single = headers.get_all(header::TRANSFER_ENCODING).iter().count() == 1;
    if version == Version::HTTP_11 && chunked && single && codings.next().is_none() {
        Ok(Some(BodyLength::Chunked))
    } else {
        Err(FramingError::TransferEncoding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fields::map;

    #[test]
    fn requests_without_framing_have_no_body() {
        assert_eq!(request_body(Version::HTTP_11, &map(&[])), Ok(BodyLength::None));
        let headers = map(&[("content-length", "18446744073709551615")]);
        assert_eq!(
            request_body(Version::HTTP_11, &headers),
            Ok(BodyLength::Known(u64::MAX))
        );
        let headers = map(&[("transfer-encoding", "Chunked")]);
        assert_eq!(request_body(Version::HTTP_11, &headers), Ok(BodyLength::Chunked));
    }

    #[test]
    fn odd_content_lengths_are_refused() {
        for value in [
            "",
            "+5",
            "-1",
            "5, 5",
            "5,6",
            "0x10",
            "1e3",
            "18446744073709551616",
            "5 5",
        ] {
            let headers = map(&[("content-length", value)]);
            assert_eq!(
                content_length(&headers),
                Err(FramingError::ContentLength),
                "{value}"
            );
        }
        let twice = map(&[("content-length", "5"), ("content-length", "5")]);
        assert_eq!(content_length(&twice), Err(FramingError::ContentLength));
    }

    #[test]
    fn request_smuggling_patterns_are_rejected() {
        let both = map(&[("content-length", "5"), ("transfer-encoding", "chunked")]);
        assert_eq!(
            request_body(Version::HTTP_11, &both),
            Err(FramingError::Ambiguous)
        );
        for value in [
            "",
            "identity",
            "xchunked",
            "chunked, chunked",
            "gzip, chunked",
            "chunked, gzip",
            "chunked;x",
        ] {
            let headers = map(&[("transfer-encoding", value)]);
            assert_eq!(
                request_body(Version::HTTP_11, &headers),
                Err(FramingError::TransferEncoding),
                "{value}"
            );
        }
        let twice = map(&[("transfer-encoding", "chunked"), ("transfer-encoding", "")]);
        assert_eq!(
            request_body(Version::HTTP_11, &twice),
            Err(FramingError::TransferEncoding)
        );
        let chunked = map(&[("transfer-encoding", "chunked")]);
        assert_eq!(
            request_body(Version::HTTP_10, &chunked),
            Err(FramingError::TransferEncoding)
        );
    }
}
