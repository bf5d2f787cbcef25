//! Parses the page's HTML on its way to the agent: references are announced before the bytes that contain
//! them.
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use longhaul_page::Discovery;

use super::PageLoad;
use crate::bundle::page_loads::{BodyEnd, BodyTap};

/// Parser of a page.
pub(crate) struct PageTap {
    load: Arc<PageLoad>,
    /// `Some` until the end.
    discovery: Option<Discovery>,
}

impl PageTap {
    pub(crate) const fn new(load: Arc<PageLoad>, discovery: Discovery) -> Self {
        Self {
            load,
            discovery: Some(discovery),
        }
    }

    /// Ends the parsing; references found only at the end are planned if the document is complete.
    fn finish(&mut self, is_whole: bool) {
        let Some(discovery) = self.discovery.take() else {
            return;
        };
        if is_whole {
            // Without the default icon: browsers request it rarely, and such a request is learned.
            self.load.found(discovery.finish(), None);
            self.load.document_grew();
        }
        self.load.plan().page_searched();
        self.load.wake();
    }
}

impl BodyTap for PageTap {
    fn chunk<'a>(&'a mut self, decoded: &'a Bytes) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(discovery) = &mut self.discovery else {
                return;
            };
            let found = discovery.write(decoded);
            if !found.is_empty() {
                self.load.found(found, None);
            }
            self.load.document_grew();
            self.load.flush().await;
        })
    }

    fn end(mut self: Box<Self>, end: BodyEnd) -> BoxFuture<'static, ()> {
        self.finish(matches!(end, BodyEnd::Complete(_)));
        // References found at the end are not urgent, so no flush is awaited.
        Box::pin(std::future::ready(()))
    }
}

impl Drop for PageTap {
    fn drop(&mut self) {
        self.finish(false);
    }
}
