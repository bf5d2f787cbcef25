//! Parses the page's HTML on its way to the agent: references are announced before the bytes that contain
//! them.
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use longhaul_page::Discovery;

use super::{PageLoad, event::Event};
use crate::pageload::page_loads::{BodyEnd, BodyTap};

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
}

impl BodyTap for PageTap {
    fn chunk<'a>(&'a mut self, decoded: &'a Bytes) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(discovery) = &mut self.discovery else {
                return;
            };
            let references = discovery.write(decoded);
            self.load.send(Event::PageGrew { references }).await;
            self.load.flush().await;
        })
    }

    fn end(mut self: Box<Self>, end: BodyEnd) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let discovery = self.discovery.take();
            // References found at the end are planned if the document is complete. The default icon is not
            // planned: browsers request it rarely, and such a request is learned.
            if let (Some(discovery), BodyEnd::Complete(_)) = (discovery, end) {
                let references = discovery.finish();
                self.load.send(Event::PageGrew { references }).await;
            }
            // These references are not urgent, so no flush is awaited.
        })
    }
}

impl Drop for PageTap {
    fn drop(&mut self) {
        self.load.post(Event::PageSearched);
    }
}
