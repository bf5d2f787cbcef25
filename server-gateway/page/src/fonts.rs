//! The fonts that a page uses: a browser loads a face only for text in its family, weight and style that
//! contains one of its characters.
//!
//! Without layout, rules are not matched against single elements: the families, weights and styles of all rules
//! that may match the document are combined. A weight in a rule that names a family counts for that family, other
//! weights count for all of them. Italic text has the weights of its families' rules. The regular face of a
//! family counts as used if elements that scripts add may be in that family.
mod characters;
mod declarations;
mod matching;
mod sheet;

use std::collections::{BTreeMap, BTreeSet};

use self::matching::{TextStyle, selected};
pub(crate) use self::{
    characters::{Characters, UnicodeRange},
    declarations::{Declarations, families, is_relevant, weight},
    matching::Traits,
    sheet::{Face, Rule, SheetFonts},
};
use crate::{Reference, Vocabulary, matching_budget::MatchingBudget, vocabulary::Name};

/// Maximum size of the rules that match no element yet; further rules count as matching.
const MAX_WAITING: usize = 512 * 1024;
/// Maximum number of families and of values of custom properties. Beyond this and the following limits, all
/// Latin faces count as used, and none waits.
const MAX_NAMES: usize = 5000;
/// Maximum number of weights, in general and per family.
const MAX_WEIGHTS: usize = 64;
/// Maximum number of faces per page, and of their traits per family.
const MAX_FACES: usize = 2000;
const MAX_TRAITS: usize = 64;
/// Cost of selecting a face, without that of its ranges.
const FACE_COST: usize = 64;

/// Elements whose text is bold or italic without a rule (HTML Living Standard section 15.3).
const BOLD: [&str; 9] = ["b", "strong", "h1", "h2", "h3", "h4", "h5", "h6", "th"];
const ITALIC: [&str; 6] = ["i", "em", "cite", "dfn", "var", "address"];
const REGULAR: TextStyle = TextStyle {
    weight: 400,
    italic: false,
};

/// How matching rules use a family.
#[derive(Debug, Default)]
struct FamilyUse {
    weights: BTreeSet<u16>,
    /// A rule names the family without a weight.
    is_plain: bool,
    is_italic: bool,
}

/// What the style sheets and the text of a page tell about its fonts so far.
#[derive(Debug, Default)]
pub(crate) struct PageFonts {
    families: BTreeMap<String, FamilyUse>,
    /// Families that any rule names; true if a rule for elements in general does.
    named: BTreeMap<String, bool>,
    /// Weights of rules that name no family, and those of italic rules.
    weights: BTreeSet<u16>,
    italic_weights: BTreeSet<u16>,
    is_italic: bool,
    weight_variables: BTreeSet<String>,
    numbers: BTreeSet<(String, u16)>,
    waiting: Vec<Rule>,
    /// Size of the waiting rules.
    waiting_size: usize,
    /// Size of the vocabulary when waiting rules were compared.
    compared: usize,
    faces: BTreeMap<String, BTreeSet<Traits>>,
    face_count: usize,
    /// True if a limit was exceeded.
    is_full: bool,
    /// True if a part of the page, which may use any face, is not known.
    is_incomplete: bool,
    characters: Characters,
    has_ended: bool,
}

/// The styles that text of any family may have.
struct Common {
    upright: BTreeSet<u16>,
    /// True if text of any family may be italic.
    is_italic: bool,
}

impl PageFonts {
    pub(crate) fn add_text(&mut self, text: &str) {
        self.characters.add(text);
    }

    /// Records that the document has ended.
    pub(crate) const fn end(&mut self) {
        self.has_ended = true;
    }

    /// Records that a part of the document or of its style sheets is not known: all Latin faces count as used.
    pub(crate) const fn set_incomplete(&mut self) {
        self.is_incomplete = true;
    }

    /// Adds a style sheet, and returns its faces, which may be used.
    pub(crate) fn add_sheet(&mut self, sheet: SheetFonts, vocabulary: &Vocabulary) -> Vec<Face> {
        self.is_incomplete |= sheet.is_cut;
        self.face_count = self.face_count.saturating_add(sheet.faces.len());
        self.is_full |= self.face_count > MAX_FACES;
        for face in sheet.faces.iter().take(MAX_FACES) {
            if self.is_full {
                break;
            }
            let faces = self.faces.entry(face.family.clone()).or_default();
            faces.insert(face.traits.clone());
            self.is_full |= faces.len() > MAX_TRAITS;
        }
        for rule in sheet.rules {
            self.add_rule(rule, vocabulary);
        }
        sheet.faces
    }

    fn add_rule(&mut self, rule: Rule, vocabulary: &Vocabulary) {
        if self.is_full || !rule.may_match(None) {
            return;
        }
        let is_general = rule.is_general();
        for family in &rule.declarations.families {
            *self.named.entry(family.clone()).or_default() |= is_general;
        }
        let size = rule.size();
        if rule.may_match(Some(vocabulary)) || self.waiting_size + size > MAX_WAITING {
            self.apply(rule.declarations);
        } else {
            self.waiting_size += size;
            self.waiting.push(rule);
        }
        let names = self.named.len() + self.numbers.len() + self.weight_variables.len();
        self.is_full |= names > MAX_NAMES;
    }

    fn apply(&mut self, declarations: Declarations) {
        let Declarations {
            families,
            weights,
            weight_variables,
            numbers,
            italic,
        } = declarations;
        if italic {
            self.italic_weights.extend(&weights);
            self.is_italic |= families.is_empty();
        }
        if families.is_empty() {
            self.weights.extend(&weights);
        }
        let is_plain = weights.is_empty();
        for family in families {
            let family = self.families.entry(family).or_default();
            family.weights.extend(&weights);
            family.is_plain |= is_plain;
            family.is_italic |= italic;
            self.is_full |= family.weights.len() > MAX_WEIGHTS;
        }
        self.weight_variables.extend(weight_variables);
        self.numbers.extend(numbers);
        self.is_full |= self.weights.len().max(self.italic_weights.len()) > MAX_WEIGHTS;
    }

    /// Removes and returns the faces that the page uses, for the elements and the text so far.
    pub(crate) fn take_used(
        &mut self,
        faces: &mut Vec<Face>,
        vocabulary: &Vocabulary,
        budget: &mut MatchingBudget,
    ) -> Vec<Reference> {
        if faces.is_empty() {
            return Vec::new();
        }
        self.is_full |= !budget.take(faces.iter().map(|face| FACE_COST + face.range.len()));
        self.apply_waiting(vocabulary, budget);
        let all_latin = self.is_full || self.is_incomplete;
        let is_application = self.is_application();
        let selected = self.selected(faces, vocabulary);
        let is_used = |face: &Face| {
            let is_latin = face.range.covers_latin();
            let is_covered = face.range.covers(&self.characters) || (is_application && is_latin);
            let family = selected.get(&face.family);
            let is_selected = family.is_some_and(|family| family.contains(&face.traits));
            (is_covered && is_selected) || (all_latin && is_latin)
        };
        let (used, unused): (Vec<_>, Vec<_>) = std::mem::take(faces).into_iter().partition(is_used);
        if !self.is_full {
            *faces = unused;
        }
        used.into_iter().map(|face| face.reference).collect()
    }

    /// Returns true if scripts insert the text of the document.
    const fn is_application(&self) -> bool {
        self.has_ended && self.characters.is_placeholder()
    }

    /// Applies the rules that match now. All of them match elements that scripts may insert into an application.
    fn apply_waiting(&mut self, vocabulary: &Vocabulary, budget: &mut MatchingBudget) {
        let all = self.is_application();
        if !all && vocabulary.size() == self.compared {
            return;
        }
        self.compared = vocabulary.size();
        if !budget.take([self.waiting_size]) {
            self.is_full = true;
            return;
        }
        let (matching, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|rule: &Rule| all || rule.may_match(Some(vocabulary)));
        self.waiting = waiting;
        for rule in matching {
            self.waiting_size = self.waiting_size.saturating_sub(rule.size());
            self.apply(rule.declarations);
        }
    }

    /// Returns the traits of the faces that a browser selects for text of the page, by family.
    fn selected(&self, faces: &[Face], vocabulary: &Vocabulary) -> BTreeMap<String, BTreeSet<&Traits>> {
        let common = self.common(vocabulary);
        let families: BTreeSet<&String> = faces.iter().map(|face| &face.family).collect();
        let selected_of = |family: &String| {
            let traits = self.faces.get(family)?;
            let styles = self.styles(family, &common, vocabulary).into_iter();
            let selected = styles.flat_map(|style| selected(traits, style)).collect();
            Some((family.clone(), selected))
        };
        families.into_iter().filter_map(selected_of).collect()
    }

    fn common(&self, vocabulary: &Vocabulary) -> Common {
        let has = |names: &[&str]| names.iter().any(|name| vocabulary.has(Name::Element, name));
        let variable = self
            .numbers
            .iter()
            .filter(|(name, _)| self.weight_variables.contains(name));
        let variable: BTreeSet<u16> = variable.map(|&(_, weight)| weight).collect();
        let mut upright = self.weights.clone();
        upright.extend(variable.into_iter().take(MAX_WEIGHTS));
        upright.extend(has(&BOLD).then_some(700));
        Common {
            upright,
            is_italic: self.is_italic || has(&ITALIC),
        }
    }

    /// Styles of text in a family.
    fn styles(&self, family: &str, common: &Common, vocabulary: &Vocabulary) -> BTreeSet<TextStyle> {
        let mut styles = BTreeSet::new();
        if self.is_kept(family, vocabulary) {
            styles.insert(REGULAR);
        }
        let Some(family) = self.families.get(family) else {
            return styles;
        };
        let styled = |italic| move |&weight: &u16| TextStyle { weight, italic };
        let plain = family.is_plain.then_some(&REGULAR.weight);
        let own = || family.weights.iter().chain(plain);
        styles.extend(own().chain(&common.upright).map(styled(false)));
        if family.is_italic || common.is_italic {
            styles.extend(own().chain(&self.italic_weights).map(styled(true)));
        }
        styles
    }

    /// Returns true if elements that scripts add may be in the family: rules name it for elements in general, or
    /// name it at all in a document whose contents scripts create.
    fn is_kept(&self, family: &str, vocabulary: &Vocabulary) -> bool {
        let has_scripted = || vocabulary.has_custom_elements() || self.is_application();
        let named = self.named.get(family);
        named.is_some_and(|is_general| *is_general || has_scripted())
    }
}

#[cfg(test)]
mod tests;
