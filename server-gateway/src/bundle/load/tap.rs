//! The page's HTML on its way to the agent: what it refers to is announced before it.
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use longhaul_page::Discovery;

use super::PageLoad;
use crate::fetch::{BodyEnd, BodyTap};

/// Looks through a page.
pub(crate) struct PageTap {
    load: Arc<PageLoad>,
    /// There until the end.
    discovery: Option<Discovery>,
}

impl PageTap {
    pub(crate) const fn new(load: Arc<PageLoad>, discovery: Discovery) -> Self {
        Self {
            load,
            discovery: Some(discovery),
        }
    }

    /// Ends the search; what is found only then is planned, if the document is whole.
    fn finish(&mut self, is_whole: bool) {
        let Some(discovery) = self.discovery.take() else {
            return;
        };
        if is_whole {
            // Not the default icon: browsers ask for it rarely, and what asks for it teaches the plan.
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
        // What the end brought is lazy: it needs not be waited for.
        Box::pin(std::future::ready(()))
    }
}

impl Drop for PageTap {
    fn drop(&mut self) {
        self.finish(false);
    }
}
