//! Selection in `image-set()` (CSS Images Level 4 section 2.4).
use cssparser::{Parser, Token};

use super::{Parsed, quoted};
use crate::{
    Viewport, link, media,
    srcset::{self, Candidate, Descriptor},
};

/// Parses the arguments of the function and returns the URL of the option that a browser loads.
pub(super) fn choose(parser: &mut Parser<'_, '_>, viewport: Viewport) -> Option<String> {
    let options: Parsed<'_, Vec<Option<Candidate<String>>>> =
        parser.parse_nested_block(|parser| parser.parse_comma_separated(|parser| Ok(option(parser))));
    let options: Vec<Candidate<String>> = options.ok()?.into_iter().flatten().collect();
    let chosen = srcset::select(&options, "", viewport)?;
    options.into_iter().nth(chosen).map(|option| option.target)
}

/// Parses `"a.png" 2x type("image/png")`; `None` for a gradient or an unsupported type.
fn option(parser: &mut Parser<'_, '_>) -> Option<Candidate<String>> {
    let (mut target, mut density, mut shown) = (None, 1.0, true);
    while let Ok(token) = parser.next().cloned() {
        match token {
            Token::UnquotedUrl(url) | Token::QuotedString(url) => target = Some(url.to_string()),
            Token::Dimension { value, unit, .. } => {
                density = media::density(&format!("{value}{}", unit.to_ascii_lowercase())).unwrap_or(1.0);
            }
            Token::Function(name) if name.eq_ignore_ascii_case("url") => target = quoted(parser),
            Token::Function(name) if name.eq_ignore_ascii_case("type") => {
                shown = quoted(parser).is_some_and(|kind| link::is_displayed(&kind));
            }
            _ => {}
        }
    }
    Some(Candidate {
        target: target.filter(|_| shown)?,
        descriptor: Descriptor::Density(density),
    })
}
