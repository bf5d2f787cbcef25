//! Parts of rules that several kinds of rules have in common.
use cssparser::{Parser, SourcePosition, Token};

use super::Parsed;

/// Returns the position after a block, read or skipped.
pub(super) fn behind(parser: &mut Parser<'_, '_>) -> SourcePosition {
    parser.skip_whitespace();
    parser.position()
}

/// Skips to the end of an at-rule's prelude; returns the prelude, and true if a block follows (the parser's
/// last token).
pub(super) fn prelude(parser: &mut Parser<'_, '_>) -> (String, bool) {
    let start = parser.position();
    let block = loop {
        match parser.next_including_whitespace_and_comments() {
            Ok(Token::Semicolon) | Err(_) => break false,
            Ok(Token::CurlyBracketBlock) => break true,
            Ok(_) => {}
        }
    };
    let text = parser.slice_from(start).trim_end_matches([';', '{']);
    (without_comments(text), block)
}

/// Removes comments, which may occur anywhere in a prelude.
pub(super) fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        out.push(' ');
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}

/// Reads the string in `url("…")`.
pub(super) fn quoted(parser: &mut Parser<'_, '_>) -> Option<String> {
    let read: Parsed<'_, String> =
        parser.parse_nested_block(|parser| Ok(parser.expect_string()?.to_string()));
    read.ok()
}
