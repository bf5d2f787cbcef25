//! Rules that match an element for certain once scripts have added classes to the elements around it.
use lol_html::send::Element;

use crate::{
    Vocabulary, character_reference,
    selector_text::{is_name, take_block, take_name},
    vocabulary::Name,
};

/// Element type, id and classes of an element.
#[derive(Debug)]
pub(crate) struct ElementNames {
    tag: String,
    id: Option<String>,
    classes: Vec<String>,
}

impl ElementNames {
    pub(crate) fn of(element: &Element<'_, '_>) -> Self {
        let attribute = |name: &str| {
            let value = element.get_attribute(name);
            value.map(|value| character_reference::resolve(&value))
        };
        let classes = attribute("class").unwrap_or_default();
        Self {
            tag: element.tag_name(),
            id: attribute("id"),
            classes: classes.split_ascii_whitespace().map(str::to_owned).collect(),
        }
    }

    /// Returns true if one of the selectors matches the element for certain.
    ///
    /// The last compound names a class or the id of the element, or only its type. Classes of the elements around it
    /// are ignored in the first case, because scripts add them; in the second case the document must contain them.
    /// Selectors with attributes and states are never certain.
    pub(crate) fn matches(&self, selectors: &str, vocabulary: &Vocabulary) -> bool {
        let mut rest = selectors;
        loop {
            if self.selector(&mut rest, vocabulary) {
                return true;
            }
            let Some(more) = rest.strip_prefix(',') else {
                return false;
            };
            rest = more;
        }
    }

    /// Reads a selector up to its comma.
    fn selector(&self, rest: &mut &str, vocabulary: &Vocabulary) -> bool {
        let (mut around, mut own) = (Compound::new(), Compound::new());
        let mut is_certain = true;
        while let Some(c) = rest.chars().next() {
            match c {
                ',' => break,
                '*' => *rest = &rest[1..],
                '.' | '#' => {
                    *rest = &rest[1..];
                    let kind = if c == '.' { Name::Class } else { Name::Id };
                    own.add(kind, &take_name(rest), self, vocabulary);
                }
                ':' => {
                    *rest = &rest[1..];
                    is_certain &= take_name(rest) == "not" && rest.starts_with('(');
                    own.matches &= self.lacks(take_block(rest, '('));
                }
                '[' => {
                    is_certain = false;
                    take_block(rest, '[');
                }
                _ if is_combinator(c) => {
                    *rest = rest.trim_start_matches(is_combinator);
                    if !rest.is_empty() && !rest.starts_with(',') {
                        around.exists &= own.exists;
                        around.classes_exist &= own.classes_exist;
                        own = Compound::new();
                    }
                }
                _ if is_name(c) && !c.is_ascii_digit() => {
                    own.add(Name::Element, &take_name(rest), self, vocabulary);
                }
                _ => {
                    is_certain = false;
                    *rest = &rest[c.len_utf8()..];
                }
            }
        }
        let is_around = around.exists && (own.is_distinct || around.classes_exist);
        is_certain && is_around && own.is_named && own.matches
    }

    fn has(&self, kind: Name, name: &str) -> bool {
        match kind {
            Name::Element => self.tag.eq_ignore_ascii_case(name),
            Name::Class => self.classes.iter().any(|class| class == name),
            Name::Id => self.id.as_deref() == Some(name),
        }
    }

    /// Returns true if the arguments of `:not(…)` are classes that the element lacks.
    fn lacks(&self, arguments: &str) -> bool {
        arguments.split(',').all(|argument| {
            let class = argument.trim().strip_prefix('.').unwrap_or_default();
            let is_plain = !class.is_empty() && class.chars().all(|c| is_name(c) && c != '\\');
            is_plain && !self.has(Name::Class, class)
        })
    }
}

/// A compound selector as far as it was read.
#[derive(Debug)]
struct Compound {
    /// True if the element has all its names.
    matches: bool,
    /// True if it contains a name.
    is_named: bool,
    /// True if it contains a class or an id.
    is_distinct: bool,
    /// True if the document contains its element type and ids.
    exists: bool,
    /// True if the document contains its classes.
    classes_exist: bool,
}

impl Compound {
    const fn new() -> Self {
        Self {
            matches: true,
            is_named: false,
            is_distinct: false,
            exists: true,
            classes_exist: true,
        }
    }

    fn add(&mut self, kind: Name, name: &str, element: &ElementNames, vocabulary: &Vocabulary) {
        self.is_named = true;
        self.matches &= element.has(kind, name);
        match kind {
            Name::Class => {
                self.is_distinct = true;
                self.classes_exist &= vocabulary.has(kind, name);
            }
            Name::Id => {
                self.is_distinct = true;
                self.exists &= vocabulary.has(kind, name);
            }
            Name::Element => self.exists &= vocabulary.has(kind, name),
        }
    }
}

fn is_combinator(c: char) -> bool {
    c.is_ascii_whitespace() || matches!(c, '>' | '+' | '~')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_other_elements_are_ignored() {
        let mut vocabulary = Vocabulary::default();
        for (kind, name) in [(Name::Element, "main"), (Name::Id, "top"), (Name::Class, "list")] {
            vocabulary.add(kind, name);
        }
        let element = ElementNames {
            tag: "img".to_owned(),
            id: Some("first".to_owned()),
            classes: ["lazy", "wide"].map(str::to_owned).to_vec(),
        };
        for yes in [
            ".lazy",
            "img.lazy",
            "IMG",
            "#first",
            ".js .lazy",
            "main#top > .js ~ .lazy.wide",
            ".none, .lazy",
            ".lazy:not(.loaded)",
            ".js:not(.done) .lazy:not(.a, .b)",
            "body .list img",
            " .lazy ",
        ] {
            assert!(element.matches(yes, &vocabulary), "{yes}");
        }
        for no in [
            "",
            "*",
            ".js *",
            ".js img",
            ".Lazy",
            ".lazy .none",
            ".lazy *",
            ".lazy:hover",
            ".lazy::before",
            ".card:hover .lazy",
            ".lazy[src]",
            "[data-x=\", .lazy\"] p",
            ".lazy:not(.wide)",
            ".lazy:not([src])",
            ".lazy:not",
            ".lazy:is(.lazy)",
            "#none .lazy",
            "aside .lazy",
            "&.lazy",
            ".lazy\\31",
            ".",
            ",",
            "svg|img",
        ] {
            assert!(!element.matches(no, &vocabulary), "{no}");
        }
        for odd in ["(", "[", ":not(", ".lazy:not(.a", "é)", ":(", "\\"] {
            let _ = element.matches(odd, &vocabulary);
        }
    }
}
