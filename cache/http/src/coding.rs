//! Content codings of origins: requesting them, deciding on their removal, and correcting the header section.
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::list::members;

/// `Accept-Encoding` of the gateway's requests to origins. It is constant, so an origin whose ETag depends on
/// the coding (Apache appends `-gzip`, nginx weakens the tag) receives its own tag in conditional requests.
pub const ORIGIN_ACCEPT_ENCODING: HeaderValue = HeaderValue::from_static("gzip, deflate, br, zstd");

const IDENTITY: HeaderValue = HeaderValue::from_static("identity");
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
const DIGEST: HeaderName = HeaderName::from_static("digest");
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// Sets the `Accept-Encoding` of a request to an origin. Ranges are requested in the identity coding, because
/// the browser holds decoded bytes and counts these.
pub fn set_accept_encoding(headers: &mut HeaderMap) {
    let value = if headers.contains_key(header::RANGE) {
        IDENTITY
    } else {
        ORIGIN_ACCEPT_ENCODING
    };
    headers.insert(header::ACCEPT_ENCODING, value);
}

/// Returns the content codings of a message in the order of their application, in lower case, with `x-gzip`
/// as `gzip` and without `identity`.
pub fn content_codings(headers: &HeaderMap) -> Vec<String> {
    members(headers, header::CONTENT_ENCODING)
        .map(str::to_ascii_lowercase)
        .filter(|coding| coding != "identity")
        .map(|coding| {
            if coding == "x-gzip" {
                "gzip".to_owned()
            } else {
                coding
            }
        })
        .collect()
}

/// Treatment of the content codings of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodingPlan {
    /// The response has no content coding.
    Plain,
    /// Remove these codings, listed in the order of their application; then call [`describe_decoded`].
    Decode(Vec<String>),
    /// Forward the coded bytes and the header fields unchanged.
    Keep(KeepReason),
}

/// Reason for keeping the coded bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepReason {
    /// `Cache-Control: no-transform` (RFC 9111 section 5.2.2.6), and the browser accepts the coding.
    NoTransform,
    /// A part of a representation: a range of coded bytes cannot be decoded alone.
    Partial,
    /// A coding that is not supported here, but perhaps by the browser.
    UnknownCoding,
}

/// Decides on the content codings of a response. `request` is the browser's header section, not the one sent
/// to the origin.
///
/// Also applies to bodyless responses: a response to HEAD must have the same fields as the response to GET.
///
/// With `no-transform`, a body whose coding the browser did not request is decoded nevertheless, because the
/// gateway's request caused the coding.
pub fn plan(request: &HeaderMap, status: StatusCode, response: &HeaderMap) -> CodingPlan {
    let codings = content_codings(response);
    if codings.is_empty() {
        CodingPlan::Plain
    } else if status == StatusCode::PARTIAL_CONTENT {
        CodingPlan::Keep(KeepReason::Partial)
    } else if codings.len() > MAX_CODINGS || !codings.iter().all(|coding| KNOWN.contains(&coding.as_str())) {
        CodingPlan::Keep(KeepReason::UnknownCoding)
    } else if is_no_transform(response) && codings.iter().all(|coding| accepts(request, coding)) {
        CodingPlan::Keep(KeepReason::NoTransform)
    } else {
        CodingPlan::Decode(codings)
    }
}

/// Returns true if `Cache-Control` contains `no-transform`.
pub fn is_no_transform(headers: &HeaderMap) -> bool {
    members(headers, header::CACHE_CONTROL).any(|directive| directive.eq_ignore_ascii_case("no-transform"))
}

/// Returns true if a request's `Accept-Encoding` admits `coding` (RFC 9110 section 12.5.3). Returns false
/// without the field: such a client may not decode any coding.
pub fn accepts(request: &HeaderMap, coding: &str) -> bool {
    let mut any = false;
    for member in members(request, header::ACCEPT_ENCODING) {
        let mut parts = member.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let refused = parts.any(is_zero_weight);
        let same =
            name.eq_ignore_ascii_case(coding) || coding == "gzip" && name.eq_ignore_ascii_case("x-gzip");
        if same {
            return !refused;
        }
        any |= name == "*" && !refused;
    }
    any
}

fn is_zero_weight(parameter: &str) -> bool {
    parameter
        .split_once('=')
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
        .and_then(|(_, weight)| weight.trim().parse::<f32>().ok())
        .is_some_and(|weight| weight <= 0.0)
}

/// Corrects a header section after removal of the content codings; `length` is that of the decoded body, if
/// known.
///
/// Removes `Content-Encoding` and the digests of coded bytes (RFC 9530; `Digest` of RFC 3230; `Content-MD5`).
/// Keeps the ETag: it remains valid for the origin, whose `Accept-Encoding` stays the same. Removes
/// `Accept-Ranges`, because the origin's ranges may count coded bytes.
pub fn describe_decoded(headers: &mut HeaderMap, length: Option<u64>) {
    for name in [
        header::CONTENT_ENCODING,
        header::CONTENT_LENGTH,
        header::ACCEPT_RANGES,
        CONTENT_DIGEST,
        CONTENT_MD5,
        DIGEST,
        REPR_DIGEST,
    ] {
        headers.remove(name);
    }
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
}

const KNOWN: [&str; 4] = ["br", "deflate", "gzip", "zstd"];
/// The number of codings that the codec removes.
const MAX_CODINGS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fields::map;

    const OK: StatusCode = StatusCode::OK;

    #[test]
    fn codings_are_listed_in_order() {
        let headers = map(&[
            ("content-encoding", "BR , identity"),
            ("content-encoding", ",X-GZIP"),
        ]);
        assert_eq!(content_codings(&headers), ["br", "gzip"]);
        assert!(content_codings(&map(&[("content-encoding", "identity")])).is_empty());
    }

    #[test]
    fn range_requests_accept_only_identity() {
        let mut headers = map(&[("accept-encoding", "gzip"), ("accept-encoding", "br")]);
        set_accept_encoding(&mut headers);
        let values: Vec<_> = headers.get_all(header::ACCEPT_ENCODING).iter().collect();
        assert_eq!(values, ["gzip, deflate, br, zstd"]);
        headers.insert(header::RANGE, HeaderValue::from_static("bytes=0-"));
        set_accept_encoding(&mut headers);
        assert_eq!(headers[header::ACCEPT_ENCODING], "identity");
    }

    #[test]
    fn the_coding_plan_follows_request_status_and_codings() {
        let browser = map(&[("accept-encoding", "gzip, deflate")]);
        let gzip = map(&[("content-encoding", "gzip")]);
        assert_eq!(plan(&browser, OK, &map(&[])), CodingPlan::Plain);
        assert_eq!(
            plan(&browser, OK, &gzip),
            CodingPlan::Decode(vec!["gzip".to_owned()])
        );
        assert_eq!(
            plan(&browser, StatusCode::PARTIAL_CONTENT, &gzip),
            CodingPlan::Keep(KeepReason::Partial)
        );
        let unknown = map(&[("content-encoding", "gzip, sdch")]);
        assert_eq!(
            plan(&browser, OK, &unknown),
            CodingPlan::Keep(KeepReason::UnknownCoding)
        );
        let many = map(&[("content-encoding", "gzip, gzip, gzip, gzip")]);
        assert_eq!(
            plan(&browser, OK, &many),
            CodingPlan::Keep(KeepReason::UnknownCoding)
        );
    }

    #[test]
    fn no_transform_is_honoured_where_the_browser_can_decode() {
        let browser = map(&[("accept-encoding", "gzip;q=1.0, br;q=0")]);
        let gzip = map(&[
            ("content-encoding", "gzip"),
            ("cache-control", "public, No-Transform"),
        ]);
        assert_eq!(
            plan(&browser, OK, &gzip),
            CodingPlan::Keep(KeepReason::NoTransform)
        );
        let br = map(&[("content-encoding", "br"), ("cache-control", "no-transform")]);
        assert_eq!(plan(&browser, OK, &br), CodingPlan::Decode(vec!["br".to_owned()]));
        assert_eq!(
            plan(&map(&[]), OK, &gzip),
            CodingPlan::Decode(vec!["gzip".to_owned()])
        );
    }

    #[test]
    fn accept_encoding_weights() {
        let accepts =
            |value: &'static str, coding: &str| accepts(&map(&[("accept-encoding", value)]), coding);
        assert!(accepts("gzip", "gzip"));
        assert!(accepts("x-gzip", "gzip"));
        assert!(accepts("*", "br"));
        assert!(!accepts("*;q=0", "br"));
        assert!(!accepts("*, br; Q=0.000", "br"));
        assert!(!accepts("identity", "br"));
    }

    #[test]
    fn decoding_removes_the_fields_of_the_coded_bytes_only() {
        let mut headers = map(&[
            ("content-encoding", "gzip"),
            ("content-length", "10"),
            ("content-md5", "x"),
            ("content-digest", "sha-256=:x:"),
            ("repr-digest", "sha-256=:x:"),
            ("digest", "sha-256=x"),
            ("accept-ranges", "bytes"),
            ("etag", "\"abc\""),
            ("vary", "Accept-Encoding"),
            ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ]);
        describe_decoded(&mut headers, None);
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["etag", "last-modified", "vary"]);
        assert_eq!(headers[header::ETAG], "\"abc\"");
        describe_decoded(&mut headers, Some(77));
        assert_eq!(headers[header::CONTENT_LENGTH], "77");
    }
}
