//! The scripted browser: loads pages over kernel TCP under the connection rules of real browsers, exactly and repeatably.
//!
//! It parses HTML while it arrives and style sheets once they are complete, asks for each distinct URL once, as soon as it
//! is known and in the order of discovery, follows redirects and frames, keeps cookies for one load, and looks names up
//! over the link that is being measured. Scripts are fetched and not run.
//!
//! All sockets are opened by tasks of the calling runtime, so a load on a current-thread runtime stays in that thread's
//! network namespace.
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

/// A load with what only this browser can count.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// The load.
    pub load: PageLoad,
    /// Requests that were sent again because their connection was closed before they were answered.
    pub resent: u64,
}

/// Loads the page at `url`, without anything that an earlier load left but what is in `cache`.
///
/// # Errors
/// The page's own document did not answer. Whatever else goes wrong is the outcome of an object of the [`PageLoad`].
pub async fn load(
    url: &Url,
    options: &ModelOptions,
    cache: Option<&mut BrowserCache>,
) -> Result<PageLoad, ModelError> {
    Ok(load_counted(url, options, cache).await?.load)
}

/// As [`load`], and counts requests that had to be sent again.
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
