//! Backgrounds of `style` attributes: they are fetched at once, and pushed once no style sheet can override them any more.
use longhaul_page::{Destination, Importance};
use longhaul_session::{EntryId, Withdrawal};
use url::Url;

use super::{BodyState, Plan, PlanEntry, ReferenceSearch, Stage};

impl Plan {
    /// Returns true while a style sheet for which the page's own document waits is not searched.
    pub(super) fn awaits_style_sheet(&self) -> bool {
        let is_awaited = |entry: &PlanEntry| {
            let reference = &entry.reference;
            reference.destination == Destination::Style
                && reference.importance == Importance::Blocking
                && entry.search == ReferenceSearch::Pending
        };
        self.entries()
            .any(|(number, entry)| is_awaited(entry) && self.is_of_page(number))
    }

    /// Withdraws a background that a style sheet overrides, unless its push has begun, the browser requested it, or
    /// something else displays it. A request of the browser counts as unplanned from then on.
    pub(crate) fn override_background(&mut self, url: &Url) {
        let Some(number) = self.find(url.as_str()) else {
            return;
        };
        let is_unsent = |entry: &PlanEntry| match &entry.stage {
            Stage::Announced | Stage::Fetching => true,
            Stage::Answered(answered) => matches!(answered.body, BodyState::Waiting(_)),
            Stage::Withdrawn => false,
        };
        let is_overridden = |entry: &&PlanEntry| entry.may_be_overridden() && is_unsent(entry);
        let Some(hash) = self.get(number).filter(is_overridden).map(|entry| entry.hash) else {
            return;
        };
        // The head of another entry may refer to the body.
        let is_shared = |(other, entry): (EntryId, &PlanEntry)| other != number && entry.hash == hash;
        if hash.is_none() || !self.entries().any(is_shared) {
            self.withdraw(number, Withdrawal::Cancelled);
            self.by_url.remove(url.as_str());
        }
    }
}

impl PlanEntry {
    /// Returns true if only backgrounds of `style` attributes display the entry, and the browser has not requested it.
    pub(super) const fn may_be_overridden(&self) -> bool {
        self.reference.is_inline_background && self.requested.is_none()
    }
}
