//! Style sheets of the page's own document: an image is planned once the document contains an element that
//! displays it, and a font once the document and its style sheets use it.
use longhaul_gateway_core::wall_clock::now;
use longhaul_page::{Certainty, Destination, Markup, PendingReferences, Reference};
use longhaul_session::EntryId;
use url::Url;

use super::state::LoadState;
use crate::plan::ReferenceSource;

impl LoadState {
    /// Markup of the page, if a style sheet belongs to the page's own document.
    pub(super) fn markup_of(&self, entry: EntryId) -> Option<Markup> {
        self.markup.clone().filter(|_| self.plan.is_of_page(entry))
    }

    /// Stores the images and fonts of a style sheet that nothing displays so far, and plans the fonts of other
    /// style sheets that it uses.
    pub(super) fn references_pending(&mut self, entry: EntryId, references: PendingReferences) {
        let source = self.plan.get_mut(entry).map(|found| &mut found.source);
        if let Some(ReferenceSource::StyleSheet { pending, .. }) = source {
            *pending = references;
        }
        self.plan_displayed();
    }

    /// The URLs of the style sheets among the references of `referrer` (`None`: the page) that the page's own
    /// document uses.
    pub(super) fn sheets_of_page(&self, references: &[Reference], referrer: Option<EntryId>) -> Vec<Url> {
        let is_of_page = self.markup.is_some() && referrer.is_none_or(|entry| self.plan.is_of_page(entry));
        let is_sheet = |found: &&Reference| {
            found.destination == Destination::Style
                && found.certainty != Certainty::Unlikely
                && !self.learned.is_suppressed(&found.url, now())
        };
        let sheets = references.iter().filter(|_| is_of_page).filter(is_sheet);
        sheets.map(|found| found.url.clone()).collect()
    }

    /// Fonts no longer wait if one of the page's style sheets is not planned, because it may use them.
    pub(super) fn require_planned(&mut self, sheets: &[Url]) {
        if sheets.iter().any(|url| self.plan.find(url.as_str()).is_none()) {
            self.lack_style_sheet();
        }
    }

    /// Fonts no longer wait if the browser may use a style sheet whose response was not searched.
    pub(super) fn require_searched(&mut self) {
        if self.markup.is_some() && self.plan.lacks_style_sheet() {
            self.lack_style_sheet();
        }
    }

    fn lack_style_sheet(&mut self) {
        let Some(markup) = &self.markup else { return };
        markup.lack_style_sheet();
        self.plan_displayed();
    }

    /// Plans the images whose elements are now in the document, and the fonts that are used now, and withdraws the
    /// backgrounds that style sheets override.
    pub(super) fn plan_displayed(&mut self) {
        let Some(markup) = &self.markup else { return };
        let inline_fonts = markup.inline_fonts();
        for url in markup.overridden() {
            self.plan.override_background(&url);
        }
        let displayed = self.plan.pending_references().map(|(entry, pending)| {
            let found = markup.displayed(pending);
            (entry, found)
        });
        let displayed = displayed.filter(|(_, found)| !found.is_empty());
        let displayed: Vec<(EntryId, Vec<Reference>)> = displayed.collect();
        self.found(inline_fonts, None);
        for (entry, found) in displayed {
            self.found(found, Some(entry));
        }
    }
}
