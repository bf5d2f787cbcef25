//! Backgrounds of `style` attributes that rules of style sheets override with `!important`, until a script changes the
//! classes of their elements.
use std::sync::Arc;

use url::Url;

use crate::{
    Certainty, Reference, Vocabulary,
    element_match::ElementNames,
    matching_budget::{self, MatchingBudget},
};

/// Maximum number of backgrounds of `style` attributes that are compared with rules; further ones count as displayed.
const MAX_BACKGROUNDS: usize = 500;
/// Maximum number of rules of a document's style sheets that are compared.
const MAX_RULES: usize = 500;

/// The backgrounds of the `style` attributes of a document, and the rules that override some of them.
#[derive(Debug, Default)]
pub(crate) struct OverriddenBackgrounds {
    /// Selectors of the rules.
    rules: Vec<Arc<str>>,
    /// Backgrounds that no rule overrides so far.
    displayed: Vec<Background>,
    /// URLs that no element displays any more.
    overridden: Vec<Url>,
}

#[derive(Debug)]
struct Background {
    url: Url,
    element: ElementNames,
}

impl OverriddenBackgrounds {
    /// Adds the background of an element. It is unlikely to be loaded if a rule overrides it.
    pub(crate) fn add(
        &mut self,
        image: &mut Reference,
        element: ElementNames,
        vocabulary: &Vocabulary,
        budget: &mut MatchingBudget,
    ) {
        if is_overridden(&element, &self.rules, vocabulary, budget) {
            image.certainty = Certainty::Unlikely;
        } else if self.displayed.len() < MAX_BACKGROUNDS {
            let url = image.url.clone();
            self.displayed.push(Background { url, element });
        } else {
            image.is_inline_background = false;
        }
    }

    /// Adds the rules of a style sheet.
    pub(crate) fn add_rules(
        &mut self,
        mut rules: Vec<Arc<str>>,
        vocabulary: &Vocabulary,
        budget: &mut MatchingBudget,
    ) {
        rules.truncate(MAX_RULES - self.rules.len());
        let (overridden, displayed): (Vec<_>, Vec<_>) = std::mem::take(&mut self.displayed)
            .into_iter()
            .partition(|background| is_overridden(&background.element, &rules, vocabulary, budget));
        self.displayed = displayed;
        let urls = overridden.into_iter().map(|background| background.url);
        let is_displayed = |url: &Url| self.displayed.iter().any(|background| background.url == *url);
        self.overridden.extend(urls.filter(|url| !is_displayed(url)));
        self.rules.append(&mut rules);
    }

    /// Returns the URLs that were displayed before, and that no element displays any more since the last call.
    pub(crate) fn take(&mut self) -> Vec<Url> {
        std::mem::take(&mut self.overridden)
    }
}

fn is_overridden(
    element: &ElementNames,
    rules: &[Arc<str>],
    vocabulary: &Vocabulary,
    budget: &mut MatchingBudget,
) -> bool {
    budget.take([matching_budget::of_selectors(rules)])
        && rules
            .iter()
            .any(|selectors| element.matches(selectors, vocabulary))
}

#[cfg(test)]
mod tests;
