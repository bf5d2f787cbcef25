//! The scripted browser: loads pages over kernel TCP by the connection rules of real browsers, exactly and
//! reproducibly.
//!
//! It parses HTML while it arrives and style sheets when they are complete, requests each distinct URL once,
//! immediately and in the order of discovery, follows redirects and frames, stores cookies for one load, and
//! resolves names over the measured link. Scripts are fetched and not executed.
//!
//! All sockets are opened by tasks of the calling runtime, so a load on a current-thread runtime stays in
//! that thread's network namespace.
mod connection;
mod dial;
mod document;
mod error;
mod framing;
mod names;
mod object;
mod objects;
mod options;
mod pool;
mod request;
mod store;
mod visit;

use url::Url;

pub use error::ModelError;
pub use options::{AcceptEncoding, Limits, ModelOptions, Route, Rules};
pub use store::BrowserCache;

use crate::PageLoad;

/// A load with the counters that only this browser has.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// The load.
    pub load: PageLoad,
    /// Requests that were sent again because their connection was closed before the response.
    pub resent: u64,
}

/// Loads the page at `url`. The only state from earlier loads is in `cache`.
///
/// # Errors
/// The page's own document was not received. Every other error is the outcome of an object of the
/// [`PageLoad`].
pub async fn load(
    url: &Url,
    options: &ModelOptions,
    cache: Option<&mut BrowserCache>,
) -> Result<PageLoad, ModelError> {
    Ok(load_counted(url, options, cache).await?.load)
}

/// Loads a page like [`load`], and counts the requests that had to be sent again.
///
/// # Errors
/// As [`load`].
pub async fn load_counted(
    url: &Url,
    options: &ModelOptions,
    cache: Option<&mut BrowserCache>,
) -> Result<Counted, ModelError> {
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(ModelError::Url);
    }
    visit::Visit::new(url, options, cache).run().await
}
