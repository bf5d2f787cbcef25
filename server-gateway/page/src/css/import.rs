//! `@import` (CSS Cascading and Inheritance Level 5 section 2).
use cssparser::{Parser, Token};

use super::{prelude, quoted, supports};
use crate::{Destination, Viewport, media};

/// Returns the URL of an `@import` and the destination of its style sheet; `None` if it is not loaded.
pub(super) fn read(parser: &mut Parser<'_, '_>, viewport: Viewport) -> Option<(String, Destination)> {
    let target = match parser.next().cloned() {
        Ok(Token::QuotedString(url) | Token::UnquotedUrl(url)) => Some(url.to_string()),
        Ok(Token::Function(name)) if name.eq_ignore_ascii_case("url") => quoted(parser),
        // The rule ends here: following tokens do not belong to it.
        Ok(Token::Semicolon | Token::CurlyBracketBlock) | Err(_) => return None,
        Ok(_) => None,
    };
    let (conditions, block) = prelude(parser);
    let (supported, queries) = conditions_of(&conditions);
    let target = target.filter(|_| supported && !block)?;
    let destination = if media::applies(queries, viewport) {
        Destination::Style
    } else {
        Destination::InactiveStyle
    };
    Some((target, destination))
}

/// Returns whether `supports(…)` holds, and the media queries; `layer`, `layer(…)` and `supports(…)` may
/// precede them.
fn conditions_of(conditions: &str) -> (bool, &str) {
    let mut rest = conditions.trim();
    let mut supported = true;
    for keyword in ["layer", "supports"] {
        let named = rest
            .get(..keyword.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(keyword));
        if !named {
            continue;
        }
        rest = rest[keyword.len()..].trim_start();
        if rest.starts_with('(') {
            let mut depth = 0_usize;
            let end = rest.find(|c: char| {
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                depth == 0
            });
            let (argument, after) = end.map_or((rest, ""), |end| rest.split_at(end + 1));
            if keyword == "supports" {
                supported = supports::holds(argument) || supports::holds(argument.trim_matches(['(', ')']));
            }
            rest = after.trim_start();
        }
    }
    (supported, rest)
}
