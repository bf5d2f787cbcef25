//! Conversion of an origin's response head to the head for the agent.
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header, request, response};
use longhaul_codec::{ContentDecodingError, MAX_CODINGS, OriginCoding, UnsupportedCoding};
use longhaul_http::{
    coding::{self, CodingPlan, KeepReason},
    hop_by_hop,
};

use super::failure::FetchFailure;

/// The head of a response for the agent.
pub(super) struct OriginHead {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) content: OriginContent,
    /// The origin's content codings that are removed, in the order of `Content-Encoding`.
    pub(super) decoded: Option<Vec<OriginCoding>>,
    /// Completeness check that the body allows.
    pub(super) integrity: Integrity,
}

/// Presence of a body after a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OriginContent {
    /// No body, or an empty one.
    None,
    /// A body, with its decoded length if known.
    Some(Option<u64>),
}

/// Reliability of the end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integrity {
    /// The framing or the content coding marks the end.
    Certain,
    /// The body ends with its connection, or its content coding is unknown to the gateway.
    Doubtful,
}

/// Converts the head of the response to a request for an origin. `browser` has the fields of the browser's own request. `is_empty` is true if the origin sends no body.
pub(super) fn origin_head(
    request: &request::Parts,
    browser: &HeaderMap,
    response: response::Parts,
    is_empty: bool,
) -> Result<OriginHead, FetchFailure> {
    let response::Parts {
        status,
        mut headers,
        version,
        ..
    } = response;
    if status.is_informational() {
        return Err(FetchFailure::Informational(status));
    }
    let bodyless = request.method == Method::HEAD
        || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    let mut length = content_length(&headers);
    let ends = version > Version::HTTP_11
        || length.is_some()
        || headers.contains_key(header::TRANSFER_ENCODING)
        || bodyless
        || is_empty;
    let mut integrity = if ends {
        Integrity::Certain
    } else {
        Integrity::Doubtful
    };
    let mut decoded = None;
    match coding::plan(browser, request.uri.path(), status, &headers) {
        CodingPlan::Plain | CodingPlan::Keep(KeepReason::NoTransform | KeepReason::Negotiated) => {}
        CodingPlan::Keep(KeepReason::Partial | KeepReason::UnknownCoding) => integrity = Integrity::Doubtful,
        CodingPlan::Decode(names) => {
            decoded = Some(codings_of(&names)?);
            length = None;
            integrity = Integrity::Certain;
            coding::describe_decoded(&mut headers, None);
        }
    }
    hop_by_hop::strip_response(&mut headers);
    // Reserved for this gateway.
    headers.remove(longhaul_http::transcoded_image::FIELD);
    hop_by_hop::append_via(&mut headers, version);
    let content = if bodyless {
        OriginContent::None
    } else if is_empty {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        OriginContent::None
    } else {
        OriginContent::Some(length)
    };
    Ok(OriginHead {
        status,
        headers,
        content,
        decoded,
        integrity,
    })
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    longhaul_http::framing::content_length(headers).ok().flatten()
}

fn codings_of(names: &[String]) -> Result<Vec<OriginCoding>, FetchFailure> {
    let codings: Vec<OriginCoding> = names
        .iter()
        .map(|name| name.parse())
        .collect::<Result<_, UnsupportedCoding>>()?;
    if codings.len() > MAX_CODINGS {
        return Err(ContentDecodingError::TooManyCodings(codings.len()).into());
    }
    Ok(codings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(status: u16, fields: &[(&str, &str)]) -> response::Parts {
        let mut response = http::Response::builder().status(status).version(Version::HTTP_11);
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        response.body(()).unwrap().into_parts().0
    }

    fn head(method: Method, response: response::Parts, is_empty: bool) -> OriginHead {
        head_for("gzip, deflate, br", "http://a.test/x", method, response, is_empty)
    }

    fn head_for(
        accepts: &'static str,
        url: &str,
        method: Method,
        response: response::Parts,
        is_empty: bool,
    ) -> OriginHead {
        let mut browser = HeaderMap::new();
        browser.insert("accept-encoding", HeaderValue::from_static(accepts));
        let request = http::Request::builder().method(method).uri(url);
        let (request, ()) = request.body(()).unwrap().into_parts();
        origin_head(&request, &browser, response, is_empty).unwrap()
    }

    #[test]
    fn a_coding_that_the_client_negotiated_is_not_changed() {
        let gzip = [
            ("content-encoding", "x-gzip"),
            ("content-length", "10"),
            ("etag", "\"a\""),
        ];
        for (accepts, url) in [
            ("identity", "http://a.test/x"),
            ("gzip", "http://a.test/x"),
            ("gzip, deflate;q=0.5", "http://a.test/x"),
            ("gzip, deflate", "http://a.test/x.tar.gz?a"),
        ] {
            let head = head_for(accepts, url, Method::GET, parts(200, &gzip), false);
            assert!(head.decoded.is_none(), "{accepts}");
            assert_eq!(head.headers["content-encoding"], "x-gzip");
            assert_eq!(head.headers["etag"], "\"a\"");
            assert_eq!(head.content, OriginContent::Some(Some(10)));
            assert_eq!(head.integrity, Integrity::Certain);
        }
    }

    #[test]
    fn content_codings_are_decoded_and_the_fields_adapted() {
        let response = parts(
            200,
            &[
                ("content-encoding", "gzip"),
                ("content-length", "10"),
                ("alt-svc", "h3"),
            ],
        );
        let head = head(Method::GET, response, false);
        assert!(head.decoded.is_some());
        assert_eq!(head.content, OriginContent::Some(None));
        let names: Vec<_> = head.headers.keys().map(http::HeaderName::as_str).collect();
        assert_eq!(names, ["via"]);
    }

    #[test]
    fn range_and_no_transform_responses_are_not_changed() {
        for (status, control, integrity) in [
            (206, "public", Integrity::Doubtful),
            (200, "no-transform", Integrity::Certain),
        ] {
            let fields = [
                ("content-encoding", "gzip"),
                ("content-length", "10"),
                ("cache-control", control),
            ];
            let head = head(Method::GET, parts(status, &fields), false);
            assert!(head.decoded.is_none());
            assert_eq!(head.headers["content-encoding"], "gzip");
            assert_eq!(head.content, OriginContent::Some(Some(10)));
            assert_eq!(head.integrity, integrity);
        }
    }

    #[test]
    fn bodyless_responses_have_no_body_despite_their_fields() {
        let fields = [("content-length", "10")];
        for (method, status) in [(Method::HEAD, 200), (Method::GET, 304), (Method::GET, 204)] {
            let head = head(method, parts(status, &fields), true);
            assert_eq!(head.content, OriginContent::None);
            assert_eq!(head.headers["content-length"], "10");
        }
        let empty = head(Method::GET, parts(200, &[]), true);
        assert_eq!(
            (empty.content, &empty.headers["content-length"]),
            (OriginContent::None, &HeaderValue::from_static("0"))
        );
    }

    #[test]
    fn a_body_without_length_or_framing_has_a_doubtful_end() {
        let ends = |fields: &[(&str, &str)]| head(Method::GET, parts(200, fields), false).integrity;
        assert_eq!(ends(&[]), Integrity::Doubtful);
        assert_eq!(ends(&[("transfer-encoding", "chunked")]), Integrity::Certain);
        assert_eq!(ends(&[("content-encoding", "br")]), Integrity::Certain);
        let unknown = [("content-length", "10"), ("content-encoding", "compress")];
        assert_eq!(ends(&unknown), Integrity::Doubtful);
    }

    #[test]
    fn a_response_that_has_no_body_ends_certainly() {
        for (method, status, is_empty) in [
            (Method::HEAD, 200, false),
            (Method::GET, 304, false),
            (Method::GET, 204, false),
            (Method::GET, 200, true),
        ] {
            let head = head(method, parts(status, &[]), is_empty);
            assert_eq!(head.integrity, Integrity::Certain, "{status} {is_empty}");
        }
        let mut response = parts(200, &[]);
        response.version = Version::HTTP_2;
        assert_eq!(head(Method::GET, response, false).integrity, Integrity::Certain);
    }

    #[test]
    fn only_so_many_codings_are_removed() {
        let of = |count| codings_of(&vec!["gzip".to_owned(); count]);
        assert_eq!(of(MAX_CODINGS).unwrap().len(), MAX_CODINGS);
        for count in [MAX_CODINGS + 1, MAX_CODINGS + 2] {
            let error = ContentDecodingError::TooManyCodings(count);
            assert_eq!(of(count).unwrap_err(), FetchFailure::Codings(error));
        }
    }
}
