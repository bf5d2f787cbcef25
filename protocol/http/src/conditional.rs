//! Conditional and range requests (RFC 9110 sections 13 and 14). Origins answer them; the proxies forward
//! them without changing their meaning.
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::{coding, date, list::members};

static PRECONDITIONS: [HeaderName; 5] = [
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
];

/// Returns true if a request is conditional. Its response depends on the browser's stored version, so it is
/// neither shared nor replaced by a held body without evaluation of the conditions.
pub fn is_conditional(headers: &HeaderMap) -> bool {
    PRECONDITIONS.iter().any(|name| headers.contains_key(name))
}

/// Returns true if a request has a range. Its response is forwarded, and never stored, coded against another
/// body, or transformed.
pub fn is_range(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::GET && headers.contains_key(header::RANGE)
}

/// Removes fields that RFC 9110 requires recipients to ignore, so that all recipients agree: `Range` on
/// methods other than GET (section 14.2), and `If-Range` without `Range` (section 13.1.5).
pub fn drop_meaningless_ranges(method: &Method, headers: &mut HeaderMap) {
    if *method != Method::GET {
        headers.remove(header::RANGE);
    }
    if !headers.contains_key(header::RANGE) {
        headers.remove(header::IF_RANGE);
    }
}

/// Treatment of a response to a range request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeAnswer {
    /// Forward the response: a complete body, an error, or a part that fits the browser's bytes.
    Forward,
    /// The part counts coded bytes, while the browser continues a decoded body. Fetch the complete body
    /// instead, without `Range` and `If-Range`, and respond with 200.
    FetchWhole,
}

/// Decides on the response to a browser's range request for `path`.
pub fn range_answer(
    request: &HeaderMap,
    path: &str,
    status: StatusCode,
    response: &HeaderMap,
) -> RangeAnswer {
    let continues = request.contains_key(header::IF_RANGE);
    let is_decoded = coding::takes_decoded(request) && !coding::is_compressed_file(path, response);
    if status == StatusCode::PARTIAL_CONTENT
        && continues
        && is_decoded
        && !coding::content_codings(response).is_empty()
    {
        RangeAnswer::FetchWhole
    } else {
        RangeAnswer::Forward
    }
}

/// Returns true if `If-None-Match` contains the entity tag `etag`, by weak comparison (RFC 9110 sections
/// 8.8.3.2 and 13.1.2). A cache with a fresh response that has this tag then answers a GET or HEAD with 304.
pub fn none_match_names(request: &HeaderMap, etag: &str) -> bool {
    let etag = etag.trim().as_bytes();
    // A tag that contains a comma is not a member of a list, because its parts lack a quotation mark. Browsers send only
    // one tag.
    let only = request.get(header::IF_NONE_MATCH).map(HeaderValue::as_bytes);
    only.is_some_and(|only| etags_match(only.trim_ascii(), etag))
        || members(request, header::IF_NONE_MATCH)
            .any(|member| member == "*" || etags_match(member.as_bytes(), etag))
}

/// Returns true if two entity tags match by weak comparison (RFC 9110 section 8.8.3.2).
pub fn etags_match(one: &[u8], other: &[u8]) -> bool {
    let opaque = |tag| <[u8]>::strip_prefix(tag, b"W/").unwrap_or(tag);
    opaque(one) == opaque(other)
}

/// Returns true if a cache answers a conditional GET or HEAD with 304 from a response with this status and
/// these fields (RFC 9110 section 13.2.2, RFC 9111 section 4.3.2): by `If-None-Match` if present, else by
/// `If-Modified-Since`.
pub fn is_not_modified(request: &HeaderMap, status: StatusCode, response: &HeaderMap) -> bool {
    if status != StatusCode::OK {
        return false;
    }
    if request.contains_key(header::IF_NONE_MATCH) {
        let etag = response.get(header::ETAG).and_then(|etag| etag.to_str().ok());
        // "*" matches any existing representation.
        let any = members(request, header::IF_NONE_MATCH).any(|member| member == "*");
        return any || etag.is_some_and(|etag| none_match_names(request, etag));
    }
    let since = request.get(header::IF_MODIFIED_SINCE);
    let modified = response.get(header::LAST_MODIFIED);
    if since.is_some_and(|since| !since.is_empty() && modified == Some(since)) {
        // The same version, even if its date is not valid.
        return true;
    }
    let Some(since) = date::field(request, header::IF_MODIFIED_SINCE) else {
        return false;
    };
    let modified = if response.contains_key(header::LAST_MODIFIED) {
        date::field(response, header::LAST_MODIFIED)
    } else {
        date::field(response, header::DATE)
    };
    modified.is_some_and(|modified| modified <= since)
}

/// Returns the fields of a 304 for a response with the fields `response` (RFC 9110 section 15.4.5), without
/// those that describe the body, which the browser has stored.
pub fn not_modified_fields(response: &HeaderMap) -> HeaderMap {
    let tagged = response.contains_key(header::ETAG);
    let mut fields = HeaderMap::with_capacity(response.len());
    for (name, value) in response {
        let omitted = OMITTED_FROM_304.contains(&name.as_str()) || tagged && name == header::LAST_MODIFIED;
        if !omitted {
            fields.append(name.clone(), value.clone());
        }
    }
    fields
}

const OMITTED_FROM_304: [&str; 13] = [
    "accept-ranges",
    "content-digest",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-range",
    "content-type",
    "digest",
    "repr-digest",
    "trailer",
    "transfer-encoding",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fields::map;

    #[test]
    fn conditional_requests_are_recognised() {
        for name in [
            "if-match",
            "if-none-match",
            "if-modified-since",
            "if-unmodified-since",
            "if-range",
        ] {
            assert!(is_conditional(&map(&[(name, "x")])), "{name}");
        }
        assert!(!is_conditional(&map(&[("range", "bytes=0-"), ("etag", "x")])));
    }

    #[test]
    fn ranges_matter_only_on_get() {
        let range = [("range", "bytes=5-"), ("if-range", "\"a\"")];
        let mut headers = map(&range);
        drop_meaningless_ranges(&Method::GET, &mut headers);
        assert_eq!(headers.len(), 2);
        assert!(is_range(&Method::GET, &headers));
        assert!(!is_range(&Method::HEAD, &headers));
        drop_meaningless_ranges(&Method::POST, &mut headers);
        assert!(headers.is_empty());
        let mut alone = map(&range[1..]);
        drop_meaningless_ranges(&Method::GET, &mut alone);
        assert!(alone.is_empty());
    }

    #[test]
    fn a_coded_part_is_not_appended_to_decoded_bytes() {
        let browser = ("accept-encoding", "gzip, deflate");
        let resumed = map(&[("range", "bytes=5-"), ("if-range", "\"a\""), browser]);
        let coded = map(&[("content-encoding", "gzip"), ("content-range", "bytes 5-9/10")]);
        assert_eq!(
            range_answer(&resumed, "/x", StatusCode::PARTIAL_CONTENT, &coded),
            RangeAnswer::FetchWhole
        );
        assert_eq!(
            range_answer(&resumed, "/x", StatusCode::OK, &coded),
            RangeAnswer::Forward
        );
        // These get the origin's bytes: a program, and whoever loads a compressed file.
        let of_program = map(&[("range", "bytes=5-"), ("if-range", "\"a\"")]);
        for (request, path) in [(&of_program, "/x"), (&resumed, "/x.gz")] {
            let answer = range_answer(request, path, StatusCode::PARTIAL_CONTENT, &coded);
            assert_eq!(answer, RangeAnswer::Forward, "{path}");
        }
        let plain = map(&[("content-range", "bytes 5-9/10")]);
        assert_eq!(
            range_answer(&resumed, "/x", StatusCode::PARTIAL_CONTENT, &plain),
            RangeAnswer::Forward
        );
        let first = map(&[("range", "bytes=0-")]);
        assert_eq!(
            range_answer(&first, "/x", StatusCode::PARTIAL_CONTENT, &coded),
            RangeAnswer::Forward
        );
    }

    #[test]
    fn entity_tags_compare_weakly() {
        let request = map(&[("if-none-match", "\"a\", W/\"b\""), ("if-none-match", "\"c\"")]);
        for etag in ["\"a\"", "W/\"a\"", "\"b\"", "\"c\""] {
            assert!(none_match_names(&request, etag), "{etag}");
        }
        assert!(!none_match_names(&request, "\"d\""));
        assert!(none_match_names(&map(&[("if-none-match", "*")]), "\"d\""));
        assert!(!none_match_names(&map(&[("if-none-match", "\"x,y\"")]), "\"x\""));
    }

    const OK: StatusCode = StatusCode::OK;

    #[test]
    fn conditions_are_answered_for_held_responses() {
        let held = map(&[
            ("etag", "\"a\""),
            ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ]);
        let since = |date| ("if-modified-since", date);
        for (request, expected) in [
            (&[][..], false),
            (&[("if-none-match", "W/\"a\"")], true),
            (&[("if-none-match", "*")], true),
            (&[("if-none-match", "\"b\"")], false),
            // The tag takes precedence over the date.
            (
                &[("if-none-match", "\"b\""), since("Sun, 06 Nov 1994 08:49:37 GMT")],
                false,
            ),
            (&[since("Sun, 06 Nov 1994 08:49:37 GMT")], true),
            (&[since("Sunday, 06-Nov-94 08:49:38 GMT")], true),
            (&[since("Sun, 06 Nov 1994 08:49:36 GMT")], false),
            (&[since("yesterday")], false),
        ] {
            assert_eq!(is_not_modified(&map(request), OK, &held), expected, "{request:?}");
        }
        let asked = map(&[since("Sun, 06 Nov 1994 08:49:37 GMT")]);
        assert!(!is_not_modified(&asked, StatusCode::NOT_FOUND, &held));
        let dated = map(&[("date", "Sun, 06 Nov 1994 08:49:37 GMT")]);
        assert!(is_not_modified(&asked, OK, &dated));
        assert!(!is_not_modified(&asked, OK, &map(&[])));
        assert!(!is_not_modified(
            &map(&[("if-none-match", "\"a\"")]),
            OK,
            &map(&[])
        ));
    }

    #[test]
    fn a_304_describes_no_body() {
        let response = map(&[
            ("etag", "\"a\""),
            ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("content-type", "text/css"),
            ("content-length", "5"),
            ("content-security-policy", "default-src 'self'"),
            ("content-location", "/x"),
            ("cache-control", "max-age=60"),
            ("vary", "Accept"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=1"),
            ("access-control-allow-origin", "*"),
        ]);
        let fields = not_modified_fields(&response);
        let mut names: Vec<&str> = fields.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "access-control-allow-origin",
                "cache-control",
                "content-location",
                "content-security-policy",
                "etag",
                "set-cookie",
                "vary"
            ]
        );
        assert_eq!(fields.get_all("set-cookie").iter().count(), 2);
        let untagged = map(&[("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")]);
        assert_eq!(not_modified_fields(&untagged), untagged);
    }
}
