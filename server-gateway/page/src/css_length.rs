//! CSS lengths (CSS Values and Units Level 4) without layout.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "CSS has thirty kinds of tokens, of which each place here wants a few"
)]

use cssparser::{ParseError, Parser, ParserInput, Token};

use crate::Viewport;

/// Value of `em` and `rem`: the initial font size.
const EM: f64 = 16.0;
/// Maximum depth of nested parentheses.
const MAX_DEPTH: usize = 16;

type Calculated<'i> = Result<f64, ParseError<'i, ()>>;

/// Returns a length in CSS pixels; evaluates mathematical functions.
pub(crate) fn pixels(text: &str, viewport: Viewport) -> Option<f64> {
    let mut input = ParserInput::new(text);
    let mut parser = Parser::new(&mut input);
    let length = term(&mut parser, viewport, false, 0).ok()?;
    (parser.is_exhausted() && length.is_finite()).then_some(length)
}

fn sum<'i>(parser: &mut Parser<'i, '_>, viewport: Viewport, depth: usize) -> Calculated<'i> {
    let mut total = product(parser, viewport, depth)?;
    while let Ok(sign) = parser.try_parse(|parser| match parser.next()? {
        Token::Delim('+') => Ok(1.0),
        Token::Delim('-') => Ok(-1.0),
        _ => Err(parser.new_custom_error::<(), ()>(())),
    }) {
        total += sign * product(parser, viewport, depth)?;
    }
    Ok(total)
}

fn product<'i>(parser: &mut Parser<'i, '_>, viewport: Viewport, depth: usize) -> Calculated<'i> {
    let mut total = term(parser, viewport, true, depth)?;
    loop {
        if parser.try_parse(|parser| parser.expect_delim('*')).is_ok() {
            total *= term(parser, viewport, true, depth)?;
        } else if parser.try_parse(|parser| parser.expect_delim('/')).is_ok() {
            total /= term(parser, viewport, true, depth)?;
        } else {
            return Ok(total);
        }
    }
}

/// Evaluates a length or a function; with `calculating`, also a number or a parenthesized expression.
fn term<'i>(
    parser: &mut Parser<'i, '_>,
    viewport: Viewport,
    calculating: bool,
    depth: usize,
) -> Calculated<'i> {
    let token = parser.next()?.clone();
    match token {
        Token::Dimension { value, unit, .. } => {
            let unit = unit_pixels(&unit, viewport).ok_or_else(|| parser.new_custom_error(()))?;
            Ok(f64::from(value) * unit)
        }
        Token::Number { value, .. } if calculating || value == 0.0 => Ok(f64::from(value)),
        Token::ParenthesisBlock if calculating && depth < MAX_DEPTH => {
            parser.parse_nested_block(|parser| sum(parser, viewport, depth + 1))
        }
        Token::Function(name) if depth < MAX_DEPTH => {
            parser.parse_nested_block(|parser| function(&name, parser, viewport, depth + 1))
        }
        _ => Err(parser.new_custom_error(())),
    }
}

fn function<'i>(name: &str, parser: &mut Parser<'i, '_>, viewport: Viewport, depth: usize) -> Calculated<'i> {
    let values = parser.parse_comma_separated(|parser| sum(parser, viewport, depth))?;
    match (name.to_ascii_lowercase().as_str(), values.as_slice()) {
        ("calc" | "-webkit-calc", [value]) => Ok(*value),
        ("min", [first, rest @ ..]) => Ok(rest.iter().copied().fold(*first, f64::min)),
        ("max", [first, rest @ ..]) => Ok(rest.iter().copied().fold(*first, f64::max)),
        ("clamp", [low, value, high]) => Ok(value.min(*high).max(*low)),
        _ => Err(parser.new_custom_error(())),
    }
}

fn unit_pixels(unit: &str, viewport: Viewport) -> Option<f64> {
    let (width, height) = (f64::from(viewport.width), f64::from(viewport.height));
    Some(match unit.to_ascii_lowercase().as_str() {
        "px" => 1.0,
        "em" | "rem" => EM,
        "ex" | "ch" => EM / 2.0,
        "vw" | "svw" | "lvw" | "dvw" | "vi" => width / 100.0,
        "vh" | "svh" | "lvh" | "dvh" | "vb" => height / 100.0,
        "vmin" => width.min(height) / 100.0,
        "vmax" => width.max(height) / 100.0,
        "in" => 96.0,
        "cm" => 96.0 / 2.54,
        "mm" => 9.6 / 2.54,
        "q" => 2.4 / 2.54,
        "pt" => 4.0 / 3.0,
        "pc" => 16.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_calculated() {
        let cases = [
            ("10px", Some(10.0)),
            ("2em", Some(32.0)),
            ("50VW", Some(683.0)),
            ("0", Some(0.0)),
            ("5", None),
            ("10%", None),
            ("", None),
            ("auto", None),
            ("calc(100vw - 66px)", Some(1300.0)),
            ("calc((100vw - 6px) / 2)", Some(680.0)),
            ("calc(2 * 3px + 4px)", Some(10.0)),
            ("min(100vw, 600px)", Some(600.0)),
            ("max(10px, 1em, 3px)", Some(16.0)),
            ("clamp(100px, 50vw, 500px)", Some(500.0)),
            ("calc(1px / 0)", None),
            ("calc(1px", Some(1.0)),
            ("10px 20px", None),
        ];
        for (text, expected) in cases {
            let length = pixels(text, Viewport::default());
            let near = match (length, expected) {
                (Some(length), Some(expected)) => (length - expected).abs() < 0.01,
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            assert!(near, "{text}: {length:?}");
        }
        let deep = format!("calc{}1px", "(".repeat(100_000));
        assert_eq!(pixels(&deep, Viewport::default()), None);
    }
}
