//! Media types.
use http::{HeaderMap, HeaderValue, header};

/// Returns true if a body of this media type (with or without parameters) is text, which the ideal download
/// compresses: all of `text/*`, scripts, JSON, XML and SVG.
pub fn is_text(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    essence.starts_with("text/")
        || essence == "image/svg+xml"
        || ["javascript", "ecmascript", "json", "xml"]
            .iter()
            .any(|kind| essence.ends_with(kind))
}

/// Returns the `Content-Type` of a response in lower case, without parameters; empty if there is none.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(header::CONTENT_TYPE)
        .map_or(&b""[..], HeaderValue::as_bytes);
    let essence = value.split(|&byte| byte == b';').next().unwrap_or_default();
    String::from_utf8_lossy(essence.trim_ascii()).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_types_are_recognised() {
        for text in [
            "text/html; charset=utf-8",
            "Text/CSS",
            "application/x-javascript",
            "application/ld+json",
            "application/rss+xml",
            "image/svg+xml",
        ] {
            assert!(is_text(text), "{text}");
        }
        for other in [
            "image/png",
            "application/octet-stream",
            "font/woff2",
            "",
            "application/zip",
        ] {
            assert!(!is_text(other), "{other}");
        }
    }
}
