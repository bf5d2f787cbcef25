//! Images that wait for an element that displays them.
use std::sync::Arc;

use crate::{Reference, Vocabulary, matching_budget, vocabulary};

/// An image of a rule whose selectors match no element of the document so far.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) reference: Reference,
    /// Selectors of the enclosing rules.
    pub(super) selectors: Vec<Arc<str>>,
    /// True if a later rule overrides the image.
    pub(super) is_overridden: bool,
}

impl Waiting {
    /// Cost of [`Self::may_match`].
    pub(crate) fn cost(&self) -> usize {
        matching_budget::of_selectors(&self.selectors)
    }

    /// Returns true if matching elements have been added.
    pub(crate) fn may_match(&self, vocabulary: &Vocabulary) -> bool {
        let mut selectors = self.selectors.iter();
        selectors.all(|selectors| vocabulary::may_match(selectors, Some(vocabulary)))
    }
}
