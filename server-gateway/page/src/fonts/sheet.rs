//! Faces and font properties of a style sheet.
use std::sync::Arc;

use super::{Declarations, Traits, UnicodeRange};
use crate::{Reference, Vocabulary, matching_budget, vocabulary};

/// Maximum number of faces and maximum size of rules per style sheet; the sheet is cut there.
const MAX_FACES: usize = 5000;
const MAX_RULES: usize = 4 * 1024 * 1024;
/// Size of a rule without its text, about.
const OVERHEAD: usize = 64;

/// A face whose file is loaded if it is used.
#[derive(Clone, Debug)]
pub(crate) struct Face {
    pub(crate) family: String,
    pub(crate) traits: Traits,
    pub(crate) range: UnicodeRange,
    pub(crate) reference: Reference,
}

/// The font properties of a rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// Selectors of the rule and the rules around it.
    pub(crate) selectors: Vec<Arc<str>>,
    pub(crate) declarations: Declarations,
}

impl Rule {
    /// Returns true if the rule may match an element in the vocabulary; without one, any element.
    pub(super) fn may_match(&self, vocabulary: Option<&Vocabulary>) -> bool {
        let mut selectors = self.selectors.iter();
        selectors.all(|selectors| vocabulary::may_match(selectors, vocabulary))
    }

    /// Returns true if the rule matches elements without a class and id.
    pub(super) fn is_general(&self) -> bool {
        let mut selectors = self.selectors.iter();
        selectors.all(|selectors| vocabulary::is_general(selectors))
    }

    pub(super) fn size(&self) -> usize {
        matching_budget::of_selectors(&self.selectors) + self.declarations.size() + OVERHEAD
    }
}

/// The faces and font properties of a style sheet.
#[derive(Debug, Default)]
pub(crate) struct SheetFonts {
    pub(crate) faces: Vec<Face>,
    pub(crate) rules: Vec<Rule>,
    /// Size of the rules.
    size: usize,
    /// True if a part of the style sheet was not read.
    pub(crate) is_cut: bool,
}

impl SheetFonts {
    pub(crate) fn add_face(&mut self, face: Face) {
        if self.faces.len() < MAX_FACES {
            self.faces.push(face);
        } else {
            self.is_cut = true;
        }
    }

    /// Adds the declarations of a rule inside these selectors.
    pub(crate) fn add_rule(&mut self, selectors: &[Arc<str>], declarations: Declarations) {
        let rule = Rule {
            selectors: selectors.to_vec(),
            declarations,
        };
        self.size = self.size.saturating_add(rule.size());
        if self.size <= MAX_RULES {
            self.rules.push(rule);
        } else {
            self.is_cut = true;
        }
    }
}
