//! Style sheets of the page's own document: an image is planned once the document contains an element that
//! displays it.
use longhaul_page::{Markup, PendingImages, Reference};
use longhaul_session::EntryId;

use super::state::LoadState;
use crate::pageload::plan::ReferenceSource;

impl LoadState {
    /// Markup of the page, if a style sheet belongs to the page's own document.
    pub(super) fn markup_of(&self, entry: EntryId) -> Option<Markup> {
        self.markup.clone().filter(|_| self.plan.is_of_page(entry))
    }

    /// Stores the images of a style sheet that no element of the page displays so far.
    pub(super) fn images_pending(&mut self, entry: EntryId, images: PendingImages) {
        let source = self.plan.get_mut(entry).map(|found| &mut found.source);
        if let Some(ReferenceSource::StyleSheet { pending, .. }) = source {
            *pending = images;
        }
    }

    /// Plans the images whose elements are now in the document.
    pub(super) fn document_grew(&mut self) {
        let Some(markup) = &self.markup else { return };
        let displayed = self.plan.pending_images().map(|(entry, pending)| {
            let found = markup.displayed(pending);
            (entry, found)
        });
        let displayed = displayed.filter(|(_, found)| !found.is_empty());
        let displayed: Vec<(EntryId, Vec<Reference>)> = displayed.collect();
        for (entry, found) in displayed {
            self.found(found, Some(entry));
        }
    }
}
