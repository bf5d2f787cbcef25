//! The priority class of a response's body.
use http::{HeaderMap, header};
use longhaul_driver::Priority;
use longhaul_session::{FetchKind, class};

/// Length in bytes from which a body is bulk: it takes a minute or more on the intended links.
const BULK: u64 = 1024 * 1024;

/// Priority class of a response; see docs/protocol/session.md section 2.
pub fn class_of(kind: FetchKind, length: Option<u64>, headers: &HeaderMap) -> Priority {
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
