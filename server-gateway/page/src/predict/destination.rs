//! Destinations of browser requests.
use http::{HeaderMap, header};
use url::Url;

use crate::Destination;

/// Returns the destination of a browser's request: from `Sec-Fetch-Dest` (Fetch, section "Requests"), else from `Accept`,
/// else from the extension of the path. A navigation without `Sec-Fetch-Dest` counts as [`Destination::Document`], because
/// frames are not distinguishable.
pub fn destination_of(url: &Url, request: &HeaderMap) -> Destination {
    let field = |name: &str| request.get(name).and_then(|value| value.to_str().ok());
    if let Some(told) = field("sec-fetch-dest") {
        return match told {
            "document" => Destination::Document,
            "iframe" | "frame" | "embed" | "object" => Destination::Frame,
            "style" => Destination::Style,
            // The script-like destinations.
            "script" | "worker" | "sharedworker" | "serviceworker" | "audioworklet" | "paintworklet" => {
                Destination::Script
            }
            "image" => Destination::Image,
            "font" => Destination::Font,
            "manifest" => Destination::Manifest,
            _ => Destination::Other,
        };
    }
    let accept = field(header::ACCEPT.as_str()).unwrap_or_default();
    if accept.starts_with("text/css") {
        Destination::Style
    } else if accept.starts_with("text/html") {
        Destination::Document
    } else if accept.starts_with("image/") {
        Destination::Image
    } else if accept.starts_with("application/font-woff") {
        Destination::Font
    } else {
        by_extension(url.path())
    }
}

fn by_extension(path: &str) -> Destination {
    let name = path.rsplit('/').next().unwrap_or_default();
    let extension = name
        .rsplit_once('.')
        .map(|(_, extension)| extension.to_ascii_lowercase());
    match extension.as_deref() {
        Some("js" | "mjs") => Destination::Script,
        Some("css") => Destination::Style,
        Some("woff2" | "woff" | "ttf" | "otf" | "eot") => Destination::Font,
        Some("webmanifest") => Destination::Manifest,
        _ => Destination::Other,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn destinations_are_inferred_from_request_and_url() {
        for (path, name, value, expected) in [
            ("/x", "sec-fetch-dest", "script", Destination::Script),
            ("/x.css", "sec-fetch-dest", "empty", Destination::Other),
            ("/x", "sec-fetch-dest", "iframe", Destination::Frame),
            ("/x", "accept", "text/css,*/*;q=0.1", Destination::Style),
            ("/x.EOT", "accept", "*/*", Destination::Font),
            ("/x.webmanifest", "accept", "*/*", Destination::Manifest),
            ("/x.mjs", "accept", "*/*", Destination::Script),
            ("/x.js", "accept", "image/avif,*/*", Destination::Image),
            ("/x", "accept", "text/html,*/*;q=0.8", Destination::Document),
            ("/a.b/x.JS", "accept", "*/*", Destination::Script),
            ("/f.woff2?v=1", "accept", "*/*", Destination::Font),
            ("/js", "accept", "*/*", Destination::Other),
        ] {
            let mut request = HeaderMap::new();
            request.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            let url = format!("http://a.test{path}").parse().unwrap();
            assert_eq!(destination_of(&url, &request), expected, "{path} {value}");
        }
    }

    #[test]
    fn each_destination_of_the_fetch_standard_has_one_here() {
        for (expected, named) in [
            (Destination::Document, &["document"][..]),
            (Destination::Frame, &["embed", "frame", "iframe", "object"]),
            (Destination::Style, &["style"]),
            (
                Destination::Script,
                &[
                    "audioworklet",
                    "paintworklet",
                    "script",
                    "serviceworker",
                    "sharedworker",
                    "worker",
                ],
            ),
            (Destination::Image, &["image"]),
            (Destination::Font, &["font"]),
            (Destination::Manifest, &["manifest"]),
            (
                Destination::Other,
                &[
                    "audio",
                    "empty",
                    "json",
                    "report",
                    "speculationrules",
                    "text",
                    "track",
                    "video",
                    "webidentity",
                    "xslt",
                ],
            ),
        ] {
            for name in named {
                let mut request = HeaderMap::new();
                request.insert("sec-fetch-dest", HeaderValue::from_static(name));
                // Neither the field `Accept` nor the URL counts then.
                request.insert("accept", HeaderValue::from_static("text/html"));
                let url = "http://a.test/x.css".parse().unwrap();
                assert_eq!(destination_of(&url, &request), expected, "{name}");
            }
        }
    }
}
