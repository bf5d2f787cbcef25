//! Backgrounds that later declarations override: a browser loads the image of the declaration that applies.
use std::{collections::BTreeMap, sync::Arc};

use cssparser::{Parser, ParserInput, Token};

use super::{Part, Sheet, Waiting};
use crate::{Certainty, Reference};

/// Functions of backgrounds whose arguments all browsers understand alike; gradients have several notations.
const FUNCTIONS: [&str; 9] = [
    "url",
    "rgb",
    "rgba",
    "hsl",
    "hsla",
    "var",
    "calc",
    "image-set",
    "-webkit-image-set",
];

/// Maximum number of rules of a style sheet that override backgrounds of `style` attributes; the heaviest have some dozens.
const MAX_OVERRIDES: usize = 200;

/// Number of images before a place of a style sheet.
#[derive(Clone, Copy, Default)]
pub(super) struct ImagesBefore {
    pub(super) found: usize,
    waiting: usize,
}

/// The images of a style sheet so far.
struct Images<'a> {
    found: &'a mut [Reference],
    waiting: &'a mut [Waiting],
}

/// A declaration of a background with images.
struct Declaration {
    is_important: bool,
    /// Ends of the numbers of its images.
    start: ImagesBefore,
    end: ImagesBefore,
}

impl Declaration {
    fn override_images(&self, images: &mut Images<'_>) {
        let found = images.found.get_mut(self.start.found..self.end.found);
        for reference in found.into_iter().flatten() {
            reference.certainty = Certainty::Unlikely;
        }
        let waiting = images.waiting.get_mut(self.start.waiting..self.end.waiting);
        for waiting in waiting.into_iter().flatten() {
            waiting.is_overridden = true;
        }
    }
}

/// The declarations of the backgrounds of a style sheet.
#[derive(Default)]
pub(super) struct Backgrounds {
    /// Declarations with images that no later one overrides so far, by the selectors of their rules.
    by_selectors: BTreeMap<Arc<str>, Vec<Declaration>>,
    /// Selectors of the rules that override also `style` attributes.
    pub(super) overrides: Vec<Arc<str>>,
}

impl Backgrounds {
    /// Adds a declaration of a rule, whose images are the last ones. Images of earlier declarations of rules with the same
    /// selectors become unlikely. Returns true if the declaration is important.
    fn declare(
        &mut self,
        selectors: &Arc<str>,
        value: &str,
        start: ImagesBefore,
        images: &mut Images<'_>,
    ) -> bool {
        let important = without_suffix(value, "important").and_then(|value| without_suffix(value, "!"));
        let is_important = important.is_some();
        if is_accepted(important.unwrap_or(value)) {
            if is_important && self.overrides.len() < MAX_OVERRIDES {
                self.overrides.push(Arc::clone(selectors));
            }
            if let Some(earlier) = self.by_selectors.get_mut(selectors) {
                let (kept, overridden): (Vec<_>, Vec<_>) = std::mem::take(earlier)
                    .into_iter()
                    .partition(|earlier| earlier.is_important && !is_important);
                *earlier = kept;
                for declaration in overridden {
                    declaration.override_images(images);
                }
            }
        }
        let end = ImagesBefore {
            found: images.found.len(),
            waiting: images.waiting.len(),
        };
        if start.found < end.found || start.waiting < end.waiting {
            let declaration = Declaration {
                is_important,
                start,
                end,
            };
            let known = self.by_selectors.entry(Arc::clone(selectors)).or_default();
            known.push(declaration);
        }
        is_important
    }
}

impl Sheet<'_> {
    /// Records a declaration of a background, unless it is not known which others it overrides.
    pub(super) fn declare_background(&mut self, value: &str, before: ImagesBefore) {
        let selectors = match (self.part, self.around.as_slice()) {
            (Part::Declarations, []) => Arc::default(),
            (Part::Sheet, [selectors]) if self.is_ordered && !selectors.is_empty() => Arc::clone(selectors),
            (Part::Declarations | Part::Sheet, _) => return,
        };
        let mut images = Images {
            found: &mut self.found,
            waiting: self.waiting.as_deref_mut().unwrap_or_default(),
        };
        let is_important = self.backgrounds.declare(&selectors, value, before, &mut images);
        if self.part == Part::Declarations && !is_important {
            for image in self.found.iter_mut().skip(before.found) {
                image.is_inline_background = true;
            }
        }
    }

    /// Number of images so far.
    pub(super) fn images(&self) -> ImagesBefore {
        ImagesBefore {
            found: self.found.len(),
            waiting: self.waiting.as_ref().map_or(0, Vec::len),
        }
    }
}

fn without_suffix<'a>(text: &'a str, suffix: &str) -> Option<&'a str> {
    let text = text.trim_end();
    let (text, end) = text.split_at_checked(text.len().checked_sub(suffix.len())?)?;
    end.eq_ignore_ascii_case(suffix).then_some(text)
}

/// Returns true if all browsers accept the value of a background: it contains neither hacks for single browsers nor
/// functions that some of them do not know.
fn is_accepted(value: &str) -> bool {
    let mut input = ParserInput::new(value);
    let mut parser = Parser::new(&mut input);
    let mut is_empty = true;
    while let Ok(token) = parser.next() {
        is_empty = false;
        let is_word = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let is_known = match token {
            Token::Ident(word) => is_word(word) && !word.starts_with('-') && word.as_ref() != "revert-layer",
            Token::Dimension { unit, .. } => is_word(unit),
            Token::Function(name) => FUNCTIONS.iter().any(|known| known.eq_ignore_ascii_case(name)),
            Token::Number { .. }
            | Token::Percentage { .. }
            | Token::Hash(_)
            | Token::IDHash(_)
            | Token::UnquotedUrl(_)
            | Token::Comma
            | Token::Delim('/') => true,
            _ => false,
        };
        if !is_known {
            return false;
        }
    }
    !is_empty
}
