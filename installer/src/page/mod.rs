//! A page as a browser without scripts loads it: the loader, on the product's own discovery of sub-resources.
//!
//! Scripts are fetched but not run, so what scripts load is not part of the page here.

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
