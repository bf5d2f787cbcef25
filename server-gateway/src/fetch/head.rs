//! From the origin's response head to the `Head` message.
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, response::Parts};
use longhaul_codec::{OriginCoding, Undo, UndoLimits};
use longhaul_driver::Priority;
use longhaul_http::{
    coding::{self, CodingPlan},
    hop,
};
use longhaul_protocol::session::{
    FailureReason, Fetch, FetchKind, Head, HeaderField, HeaderSetError, Message, encode, encode_header_set,
};

use super::Failure;
use crate::session::SessionContext;

/// Bodies from this length on are bulk: they take a minute or more on the hops this is made for.
const BULK: u64 = 1024 * 1024;

/// Heads alone and what goes with the page.
pub(crate) const HEAD_CLASS: Priority = Priority::new(1);
/// Bulk bodies.
pub(crate) const BULK_CLASS: Priority = Priority::new(5);

/// Whether a body follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// None, or an empty one.
    None,
    /// A body, of the given decoded length where it is known.
    Some(Option<u64>),
}

/// A response as it goes to the agent.
pub(crate) struct ResponseHead {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) content: Content,
    /// What undoes the origin's content codings.
    pub(crate) undo: Option<Undo>,
    /// The class of the body.
    pub(crate) class: Priority,
}

/// Makes the response's head ready for the hop. `is_empty` says that no body follows on the origin's side.
pub(crate) fn response_head(
    fetch: &Fetch,
    method: &Method,
    browser: &HeaderMap,
    response: Parts,
    is_empty: bool,
) -> Result<ResponseHead, Failure> {
    let Parts {
        status,
        mut headers,
        version,
        ..
    } = response;
    if status.is_informational() {
        let detail = format!("the origin answered {status}, which is no final response");
        return Err(Failure::new(FailureReason::MalformedResponse, detail));
    }
    let bodyless =
        *method == Method::HEAD || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    let mut length = content_length(&headers);
    let mut undo = None;
    if let CodingPlan::Undo(names) = coding::plan(browser, status, &headers) {
        undo = Some(undo_of(&names)?);
        length = None;
        coding::describe_decoded(&mut headers, None);
    }
    hop::strip_response(&mut headers);
    hop::append_via(&mut headers, version);
    let content = if bodyless {
        Content::None
    } else if is_empty {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        Content::None
    } else {
        Content::Some(length)
    };
    let class = class_of(fetch.kind, content, &headers);
    Ok(ResponseHead {
        status,
        headers,
        content,
        undo,
        class,
    })
}

/// Encodes the `Head` against the newest one that the agent has, and keeps it as a later base.
pub(crate) fn encode_head(
    context: &SessionContext,
    fetch: &Fetch,
    head: &ResponseHead,
) -> Result<Vec<u8>, Failure> {
    let fields: Vec<HeaderField> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect();
    let mut sets = context.response_sets();
    let headers = encode_header_set(&fields, fetch.id, fetch.seen, &sets).map_err(|error| {
        let reason = match error {
            HeaderSetError::TooLarge => FailureReason::HeaderTooLarge,
            HeaderSetError::UnknownBase | HeaderSetError::BadIndex | _ => FailureReason::Internal,
        };
        Failure::new(reason, error)
    })?;
    let message = Message::Head(Head {
        fetch: fetch.id,
        status: head.status.as_u16(),
        headers,
        has_body: head.content != Content::None,
        content_hash: None,
    });
    let mut wire = Vec::new();
    encode(&message, &mut wire).map_err(|error| Failure::new(FailureReason::HeaderTooLarge, error))?;
    sets.insert(fetch.id, fields);
    Ok(wire)
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    longhaul_http::framing::content_length(headers).ok().flatten()
}

fn undo_of(names: &[String]) -> Result<Undo, Failure> {
    let malformed = |error: String| Failure::new(FailureReason::MalformedResponse, error);
    let codings: Vec<OriginCoding> = names
        .iter()
        .map(|name| {
            name.parse()
                .map_err(|error: longhaul_codec::UnsupportedCoding| malformed(error.to_string()))
        })
        .collect::<Result<_, _>>()?;
    Undo::new(&codings, UndoLimits::default()).map_err(|error| malformed(error.to_string()))
}

/// docs/protocol/session.md section 2.
fn class_of(kind: FetchKind, content: Content, headers: &HeaderMap) -> Priority {
    let length = match content {
        Content::None => return HEAD_CLASS,
        Content::Some(length) => length,
    };
    let media = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media = media
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_bulk = ["video/", "audio/"].iter().any(|kind| media.starts_with(kind))
        || [
            "application/octet-stream",
            "application/zip",
            "application/gzip",
            "application/x-tar",
        ]
        .contains(&media.as_str())
        || length.is_some_and(|length| length >= BULK);
    let renders = media.starts_with("font/")
        || media.contains("javascript")
        || ["text/css", "application/font-woff", "application/wasm"].contains(&media.as_str());
    match kind {
        FetchKind::Page if !is_bulk => HEAD_CLASS,
        FetchKind::Page | FetchKind::Object if is_bulk => BULK_CLASS,
        FetchKind::Page | FetchKind::Object if renders => Priority::new(2),
        FetchKind::Page | FetchKind::Object => Priority::new(3),
    }
}

#[cfg(test)]
mod tests {
    use http::Version;
    use longhaul_protocol::session::{HeaderSet, Method as SessionMethod};

    use super::*;

    fn fetch(kind: FetchKind) -> Fetch {
        Fetch {
            id: 1,
            method: SessionMethod::Get,
            url: "http://a.test/".to_owned(),
            headers: HeaderSet::default(),
            kind,
            has_body: false,
            held: None,
            seen: 0,
            resume: None,
        }
    }

    fn parts(status: u16, fields: &[(&str, &str)]) -> Parts {
        let mut response = http::Response::builder().status(status).version(Version::HTTP_11);
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        response.body(()).unwrap().into_parts().0
    }

    fn head(method: Method, response: Parts, is_empty: bool) -> ResponseHead {
        let mut browser = HeaderMap::new();
        browser.insert("accept-encoding", HeaderValue::from_static("gzip"));
        response_head(&fetch(FetchKind::Object), &method, &browser, response, is_empty).unwrap()
    }

    #[test]
    fn codings_are_undone_and_described() {
        let response = parts(
            200,
            &[
                ("content-encoding", "gzip"),
                ("content-length", "10"),
                ("alt-svc", "h3"),
            ],
        );
        let head = head(Method::GET, response, false);
        assert!(head.undo.is_some());
        assert_eq!(head.content, Content::Some(None));
        let names: Vec<_> = head.headers.keys().map(http::HeaderName::as_str).collect();
        assert_eq!(names, ["via"]);
    }

    #[test]
    fn ranges_and_no_transform_stay_as_they_are() {
        for (status, control) in [(206, "public"), (200, "no-transform")] {
            let fields = [
                ("content-encoding", "gzip"),
                ("content-length", "10"),
                ("cache-control", control),
            ];
            let head = head(Method::GET, parts(status, &fields), false);
            assert!(head.undo.is_none());
            assert_eq!(head.headers["content-encoding"], "gzip");
            assert_eq!(head.content, Content::Some(Some(10)));
        }
    }

    #[test]
    fn bodyless_responses_have_no_body_whatever_they_say() {
        let fields = [("content-length", "10")];
        for (method, status) in [(Method::HEAD, 200), (Method::GET, 304), (Method::GET, 204)] {
            let head = head(method, parts(status, &fields), true);
            assert_eq!(head.content, Content::None);
            assert_eq!(head.headers["content-length"], "10");
        }
        let empty = head(Method::GET, parts(200, &[]), true);
        assert_eq!(
            (empty.content, &empty.headers["content-length"]),
            (Content::None, &HeaderValue::from_static("0"))
        );
    }

    #[test]
    fn classes_follow_kind_and_type() {
        let class = |kind, media: &'static str, length| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
            class_of(kind, Content::Some(length), &headers).number()
        };
        assert_eq!(class(FetchKind::Page, "text/html", None), 1);
        assert_eq!(class(FetchKind::Object, "text/css; charset=utf-8", None), 2);
        assert_eq!(class(FetchKind::Object, "application/javascript", Some(10)), 2);
        assert_eq!(class(FetchKind::Object, "image/png", Some(10)), 3);
        assert_eq!(class(FetchKind::Object, "image/png", Some(BULK)), 5);
        assert_eq!(class(FetchKind::Page, "application/zip", None), 5);
        assert_eq!(
            class_of(FetchKind::Object, Content::None, &HeaderMap::new()),
            HEAD_CLASS
        );
    }
}
