//! Parses the page's HTML on its way to the agent: references are announced before the bytes that contain
//! them.
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use longhaul_gateway_core::page_parsers::{DocumentParser, Found};
use longhaul_page::{Discovery, LiteralUrls};
use longhaul_types::ContentHash;
use url::Url;

use super::{PageLoad, event::Event};

/// End of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// The body is complete and has this CHK.
    Complete(ContentHash),
    /// The origin truncated the body, or its content coding is malformed.
    Truncated,
}

/// Sees a page's body on its way to the agent, and parses it.
///
/// Dropped without [`Self::end`] if the fetch is cancelled or the agent stops the stream.
pub struct PageTap {
    load: Arc<PageLoad>,
    parser: DocumentParser,
}

impl PageTap {
    /// `page` is the URL of the document, `head` the fields of its response.
    pub fn new(load: Arc<PageLoad>, page: &Url, discovery: Discovery, head: &HeaderMap) -> Self {
        let parser = load.document_parser(discovery, Some(LiteralUrls::new(page)), head);
        Self { load, parser }
    }

    /// Called with decoded bytes, which are sent when the future completes.
    pub async fn chunk(&mut self, decoded: &Bytes) {
        let Found { references, literals } = self.parser.write(decoded).await;
        self.load.send(Event::PageGrew { references }).await;
        if !literals.is_empty() {
            self.load.send(Event::Literals(literals)).await;
        }
        self.load.flush().await;
    }

    /// Called at the end of the body.
    pub async fn end(mut self, end: BodyEnd) {
        // References found at the end are planned if the document is complete. The default icon is not
        // planned: browsers request it rarely, and such a request is learned.
        if let BodyEnd::Complete(hash) = end {
            let references = self.parser.end().await;
            self.load.send(Event::PageGrew { references }).await;
            self.load.send(Event::PageComplete(hash)).await;
        }
        // These references are not urgent, so no flush is awaited.
    }
}

impl Drop for PageTap {
    fn drop(&mut self) {
        self.load.post(Event::PageSearched);
    }
}
