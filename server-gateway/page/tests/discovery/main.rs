//! Discovery in documents.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    reason = "the lints take functions that tests share for product code"
)]

mod cutting;
mod encodings;
mod limits;
mod markup;
mod policies;

use longhaul_page::{Reference, Viewport, discover_html};
use url::Url;

fn page() -> Url {
    "http://a.test/dir/page".parse().unwrap()
}

fn references(html: &str) -> Vec<Reference> {
    discover_html(html.as_bytes(), &page(), Some("utf-8"), Viewport::default())
}

/// Returns destinations and URLs.
fn found(html: &str) -> Vec<String> {
    let found = references(html).into_iter();
    found
        .map(|reference| format!("{:?} {}", reference.destination, reference.url))
        .collect()
}

/// Returns the paths below the page's folder.
fn paths(html: &str) -> Vec<String> {
    let found = references(html).into_iter();
    found
        .map(|reference| reference.url.as_str().replace("http://a.test/dir/", ""))
        .collect()
}
