//! Style sheets in the markup: the text of `style` elements, the images that wait for an element that their
//! selector matches, and the fonts that wait for text that uses them.
use std::sync::Arc;

use lol_html::send::Element;
use url::Url;

use crate::{
    Certainty, Reference, Viewport, Vocabulary, character_reference,
    css::{self, Discovered, Part, Waiting},
    element_match::ElementNames,
    fonts::{Face, PageFonts, SheetFonts},
    matching_budget::MatchingBudget,
    overridden_backgrounds::OverriddenBackgrounds,
    reference::Base,
    vocabulary::Name,
};

/// Maximum length of an element's inline styles that are searched.
pub(crate) const MAX_STYLE: usize = 4 * 1024 * 1024;

/// The inline style sheets of a document as far as it was read, and the names that their selectors can match.
pub(crate) struct InlineStyles {
    vocabulary: Vocabulary,
    /// Images of inline styles that no element matches yet.
    waiting: Vec<Waiting>,
    /// Text of the open `style` element.
    text: String,
    /// True if the open `style` element applies to this page and viewport.
    applies: bool,
    /// What the page's style sheets and text tell about its fonts; `None` if all fonts count as used, because
    /// external style sheets are not searched with this document.
    fonts: Option<PageFonts>,
    /// Fonts that nothing uses yet.
    unused: Vec<Face>,
    backgrounds: OverriddenBackgrounds,
    budget: MatchingBudget,
}

impl InlineStyles {
    pub(crate) fn new() -> Self {
        Self {
            vocabulary: Vocabulary::default(),
            waiting: Vec::new(),
            text: String::new(),
            applies: true,
            fonts: None,
            unused: Vec::new(),
            backgrounds: OverriddenBackgrounds::default(),
            budget: MatchingBudget::default(),
        }
    }

    pub(crate) const fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Records the names that selectors can match, and returns the images that waited for one of them.
    pub(crate) fn add_names(&mut self, tag: &str, element: &Element<'_, '_>) -> Vec<Reference> {
        let mut new = self.vocabulary.add(Name::Element, tag);
        if let Some(id) = element.get_attribute("id") {
            new |= self
                .vocabulary
                .add(Name::Id, character_reference::resolve(&id).trim());
        }
        if let Some(classes) = element.get_attribute("class") {
            for class in character_reference::resolve(&classes).split_ascii_whitespace() {
                new |= self.vocabulary.add(Name::Class, class);
            }
        }
        if !new || self.waiting.is_empty() {
            return Vec::new();
        }
        // Without a budget left, the images wait for the end of the document.
        if !self.budget.take(self.waiting.iter().map(Waiting::cost)) {
            return Vec::new();
        }
        let vocabulary = &self.vocabulary;
        let (matching, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting: &Waiting| waiting.may_match(vocabulary));
        self.waiting = waiting;
        matching
            .into_iter()
            .map(|waiting| waiting.reference.with_certainty(Certainty::Likely))
            .collect()
    }

    /// Begins the text of a `style` element.
    pub(crate) const fn open(&mut self, applies: bool) {
        self.applies = applies;
    }

    /// Adds text of the open `style` element.
    pub(crate) fn push(&mut self, text: &str) {
        if self.text.len() + text.len() <= MAX_STYLE {
            self.text.push_str(text);
        } else {
            self.set_incomplete();
        }
    }

    /// Ends the open `style` element, and returns its images. Those that no element matches yet are kept, up to a
    /// limit.
    pub(crate) fn flush(&mut self, base: &Base, viewport: Viewport) -> Vec<Reference> {
        let text = std::mem::take(&mut self.text);
        if !self.applies || text.is_empty() {
            return Vec::new();
        }
        let discovered = self.discover(&text, Part::Sheet, base, viewport);
        self.add_overrides(discovered.overrides);
        let mut found = discovered.references;
        for waiting in discovered.waiting {
            if self.waiting.len() < css::MAX_WAITING {
                self.waiting.push(waiting);
            } else {
                found.push(waiting.reference);
            }
        }
        found
    }

    /// Returns the references of an element's `style` attribute.
    pub(crate) fn declarations(
        &mut self,
        css: &str,
        element: &Element<'_, '_>,
        base: &Base,
        viewport: Viewport,
    ) -> Vec<Reference> {
        let mut found = self.discover(css, Part::Declarations, base, viewport).references;
        for image in &mut found {
            if image.is_inline_background && image.certainty != Certainty::Unlikely {
                let names = ElementNames::of(element);
                self.backgrounds
                    .add(image, names, &self.vocabulary, &mut self.budget);
            }
        }
        found
    }

    /// Adds the selectors of rules that override backgrounds of `style` attributes.
    pub(crate) fn add_overrides(&mut self, rules: Vec<Arc<str>>) {
        self.backgrounds
            .add_rules(rules, &self.vocabulary, &mut self.budget);
    }

    /// Returns the backgrounds of `style` attributes that no element displays any more since the last call.
    pub(crate) fn take_overridden(&mut self) -> Vec<Url> {
        self.backgrounds.take()
    }

    fn discover(&mut self, css: &str, part: Part, base: &Base, viewport: Viewport) -> Discovered {
        let chosen = self.fonts.is_some();
        let mut discovered = css::discover_inline(css, part, base, viewport, &self.vocabulary, chosen);
        if let Some(fonts) = &mut self.fonts {
            let sheet = std::mem::take(&mut discovered.fonts);
            self.unused.extend(fonts.add_sheet(sheet, &self.vocabulary));
        }
        discovered
    }

    /// Waits with fonts until text uses them. External style sheets are added by [`Self::add_sheet`].
    pub(crate) fn choose_fonts(&mut self) {
        self.fonts.get_or_insert_default();
    }

    /// Records that a part of the document or of its style sheets is not known, which may use any font.
    pub(crate) const fn set_incomplete(&mut self) {
        if let Some(fonts) = &mut self.fonts {
            fonts.set_incomplete();
        }
    }

    /// Adds text that the page displays.
    pub(crate) fn add_text(&mut self, text: &str) {
        if let Some(fonts) = &mut self.fonts {
            fonts.add_text(&character_reference::resolve(text));
        }
    }

    /// Records that the document has ended.
    pub(crate) const fn end(&mut self) {
        if let Some(fonts) = &mut self.fonts {
            fonts.end();
        }
    }

    /// Adds the fonts of an external style sheet, and returns its faces.
    pub(crate) fn add_sheet(&mut self, sheet: SheetFonts) -> Vec<Face> {
        let fonts = self.fonts.as_mut();
        fonts.map_or_else(Vec::new, |fonts| fonts.add_sheet(sheet, &self.vocabulary))
    }

    /// Removes and returns those of an external style sheet's faces that the page uses.
    pub(crate) fn take_used(&mut self, faces: &mut Vec<Face>) -> Vec<Reference> {
        let fonts = self.fonts.as_mut();
        fonts.map_or_else(Vec::new, |fonts| {
            fonts.take_used(faces, &self.vocabulary, &mut self.budget)
        })
    }

    /// Takes from the budget for comparing with the page; false if not enough is left.
    pub(crate) fn take_budget(&mut self, costs: impl IntoIterator<Item = usize>) -> bool {
        self.budget.take(costs)
    }

    /// Returns the fonts of inline style sheets that are used since the last call.
    pub(crate) fn take_used_fonts(&mut self) -> Vec<Reference> {
        let fonts = self.fonts.as_mut();
        fonts.map_or_else(Vec::new, |fonts| {
            fonts.take_used(&mut self.unused, &self.vocabulary, &mut self.budget)
        })
    }

    /// Returns the images that no element matches. The document has ended.
    pub(crate) fn take_unmatched(&mut self) -> Vec<Reference> {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().map(|waiting| waiting.reference).collect()
    }
}
