//! Sources of `@font-face` rules (CSS Fonts Level 4).
use cssparser::{CowRcStr, Delimiter, Parser, Token};

use super::{Parsed, quoted};

/// Returns the file that a browser loads for an `@font-face`: the first supported one of the last `src` that
/// has one, and only if the face covers Latin letters.
pub(super) fn source(parser: &mut Parser<'_, '_>) -> Option<String> {
    let mut source = None;
    let mut latin = true;
    while !parser.is_exhausted() {
        let _: Parsed<'_, ()> = parser.parse_until_after(Delimiter::Semicolon, |parser| {
            let name = parser.expect_ident()?.clone();
            parser.expect_colon()?;
            if name.eq_ignore_ascii_case("src") {
                source = first_readable(parser).or_else(|| source.take());
            } else if name.eq_ignore_ascii_case("unicode-range") {
                let start = parser.position();
                while parser.next().is_ok() {}
                latin = covers_latin(parser.slice_from(start));
            }
            Ok(())
        });
    }
    source.filter(|_| latin)
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

/// Returns true if a `unicode-range` covers the letter `a`.
fn covers_latin(ranges: &str) -> bool {
    ranges.split(',').any(|range| {
        let Some(range) = range.trim().get(2..) else {
            return false;
        };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let bound = |text: &str, digit: &str| u32::from_str_radix(&text.trim().replace('?', digit), 16);
        match (bound(first, "0"), bound(last, "F")) {
            (Ok(first), Ok(last)) => (first..=last).contains(&u32::from('a')),
            _ => false,
        }
    })
}
