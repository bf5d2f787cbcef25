//! Destinations of the browser's requests that no plan contained.
use http::{HeaderMap, header};
use longhaul_page::Destination;
use url::Url;

/// Destination of a request, from its fields and URL.
pub(super) fn destination_of(url: &Url, request: &HeaderMap) -> Destination {
    let field = |name: &str| {
        request
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    match field("sec-fetch-dest") {
        "style" => return Destination::Style,
        "script" => return Destination::Script,
        "image" => return Destination::Image,
        "font" => return Destination::Font,
        "iframe" | "frame" => return Destination::Frame,
        "manifest" => return Destination::Manifest,
        "empty" => return Destination::Other,
        _ => {}
    }
    let accept = field(header::ACCEPT.as_str());
    let extension = url.path().rsplit_once('.').map_or("", |(_, extension)| extension);
    if accept.starts_with("text/html") {
        Destination::Frame
    } else if accept.starts_with("text/css") {
        Destination::Style
    } else if accept.starts_with("image/") {
        Destination::Image
    } else if extension.eq_ignore_ascii_case("js") || extension.eq_ignore_ascii_case("mjs") {
        Destination::Script
    } else if ["woff", "woff2", "ttf", "otf"]
        .iter()
        .any(|font| extension.eq_ignore_ascii_case(font))
    {
        Destination::Font
    } else {
        Destination::Other
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn the_destination_is_inferred_from_the_request() {
        for (path, name, value, expected) in [
            ("/x", "sec-fetch-dest", "style", Destination::Style),
            ("/x.js", "sec-fetch-dest", "empty", Destination::Other),
            ("/x", "accept", "text/css,*/*;q=0.1", Destination::Style),
            ("/x.js", "accept", "image/avif,image/webp,*/*", Destination::Image),
            ("/x.JS", "accept", "*/*", Destination::Script),
            ("/x.woff2", "accept", "*/*", Destination::Font),
            ("/x", "accept", "*/*", Destination::Other),
            ("/x", "accept", "text/html,*/*", Destination::Frame),
        ] {
            let url = Url::parse("http://a.test").unwrap().join(path).unwrap();
            let mut request = HeaderMap::new();
            request.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            assert_eq!(destination_of(&url, &request), expected, "{path} {value}");
        }
    }
}
