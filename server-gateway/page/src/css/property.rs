//! Declarations whose `url()` values a browser loads.
use cssparser::{SourcePosition, Token};

/// Prefixes of the names of properties whose value may load something.
const LOADING: [&str; 14] = [
    "background",
    "border-image",
    "list-style",
    "content",
    "cursor",
    "mask",
    "filter",
    "backdrop-filter",
    "clip-path",
    "shape-outside",
    "fill",
    "stroke",
    "marker",
    "box-reflect",
];

/// The current property, as far as it decides whether a `url()` is loaded.
#[derive(Default)]
pub(super) struct Property {
    candidate: Option<String>,
    hacked: bool,
    name: Option<String>,
    /// Start of the value.
    start: Option<SourcePosition>,
}

impl Property {
    pub(super) fn observe(&mut self, token: &Token<'_>, behind: SourcePosition) {
        match token {
            Token::Ident(name) if self.name.is_none() => self.candidate = Some(name.to_ascii_lowercase()),
            Token::Colon if self.name.is_none() => {
                self.name = self.candidate.take();
                self.start = Some(behind);
            }
            // `*property:` is a hack for old versions of one browser.
            Token::Delim('*') if self.name.is_none() => self.hacked = true,
            Token::Semicolon | Token::CurlyBracketBlock => *self = Self::default(),
            _ => {}
        }
    }

    /// Returns the name of the property and the start of its value.
    pub(super) fn value(&self) -> Option<(&str, SourcePosition)> {
        let name = self.name.as_deref().filter(|_| !self.hacked)?;
        Some((name, self.start?))
    }

    pub(super) fn loads(&self) -> bool {
        let name = self.name.as_deref().unwrap_or_default();
        if name.starts_with("--") {
            // Loaded where the variable is used; most variables are used.
            return true;
        }
        let plain = name.strip_prefix("-webkit-").unwrap_or(name);
        !self.hacked && LOADING.iter().any(|loading| plain.starts_with(loading))
    }
}
