//! A page as loaded by a browser without scripts: the loader, with the product's own discovery of
//! subresources.
//!
//! Scripts are fetched but not run, so objects that scripts load are not part of the page.

mod client;
mod content;
mod cookies;
mod headers;
mod ideal;
mod load;

pub use client::{Client, FetchError, Request, Response, Route, TrustError, client_trust};
pub use content::{DecodeError, decode};
pub use cookies::CookieJar;
pub use ideal::ideal_time;
pub use load::{Expectation, Loader, Object, Oracle, Outcome, PageLoad};
pub use longhaul_page::{
    Destination, Discovery, MediaType, Reference, Viewport, discover_css, discover_html,
};
