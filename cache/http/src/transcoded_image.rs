//! Transcoded images (`docs/protocol/session.md` section 7.2).
use http::{HeaderMap, header};

/// The response field that describes a gateway's transcoding of an image.
pub const FIELD: &str = "x-longhaul";

/// Returns true if a request is for an image that a page displays.
///
/// If the browser sends `Sec-Fetch-Dest` (on https and loopback), the destination must be `image` and the
/// mode `no-cors`. Otherwise `Accept` must contain WebP and not HTML. Scripts that read images (`*/*`) do not
/// display them.
pub fn is_for_display(request: &HeaderMap) -> bool {
    let text = |name: &str| request.get(name).and_then(|value| value.to_str().ok());
    match (text("sec-fetch-dest"), text("sec-fetch-mode")) {
        (Some(destination), mode) => destination == "image" && mode == Some("no-cors"),
        (None, _) => {
            let accept = text(header::ACCEPT.as_str()).unwrap_or_default();
            accept.contains("image/webp") && !accept.contains("text/html")
        }
    }
}

/// Returns true if a response contains a transcoded image.
pub fn is_variant(response: &HeaderMap) -> bool {
    level(response).is_some()
}

/// Returns the name of the image level of a transcoded image.
pub fn level(response: &HeaderMap) -> Option<&str> {
    response.get(FIELD)?.to_str().ok()?.strip_prefix("image=")
}
