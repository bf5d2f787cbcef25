//! The `Head` message, and the priority class of the body that follows.
use http::{HeaderMap, StatusCode, header};
use longhaul_driver::Priority;
use longhaul_session::{
    BodyPlace, FailureReason, Fetch, FetchKind, Head, HeaderField, HeaderSetError, Message, class, encode,
    encode_header_set,
};
use longhaul_types::ContentHash;

use crate::{failure::Failure, session::context::SessionContext};

/// Length in bytes from which a body is bulk: it takes a minute or more on the intended links.
const BULK: u64 = 1024 * 1024;

/// Encodes the `Head` against the newest one that the agent has, and stores it as a later base.
pub(super) fn encode_head(
    context: &SessionContext,
    fetch: &Fetch,
    status: StatusCode,
    headers: &HeaderMap,
    body: BodyPlace,
    content_hash: Option<ContentHash>,
) -> Result<Vec<u8>, Failure> {
    let fields: Vec<HeaderField> = headers
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
        status: status.as_u16(),
        headers,
        body,
        content_hash,
    });
    let mut wire = Vec::new();
    encode(&message, &mut wire).map_err(|error| Failure::new(FailureReason::HeaderTooLarge, error))?;
    sets.insert(fetch.id, fields);
    Ok(wire)
}

/// Priority class of a response; see docs/protocol/session.md section 2.
pub(crate) fn class_of(kind: FetchKind, length: Option<u64>, headers: &HeaderMap) -> Priority {
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
        FetchKind::Page if !is_bulk => class::PAGE,
        FetchKind::Page | FetchKind::Object if is_bulk => class::BULK,
        FetchKind::Page | FetchKind::Object if renders => class::RENDER,
        FetchKind::Page | FetchKind::Object => class::OBJECT,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn classes_follow_kind_and_type() {
        let class = |kind, media: &'static str, length| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
            class_of(kind, length, &headers).number()
        };
        assert_eq!(class(FetchKind::Page, "text/html", None), 1);
        assert_eq!(class(FetchKind::Object, "text/css; charset=utf-8", None), 2);
        assert_eq!(class(FetchKind::Object, "application/javascript", Some(10)), 2);
        assert_eq!(class(FetchKind::Object, "image/png", Some(10)), 3);
        assert_eq!(class(FetchKind::Object, "image/png", Some(BULK)), 5);
        assert_eq!(class(FetchKind::Page, "application/zip", None), 5);
    }
}
