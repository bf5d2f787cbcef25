//! Names that selectors of style sheets match: element types, classes and ids of a document.
use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::selector_text::{is_name, take_block, take_name};

/// Maximum number of names per document; beyond it, every selector counts as matching.
const MAX_NAMES: usize = 50_000;
/// Elements that exist without a tag.
const IMPLIED: [&str; 6] = ["html", "head", "body", "tbody", "colgroup", "tr"];
/// States that no element has when a page is loaded: their images are loaded when the state begins.
const LATER: [&str; 9] = [
    "hover",
    "active",
    "focus",
    "focus-visible",
    "focus-within",
    "target",
    "fullscreen",
    "visited",
    "selection",
];

/// Element types, classes and ids of a document. A rule that requires any other name does not apply, so its
/// images are not loaded unless a script adds a matching element.
///
/// Names are stored as hashes and compared case-insensitively, as in documents without a doctype.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    names: BTreeSet<u64>,
    overflown: bool,
    has_custom_elements: bool,
}

#[derive(Clone, Copy, Hash)]
pub(crate) enum Name {
    Element,
    Class,
    Id,
}

fn hashed(kind: Name, name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (kind, name.to_ascii_lowercase()).hash(&mut hasher);
    hasher.finish()
}

impl Vocabulary {
    /// Adds a name; returns true if it is new.
    pub(crate) fn add(&mut self, kind: Name, name: &str) -> bool {
        self.has_custom_elements |= matches!(kind, Name::Element) && name.contains('-');
        if self.names.len() < MAX_NAMES {
            return self.names.insert(hashed(kind, name));
        }
        !std::mem::replace(&mut self.overflown, true)
    }

    /// Grows with every new name.
    pub(crate) fn size(&self) -> usize {
        self.names.len() + usize::from(self.overflown)
    }

    /// Returns true if a script creates the contents of some elements: those with a hyphen in their name.
    pub(crate) const fn has_custom_elements(&self) -> bool {
        self.has_custom_elements
    }

    pub(crate) fn has(&self, kind: Name, name: &str) -> bool {
        self.overflown
            || self.names.contains(&hashed(kind, name))
            || (matches!(kind, Name::Element)
                && IMPLIED.iter().any(|implied| implied.eq_ignore_ascii_case(name)))
    }
}

/// Returns true if an element may match one of the selectors when the page is loaded. The arguments of
/// functions such as `:not(…)`, and attributes, are ignored; without a vocabulary every name counts as
/// present.
pub(crate) fn may_match(selectors: &str, vocabulary: Option<&Vocabulary>) -> bool {
    Scanner {
        rest: selectors,
        known: vocabulary.map_or(Known::All, Known::Of),
    }
    .matches()
}

/// Returns true if one of the selectors requires no class and no id: it matches elements in general, also those
/// that scripts add.
pub(crate) fn is_general(selectors: &str) -> bool {
    Scanner {
        rest: selectors,
        known: Known::Elements,
    }
    .matches()
}

/// The names that count as present.
#[derive(Clone, Copy)]
enum Known<'a> {
    All,
    Elements,
    Of(&'a Vocabulary),
}

struct Scanner<'a> {
    rest: &'a str,
    known: Known<'a>,
}

impl Scanner<'_> {
    fn matches(mut self) -> bool {
        loop {
            let (matches, more) = self.selector();
            if matches || !more {
                return matches;
            }
        }
    }

    /// Reads up to the next comma; returns whether the selector may match, and whether another follows.
    fn selector(&mut self) -> (bool, bool) {
        let mut matches = true;
        while let Some(c) = self.rest.chars().next() {
            match c {
                ',' => {
                    self.rest = &self.rest[1..];
                    return (matches, true);
                }
                '[' | '(' => {
                    take_block(&mut self.rest, c);
                }
                ':' => {
                    self.rest = self.rest.trim_start_matches(':');
                    let name = take_name(&mut self.rest);
                    matches &= !LATER.iter().any(|later| later.eq_ignore_ascii_case(&name));
                }
                '.' | '#' => {
                    self.rest = &self.rest[1..];
                    let kind = if c == '.' { Name::Class } else { Name::Id };
                    matches &= self.known(kind);
                }
                _ if is_name(c) && !c.is_ascii_digit() => matches &= self.known(Name::Element),
                _ => self.rest = &self.rest[c.len_utf8()..],
            }
        }
        (matches, false)
    }

    fn known(&mut self, kind: Name) -> bool {
        let name = take_name(&mut self.rest);
        match self.known {
            Known::All => true,
            Known::Elements => matches!(kind, Name::Element),
            Known::Of(vocabulary) => name.contains('\\') || vocabulary.has(kind, &name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_match_names_in_the_document() {
        let mut vocabulary = Vocabulary::default();
        for (kind, name) in [
            (Name::Element, "div"),
            (Name::Element, "a"),
            (Name::Class, "box"),
            (Name::Class, "md:wide"),
            (Name::Id, "top"),
        ] {
            vocabulary.add(kind, name);
        }
        for yes in [
            "div",
            "*",
            "DIV.Box",
            "#top > .box + a",
            "html body div",
            ".none, .box",
            ".box:not(.none)",
            ".box[data-x=\".none\"]",
            "a::before",
            "a:first-child",
            ".md\\:wide",
            ".\\31 0",
            "&.box",
            ":is(.none, .box)",
            "tbody",
            "",
        ] {
            assert!(may_match(yes, Some(&vocabulary)), "{yes}");
        }
        for no in [
            "span",
            ".none",
            "#box",
            "div.none",
            ".box .none",
            ".none, #none",
            "a:hover",
            "a:Focus-Visible::after",
            "::selection",
            "svg|path",
        ] {
            assert!(!may_match(no, Some(&vocabulary)), "{no}");
        }
        assert!(may_match(".anything", None));
        assert!(!may_match(".anything:hover", None));
        for odd in ["[", "(", ":", "\\", ".", ",,,", "é(", "a[)]"] {
            let _ = may_match(odd, Some(&vocabulary));
        }
    }

    #[test]
    fn selectors_of_elements_are_general() {
        for yes in [
            "html",
            "*",
            ":root",
            ":host",
            "button:first-child",
            "pre > code, .a",
            "x-y",
            "",
        ] {
            assert!(is_general(yes), "{yes}");
        }
        for no in [".a", "#a", "p.a", ".a p", "a:hover", ".\\31 0"] {
            assert!(!is_general(no), "{no}");
        }
        let mut vocabulary = Vocabulary::default();
        vocabulary.add(Name::Class, "a-b");
        assert!(!vocabulary.has_custom_elements());
        vocabulary.add(Name::Element, "a-b");
        assert!(vocabulary.has_custom_elements());
    }

    #[test]
    fn too_many_names_match_everything() {
        let mut vocabulary = Vocabulary::default();
        for number in 0..=MAX_NAMES {
            vocabulary.add(Name::Class, &number.to_string());
        }
        assert!(may_match(".none", Some(&vocabulary)));
    }
}
