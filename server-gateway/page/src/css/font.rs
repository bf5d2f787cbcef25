//! `@font-face` rules (CSS Fonts Level 4).
use cssparser::{CowRcStr, Delimiter, Parser, Token};

use super::{Parsed, quoted};
use crate::fonts::{Traits, UnicodeRange, families, weight};

/// Maximum length of `font-stretch`.
const MAX_STRETCH: usize = 32;

/// An `@font-face` rule with a file that a browser can load.
pub(super) struct FaceRule {
    /// Name of the family, without which browsers ignore the face.
    pub(super) family: Option<String>,
    pub(super) traits: Traits,
    pub(super) range: UnicodeRange,
    /// The first supported file of the last `src` that has one.
    pub(super) source: String,
}

/// Reads the descriptors of a face.
pub(super) fn read(parser: &mut Parser<'_, '_>) -> Option<FaceRule> {
    let mut source = None;
    let mut family = None;
    let mut range = UnicodeRange::default();
    let mut traits = Traits {
        stretch: String::new(),
        italic: false,
        weights: (400, 400),
    };
    while !parser.is_exhausted() {
        let _: Parsed<'_, ()> = parser.parse_until_after(Delimiter::Semicolon, |parser| {
            let name = parser.expect_ident()?.to_ascii_lowercase();
            parser.expect_colon()?;
            if name == "src" {
                source = first_readable(parser).or_else(|| source.take());
                return Ok(());
            }
            let value = rest(parser);
            match name.as_str() {
                "font-family" => family = families(value).into_iter().next(),
                "font-weight" => traits.weights = weights(value).unwrap_or(traits.weights),
                "font-style" => traits.italic = !value.eq_ignore_ascii_case("normal"),
                "font-stretch" => traits.stretch = stretch(value),
                "unicode-range" => range = UnicodeRange::of_value(value),
                _ => {}
            }
            Ok(())
        });
    }
    Some(FaceRule {
        family,
        traits,
        range,
        source: source?,
    })
}

/// Returns the rest of a descriptor.
fn rest<'i>(parser: &mut Parser<'i, '_>) -> &'i str {
    let start = parser.position();
    while parser.next().is_ok() {}
    parser.slice_from(start).trim()
}

/// Parses a weight, or the range of a variable font.
fn weights(value: &str) -> Option<(u16, u16)> {
    let mut words = value.split_ascii_whitespace().map(weight);
    let first = words.next()??;
    let last = words.next().flatten().unwrap_or(first);
    Some((first.min(last), first.max(last)))
}

fn stretch(value: &str) -> String {
    let value = value.to_ascii_lowercase();
    if matches!(value.as_str(), "normal" | "100%") {
        return String::new();
    }
    value.chars().take(MAX_STRETCH).collect()
}

fn first_readable(parser: &mut Parser<'_, '_>) -> Option<String> {
    let mut found: Option<String> = None;
    let mut entry: Option<String> = None;
    let mut readable = true;
    while let Ok(token) = parser.next().cloned() {
        match token {
            Token::UnquotedUrl(url) => entry = Some(url.to_string()),
            Token::Function(name) if name.eq_ignore_ascii_case("url") => entry = quoted(parser),
            Token::Function(name) if name.eq_ignore_ascii_case("format") => {
                let format: Parsed<'_, CowRcStr<'_>> =
                    parser.parse_nested_block(|parser| Ok(parser.expect_ident_or_string()?.clone()));
                readable = format.is_ok_and(|format| {
                    let format = format.to_ascii_lowercase();
                    ["woff", "truetype", "opentype"]
                        .iter()
                        .any(|known| format.starts_with(known))
                });
            }
            Token::Comma => {
                found = found.or_else(|| entry.take().filter(|_| readable));
                readable = true;
            }
            Token::Function(_) => {}
            // An entry with any other token is invalid, such as `url(old.eot) \9`, a hack for one browser.
            _ => readable = false,
        }
    }
    found.or_else(|| entry.filter(|_| readable))
}
