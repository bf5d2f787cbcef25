//! The `Accept` field of each destination and browser engine.
use http::{HeaderMap, header};

use super::Browser;
use crate::Destination;

/// Returns the `Accept` value of a subresource; `page` contains the fields of the page's request.
pub(super) fn accept(browser: Browser, page: &HeaderMap, destination: Destination) -> String {
    let document = page.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    match destination {
        Destination::Document | Destination::Frame => document.unwrap_or(ANY).to_owned(),
        Destination::Style | Destination::InactiveStyle => STYLE.to_owned(),
        Destination::Image | Destination::Icon => image(browser, document.unwrap_or_default()),
        Destination::Script | Destination::Manifest => ANY.to_owned(),
        Destination::Font if browser == Browser::Firefox => FIREFOX_FONT.to_owned(),
        Destination::Font | Destination::Other => ANY.to_owned(),
    }
}

fn image(browser: Browser, document: &str) -> String {
    match browser {
        Browser::Chromium => chromium_image(document),
        Browser::Firefox => FIREFOX_IMAGE.to_owned(),
        Browser::Safari => SAFARI_IMAGE.to_owned(),
        // An engine that accepts WebP at all announces it for images.
        Browser::Other if document.contains("image/webp") => OTHER_IMAGE.to_owned(),
        Browser::Other => ANY.to_owned(),
    }
}

/// Returns Chromium's `Accept` value for images. Chromium lists its image formats, which change with its
/// versions, in both fields.
fn chromium_image(document: &str) -> String {
    let formats = document
        .split(',')
        .map(str::trim)
        .filter(|member| member.starts_with("image/") && !member.contains(';'));
    let mut accept = String::new();
    for format in formats.take(MAX_FORMATS) {
        accept.push_str(format);
        accept.push(',');
    }
    accept.push_str(CHROMIUM_IMAGE_TAIL);
    accept
}

const OTHER_IMAGE: &str = "image/webp,image/*,*/*;q=0.8";
const ANY: &str = "*/*";
const STYLE: &str = "text/css,*/*;q=0.1";
const CHROMIUM_IMAGE_TAIL: &str = "image/svg+xml,image/*,*/*;q=0.8";
const FIREFOX_FONT: &str = "application/font-woff2;q=1.0,application/font-woff;q=0.9,*/*;q=0.8";
/// Since Firefox 128; learned templates override it.
const FIREFOX_IMAGE: &str = "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5";
const SAFARI_IMAGE: &str = "image/webp,image/avif,image/jxl,image/heic,image/heic-sequence,video/*;q=0.8,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5";
/// No browser lists more formats.
const MAX_FORMATS: usize = 16;
