//! Selection of the responses that may be transcoded, and their fields after transcoding.
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use longhaul_http::{
    policy::{Reload, reload},
    transcoded_image,
};
use longhaul_transcode::ImageLevel;
use longhaul_types::ContentHash;

/// Returns true if the response is an image for display that may be replaced (docs/protocol/session.md
/// section 7.2).
pub(super) fn may_transcode(
    method: &Method,
    browser: &HeaderMap,
    status: StatusCode,
    response: &HeaderMap,
) -> bool {
    *method == Method::GET
        && status == StatusCode::OK
        && transcoded_image::may_answer(browser)
        // A reload that bypasses caches requests the original.
        && reload(browser) != Reload::Bypass
        && !browser.contains_key(header::RANGE)
        && is_picture(response)
        && !response.contains_key(header::CONTENT_ENCODING)
        && !has_directive(response, "no-transform")
        && !has_directive(browser, "no-transform")
        && !is_download(response)
}

fn is_picture(response: &HeaderMap) -> bool {
    let value = response
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = value
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    [
        "image/jpeg",
        "image/jpg",
        "image/pjpeg",
        "image/png",
        "image/gif",
        "image/webp",
        "image/apng",
    ]
    .iter()
    .any(|kind| essence.eq_ignore_ascii_case(kind))
}

fn has_directive(fields: &HeaderMap, name: &str) -> bool {
    let values = fields.get_all(header::CACHE_CONTROL).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|directive| directive.trim().eq_ignore_ascii_case(name))
}

fn is_download(response: &HeaderMap) -> bool {
    let value = response.get(header::CONTENT_DISPOSITION);
    value.is_some_and(|value| {
        let kind = value
            .as_bytes()
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default();
        kind.trim_ascii().eq_ignore_ascii_case(b"attachment")
    })
}

/// Adds `Accept` to `Vary`, because the response depends on it.
pub(super) fn depends_on_accept(headers: &mut HeaderMap) {
    let named = headers
        .get_all(header::VARY)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|name| name.trim() == "*" || name.trim().eq_ignore_ascii_case("accept"));
    if !named {
        headers.append(header::VARY, HeaderValue::from_static("Accept"));
    }
}

/// Bytes of a variant's hash in its entity tag.
const TAG: usize = 6;

/// Replaces the fields of the original by those of the variant, which has an entity tag of its own.
pub(super) fn describe_variant(
    headers: &mut HeaderMap,
    variant: ContentHash,
    level: ImageLevel,
    length: Option<u64>,
) {
    for name in [
        header::ETAG,
        header::LAST_MODIFIED,
        header::ACCEPT_RANGES,
        header::CONTENT_LENGTH,
    ] {
        headers.remove(name);
    }
    for digest in ["digest", "content-digest", "repr-digest", "content-md5"] {
        headers.remove(digest);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("image/webp"));
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    // Short, because it crosses the hop with each image; it only distinguishes versions of one URL.
    let tag: String = variant.as_bytes()[..TAG]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if let Ok(tag) = HeaderValue::try_from(format!("\"{tag}\"")) {
        headers.insert(header::ETAG, tag);
    }
    if let Ok(name) = HeaderValue::try_from(format!("image={level}")) {
        headers.insert(transcoded_image::FIELD, name);
    }
    depends_on_accept(headers);
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    const ACCEPT: (&str, &str) = ("accept", "image/avif,image/webp,image/*,*/*;q=0.8");
    const PNG: (&str, &str) = ("content-type", "image/png");

    fn fields(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    fn lossy(request: &[(&'static str, &str)], response: &[(&'static str, &str)]) -> bool {
        may_transcode(&Method::GET, &fields(request), StatusCode::OK, &fields(response))
    }

    #[test]
    fn only_images_displayed_by_a_page_are_transcoded() {
        assert!(lossy(&[ACCEPT], &[PNG]));
        assert!(lossy(&[ACCEPT], &[("content-type", "IMAGE/JPEG; x=y")]));
        let display = [("sec-fetch-dest", "image"), ("sec-fetch-mode", "no-cors")];
        assert!(lossy(&[display[0], display[1], ACCEPT], &[PNG]));
        // Browsers that cannot show WebP.
        let other = ("accept", "image/png,image/*,*/*;q=0.8");
        assert!(!lossy(&[display[0], display[1], other], &[PNG]));
        assert!(!lossy(&display, &[PNG]));
        // Requests of scripts, navigations, CORS requests, ranges.
        assert!(!lossy(&[("accept", "*/*")], &[PNG]));
        assert!(!lossy(&[("accept", "text/html,image/webp,*/*;q=0.8")], &[PNG]));
        assert!(!lossy(
            &[ACCEPT, ("sec-fetch-dest", "empty"), ("sec-fetch-mode", "cors")],
            &[PNG]
        ));
        assert!(!lossy(
            &[ACCEPT, ("sec-fetch-dest", "image"), ("sec-fetch-mode", "cors")],
            &[PNG]
        ));
        assert!(!lossy(&[ACCEPT, ("range", "bytes=0-")], &[PNG]));
        // An ordinary reload, and reloads that bypass caches and get the original.
        assert!(lossy(&[ACCEPT, ("cache-control", "max-age=0")], &[PNG]));
        assert!(!lossy(&[ACCEPT, ("cache-control", "no-cache")], &[PNG]));
        assert!(!lossy(&[ACCEPT, ("pragma", "no-cache")], &[PNG]));
        // Responses with `no-transform`, and formats other than raster images.
        assert!(!lossy(
            &[ACCEPT],
            &[PNG, ("cache-control", "public, No-Transform")]
        ));
        assert!(!lossy(&[ACCEPT, ("cache-control", "no-transform")], &[PNG]));
        assert!(!lossy(&[ACCEPT], &[("content-type", "image/svg+xml")]));
        assert!(!lossy(
            &[ACCEPT],
            &[PNG, ("content-disposition", "attachment; filename=x")]
        ));
        assert!(lossy(&[ACCEPT], &[PNG, ("content-disposition", "inline")]));
        let (request, response) = (fields(&[ACCEPT]), fields(&[PNG]));
        assert!(!may_transcode(&Method::HEAD, &request, StatusCode::OK, &response));
        assert!(!may_transcode(
            &Method::GET,
            &request,
            StatusCode::PARTIAL_CONTENT,
            &response
        ));
    }

    #[test]
    fn a_transcoded_variant_is_marked() {
        let mut headers = fields(&[
            PNG,
            ("etag", "\"original\""),
            ("last-modified", "Tue, 15 Nov 1994 12:45:26 GMT"),
            ("accept-ranges", "bytes"),
            ("content-length", "99"),
            ("vary", "accept-encoding"),
            ("cache-control", "max-age=60"),
        ]);
        describe_variant(&mut headers, ContentHash::of(b"x"), ImageLevel::Medium, Some(7));
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(text("content-type"), Some("image/webp"));
        assert_eq!(text("content-length"), Some("7"));
        assert_eq!(text("x-longhaul"), Some("image=medium"));
        assert_eq!(text("cache-control"), Some("max-age=60"));
        assert_ne!(text("etag"), Some("\"original\""));
        assert_eq!((text("last-modified"), text("accept-ranges")), (None, None));
        assert_eq!(headers.get_all("vary").iter().count(), 2);
        depends_on_accept(&mut headers);
        assert_eq!(headers.get_all("vary").iter().count(), 2);
    }
}
