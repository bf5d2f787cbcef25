//! Transcoded images (`docs/protocol/session.md` section 7.2).
use http::{HeaderMap, header};

use crate::{coding::is_zero_weight, list::members};

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
            let accept = text(header::ACCEPT.as_str())
                .unwrap_or_default()
                .to_ascii_lowercase();
            accept.contains("image/webp") && !accept.contains("text/html")
        }
    }
}

/// Returns true if a transcoded image may answer a request: one for an image that a page displays, by a browser that lists
/// WebP in `Accept`. A browser that can show WebP says so; `image/*` and `*/*` do not.
pub fn may_answer(request: &HeaderMap) -> bool {
    let lists_webp = members(request, header::ACCEPT).any(|member| {
        let mut parts = member.split(';').map(str::trim);
        let is_webp = parts
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case("image/webp"));
        is_webp && !parts.any(is_zero_weight)
    });
    lists_webp && is_for_display(request)
}

/// Returns true if a response contains a transcoded image.
pub fn is_variant(response: &HeaderMap) -> bool {
    level(response).is_some()
}

/// Returns the name of the image level of a transcoded image.
pub fn level(response: &HeaderMap) -> Option<&str> {
    response.get(FIELD)?.to_str().ok()?.strip_prefix("image=")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fields::map;

    #[test]
    fn webp_answers_only_requests_that_list_it() {
        let of = |accept: &'static str, dest: Option<(&'static str, &'static str)>| {
            let mut fields = vec![("accept", accept)];
            if let Some((dest, mode)) = dest {
                fields.extend([("sec-fetch-dest", dest), ("sec-fetch-mode", mode)]);
            }
            may_answer(&map(&fields))
        };
        let image = Some(("image", "no-cors"));
        for accept in [
            "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
            "image/avif, Image/WebP;q=0.9, */*",
            "image/webp",
        ] {
            assert!(of(accept, image) && of(accept, None), "{accept}");
            assert!(!of(accept, Some(("empty", "cors"))), "{accept}");
        }
        for accept in [
            "image/png,image/svg+xml,image/*;q=0.8,video/*;q=0.8,*/*;q=0.5",
            "*/*",
            "",
            "image/webp;q=0, image/*",
            "image/webpx, image/*",
        ] {
            assert!(!of(accept, image) && !of(accept, None), "{accept}");
        }
        assert!(!of("text/html,application/xml;q=0.9,image/webp,*/*;q=0.8", None));
    }
}
