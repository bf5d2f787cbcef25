//! Request headers of a browser.
use http::{HeaderMap, HeaderValue};
use url::Url;

use super::{Destination, content};

const USER_AGENT: &str = concat!(
    "Mozilla/5.0 (X11; Linux x86_64) longhaul-demo/",
    env!("CARGO_PKG_VERSION")
);

/// Returns the header fields that Chromium sends for the destination; `Sec-Fetch-*` only to trustworthy
/// origins, like Chromium.
pub(super) fn request_headers(
    url: &Url,
    destination: Destination,
    referrer: Option<&Url>,
    cookie: Option<&str>,
) -> HeaderMap {
    let (accept, dest, mode) = match destination {
        Destination::Document => (ACCEPT_DOCUMENT, "document", "navigate"),
        Destination::Frame => (ACCEPT_DOCUMENT, "iframe", "navigate"),
        Destination::Style | Destination::InactiveStyle => ("text/css,*/*;q=0.1", "style", "no-cors"),
        Destination::Script => ("*/*", "script", "no-cors"),
        Destination::Image | Destination::Icon => (ACCEPT_IMAGE, "image", "no-cors"),
        Destination::Font => ("*/*", "font", "cors"),
        Destination::Manifest => ("*/*", "manifest", "cors"),
        Destination::Other => ("*/*", "empty", "cors"),
    };
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    set("user-agent", USER_AGENT);
    set("accept", accept);
    set("accept-encoding", content::ACCEPT_ENCODING);
    set("accept-language", "en-US,en;q=0.9");
    if mode == "navigate" {
        set("upgrade-insecure-requests", "1");
    }
    if let Some(referer) = referrer.and_then(|referrer| referer(referrer, url)) {
        set("referer", &referer);
    }
    if let Some(cookie) = cookie {
        set("cookie", cookie);
    }
    if url.scheme() == "https" {
        let same_origin = referrer.is_some_and(|referrer| referrer.origin() == url.origin());
        set("sec-fetch-dest", dest);
        set("sec-fetch-mode", mode);
        set(
            "sec-fetch-site",
            if referrer.is_none() {
                "none"
            } else if same_origin {
                "same-origin"
            } else {
                "cross-site"
            },
        );
    }
    headers
}

/// `Referer` by the default policy `strict-origin-when-cross-origin`.
fn referer(referrer: &Url, target: &Url) -> Option<String> {
    if referrer.scheme() == "https" && target.scheme() == "http" {
        return None;
    }
    if referrer.origin() == target.origin() {
        return Some(referrer.to_string());
    }
    Some(format!("{}/", referrer.origin().ascii_serialization()))
}

const ACCEPT_DOCUMENT: &str =
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
const ACCEPT_IMAGE: &str = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_told_as_a_browser_tells_them() {
        let page: Url = "https://a.test/page?q".parse().unwrap();
        let fields = |url: &str, destination| {
            let headers = request_headers(&url.parse().unwrap(), destination, Some(&page), Some("k=v"));
            move |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        let image = fields("https://a.test/i.png", Destination::Image);
        assert_eq!(image("sec-fetch-dest").unwrap(), "image");
        assert_eq!(image("sec-fetch-site").unwrap(), "same-origin");
        assert_eq!(image("referer").unwrap(), "https://a.test/page?q");
        assert_eq!(image("cookie").unwrap(), "k=v");
        assert!(image("accept").unwrap().contains("image/webp"));
        let other = fields("https://b.test/f", Destination::Frame);
        assert_eq!(other("referer").unwrap(), "https://a.test/");
        assert_eq!(other("upgrade-insecure-requests").unwrap(), "1");
        let plain = fields("http://b.test/x.css", Destination::Style);
        assert_eq!((plain("referer"), plain("sec-fetch-dest")), (None, None));
    }
}
