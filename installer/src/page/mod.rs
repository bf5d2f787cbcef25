//! A page as a browser without scripts loads it: discovery of sub-resources, and the loader.
//!
//! Scripts are fetched but not run, so what scripts load is not part of the page here.

mod client;
mod content;
mod cookies;
mod css;
mod discovery;
mod headers;
mod html;
mod ideal;
mod load;
mod media;
mod srcset;

pub use client::{Client, FetchError, Request, Response, Route, TrustError, client_trust};
pub use content::{DecodeError, decode};
pub use cookies::CookieJar;
pub use discovery::{Discovery, discover as discover_html};
pub use ideal::ideal_time;
pub use load::{Expectation, Loader, Object, Oracle, Outcome, PageLoad};

/// What a sub-resource is for: the request destinations of the Fetch standard that discovery tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    /// The page itself.
    Document,
    /// A document in a frame.
    Frame,
    /// A style sheet.
    Style,
    /// A style sheet for another medium: browsers fetch it, but nothing that it names.
    InactiveStyle,
    /// A script.
    Script,
    /// An image.
    Image,
    /// A font.
    Font,
    /// Anything else, such as a preload for `fetch()`.
    Other,
}

/// A sub-resource found in a page or style sheet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where it is: absolute, http or https, without fragment.
    pub url: url::Url,
    /// What it is for.
    pub destination: Destination,
}

impl Reference {
    /// Resolves `target` against `base`; `None` for `data:`, fragments of the same document and the like.
    fn resolve(target: &str, base: &url::Url, destination: Destination) -> Option<Self> {
        let target = target.trim();
        if target.is_empty() || target.starts_with('#') {
            return None;
        }
        let mut url = base.join(target).ok()?;
        url.set_fragment(None);
        (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(Self { url, destination })
    }
}

/// Style sheets found through `rel=stylesheet` or `@import`.
pub use css::discover as discover_css;
