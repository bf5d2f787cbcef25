//! Pictures that a gateway put in the place of others of the same content (`docs/protocol/session.md` section 7.2).
use http::{HeaderMap, header};

/// The response field that says what a gateway made of a picture.
pub const FIELD: &str = "x-longhaul";

/// Whether a request is for a picture that a page displays.
///
/// Where browsers say what a request is for (`Sec-Fetch-Dest`; on https and loopback) it must be an image of the page's
/// own; elsewhere `Accept` must name WebP and not HTML. Scripts that read pictures (`*/*`) display nothing.
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

/// Whether a response has such a picture.
pub fn is_variant(response: &HeaderMap) -> bool {
    response
        .get(FIELD)
        .is_some_and(|value| value.as_bytes().starts_with(b"image="))
}
