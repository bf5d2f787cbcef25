//! Font properties of a rule (CSS Fonts Level 4 section 2).
use cssparser::{ParseError, Parser, ParserInput, Token};

/// Maximum length of a value that is read.
const MAX_VALUE: usize = 4096;
/// Maximum number of names and weights per rule, beyond which declarations are left out, and of names per value.
const MAX_ENTRIES: usize = 100;
/// Maximum length of the name of a family or custom property.
const MAX_NAME: usize = 200;

/// The fonts that a rule declares. Custom properties count as declarations of what their values name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declarations {
    /// Names of families, normalized.
    pub(crate) families: Vec<String>,
    pub(crate) weights: Vec<u16>,
    /// Custom properties that give weights.
    pub(crate) weight_variables: Vec<String>,
    /// Custom properties whose values may be weights.
    pub(crate) numbers: Vec<(String, u16)>,
    pub(crate) italic: bool,
}

/// Returns true if declarations of this property may decide which fonts are loaded.
pub(crate) fn is_relevant(property: &str) -> bool {
    property.starts_with("--") || matches!(property, "font" | "font-family" | "font-weight" | "font-style")
}

/// Normalizes the name of a family, which is compared case-insensitively.
pub(crate) fn normalized(name: &str) -> String {
    let words: Vec<&str> = name.split_ascii_whitespace().collect();
    words.join(" ").to_lowercase()
}

/// Parses the families in a value. What is not a name, such as the size in a custom property, is left out.
pub(crate) fn families(value: &str) -> Vec<String> {
    let mut input = ParserInput::new(value);
    let mut parser = Parser::new(&mut input);
    let entries = parser.parse_comma_separated(|parser| {
        let mut words = Vec::new();
        while let Ok(token) = parser.next().cloned() {
            if let Token::Ident(word) | Token::QuotedString(word) = token {
                words.push(word.to_string());
            } else if let Token::Function(_) = token {
                words = fallback(parser);
            } else {
                words.clear();
            }
        }
        Ok::<_, ParseError<'_, ()>>(normalized(&words.join(" ")))
    });
    let names = entries.unwrap_or_default().into_iter();
    names
        .filter(|name| !name.is_empty() && name.len() <= MAX_NAME)
        .take(MAX_ENTRIES)
        .collect()
}

/// Reads the fallback of `var()`.
fn fallback(parser: &mut Parser<'_, '_>) -> Vec<String> {
    let read = parser.parse_nested_block(|parser| {
        let mut words = Vec::new();
        while let Ok(token) = parser.next() {
            if let Token::QuotedString(word) = token {
                words.push(word.to_string());
            }
        }
        Ok::<_, ParseError<'_, ()>>(words)
    });
    read.unwrap_or_default()
}

/// Parses a weight in a declaration. Relative weights are taken relative to normal text.
pub(crate) fn weight(word: &str) -> Option<u16> {
    match word.to_ascii_lowercase().as_str() {
        "normal" => Some(400),
        "bold" | "bolder" => Some(700),
        "lighter" => Some(100),
        number => number.parse().ok().filter(|number| (1..=1000).contains(number)),
    }
}

impl Declarations {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the memory that the declarations need.
    pub(crate) fn size(&self) -> usize {
        let numbers = self.numbers.iter().map(|(name, _)| name);
        let names = self.families.iter().chain(&self.weight_variables).chain(numbers);
        names.map(|name| name.len() + size_of::<String>()).sum()
    }

    /// Adds the declaration of a relevant property.
    pub(crate) fn add(&mut self, property: &str, value: &str) {
        let value = value.split('!').next().unwrap_or_default().trim();
        let full =
            self.families.len() + self.weights.len() + self.numbers.len() + self.weight_variables.len()
                >= MAX_ENTRIES;
        if full || value.len() > MAX_VALUE || property.len() > MAX_NAME {
            return;
        }
        match property {
            "font-family" => self.families.extend(families(value)),
            "font-weight" => self.add_weight(value),
            "font-style" => self.italic |= is_italic(value),
            "font" => self.add_shorthand(value),
            _ => {
                self.families.extend(families(value));
                // Also the weight of a value for the shorthand.
                let first = value.split_ascii_whitespace().next().unwrap_or_default();
                let number = weight(first).map(|weight| (property.to_owned(), weight));
                self.numbers.extend(number);
            }
        }
    }

    fn add_weight(&mut self, value: &str) {
        self.weights.extend(weight(value));
        if let Some((_, argument)) = value.split_once("var(") {
            let name = argument.split([',', ')']).next().unwrap_or_default().trim();
            if name.len() <= MAX_NAME {
                self.weight_variables.push(name.to_ascii_lowercase());
            }
            let fallback = argument
                .split_once(',')
                .map(|(_, rest)| rest.trim_end_matches(')'));
            self.weights
                .extend(fallback.and_then(|fallback| weight(fallback.trim())));
        }
    }

    /// Reads `italic bold 12px/1.5 "Family", serif`: the families follow the size, which may be a `var()`.
    fn add_shorthand(&mut self, value: &str) {
        let mut rest = value;
        let mut names = value;
        while let Some(word) = rest.split_ascii_whitespace().next() {
            rest = rest.trim_start().get(word.len()..).unwrap_or_default();
            if is_size(word) {
                if self.weights.is_empty() {
                    self.weights.push(400);
                }
                names = rest.trim_start();
                break;
            }
            self.italic |= is_italic(word);
            if !word.eq_ignore_ascii_case("normal") {
                self.add_weight(word);
            }
        }
        let after_slash = names.strip_prefix('/').map(str::trim_start).map(|rest| {
            let line_height = rest.split_ascii_whitespace().next().unwrap_or_default();
            rest.get(line_height.len()..).unwrap_or_default()
        });
        self.families.extend(families(after_slash.unwrap_or(names)));
    }
}

fn is_italic(value: &str) -> bool {
    let value = value.trim_start();
    ["italic", "oblique"].iter().any(|known| {
        value
            .get(..known.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(known))
    })
}

/// Returns true if a word of the shorthand is the size, perhaps with a line height.
fn is_size(word: &str) -> bool {
    let size = word.split('/').next().unwrap_or_default().to_ascii_lowercase();
    let is_length = size.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && size.ends_with(|c: char| c.is_ascii_alphabetic() || c == '%');
    let is_function = ["calc(", "clamp(", "min(", "max("]
        .iter()
        .any(|known| size.starts_with(known));
    let keyword = size
        .trim_start_matches("xx")
        .trim_start_matches('x')
        .trim_start_matches('-');
    is_length
        || is_function
        || size == "0"
        || matches!(keyword, "small" | "medium" | "large" | "smaller" | "larger")
}
