//! Style sheets of the page's own document: an image is planned once the document contains an element that
//! displays it.
use std::collections::BTreeMap;

use longhaul_page::{Markup, PendingImages, Reference};
use url::Url;

use super::PageLoad;
use crate::bundle::context::lock;

/// State of the page's style sheets.
#[derive(Default)]
pub(super) struct Sheets {
    /// `Some` once the document arrives.
    markup: Option<Markup>,
    /// Images that wait for their elements, by entry of the style sheet.
    pending: BTreeMap<u32, PendingImages>,
}

impl PageLoad {
    /// Sets the markup when the page's document begins to arrive.
    pub(in crate::bundle) fn document_begins(&self, markup: Markup) {
        lock(&self.sheets).markup = Some(markup);
    }

    /// References of an entry's style sheet, or `None` if the sheet does not belong to the page's own
    /// document.
    pub(super) fn sheet(
        &self,
        entry: u32,
        css: &[u8],
        url: &Url,
        charset: Option<&str>,
    ) -> Option<Vec<Reference>> {
        if !self.plan().is_of_page(entry) {
            return None;
        }
        let markup = lock(&self.sheets).markup.clone()?;
        let (found, pending) = markup.sheet(css, url, charset);
        if !pending.is_empty() {
            lock(&self.sheets).pending.insert(entry, pending);
        }
        Some(found)
    }

    /// Plans the images whose elements are now in the document.
    pub(super) fn document_grew(&self) {
        let displayed: Vec<(u32, Vec<Reference>)> = {
            let mut sheets = lock(&self.sheets);
            let Sheets { markup, pending } = &mut *sheets;
            let Some(markup) = markup else { return };
            let displayed = pending
                .iter_mut()
                .map(|(entry, pending)| (*entry, markup.displayed(pending)));
            displayed.filter(|(_, found)| !found.is_empty()).collect()
        };
        for (entry, found) in displayed {
            self.found(found, Some(entry));
        }
    }
}
