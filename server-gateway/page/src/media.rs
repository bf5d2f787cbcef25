//! Media queries (Media Queries Level 4) evaluated for a viewport.
use crate::{Viewport, css_length};

/// Maximum depth of nested conditions.
const MAX_DEPTH: usize = 16;

/// Returns true if a list of media queries applies to a colour screen with a pointer and the light scheme.
/// The empty list applies; a query that is not understood does not.
pub(crate) fn applies(list: &str, viewport: Viewport) -> bool {
    let list = list.trim().to_ascii_lowercase();
    list.is_empty() || split_top_level(&list, ',').any(|query| query_applies(query.trim(), viewport))
}

/// Splits at a separator outside parentheses.
pub(crate) fn split_top_level(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == separator && depth == 0
    })
}

/// Value of a condition; `None` if it contains parts that are not understood (section 3.2).
type Truth = Option<bool>;

fn query_applies(query: &str, viewport: Viewport) -> bool {
    let words = query.split_once(|c: char| c.is_ascii_whitespace());
    let (negated, rest) = match words {
        Some(("not", rest)) if !rest.trim_start().starts_with('(') => (true, rest.trim_start()),
        Some(("only", rest)) => (false, rest.trim_start()),
        _ => (false, query),
    };
    if rest.starts_with('(') || rest.starts_with("not") && !negated {
        return condition(rest, viewport, 0) == Some(true);
    }
    let (kind, features) = match rest.split_once(|c: char| c.is_ascii_whitespace()) {
        Some((kind, features)) => (kind, features.trim_start()),
        None => (rest, ""),
    };
    let features = match features.strip_prefix("and") {
        Some(features) => condition(features.trim_start(), viewport, 0),
        None => features.is_empty().then_some(true),
    };
    let shown = matches!(kind, "all" | "screen");
    features.is_some_and(|features| (shown && features) != negated)
}

/// Evaluates `not X`, `X and Y and …` or `X or Y or …` with parenthesized operands.
fn condition(text: &str, viewport: Viewport, depth: usize) -> Truth {
    if depth > MAX_DEPTH {
        return None;
    }
    if let Some(rest) = text.strip_prefix("not") {
        return condition(rest.trim_start(), viewport, depth + 1).map(|truth| !truth);
    }
    let (operand, mut rest) = parenthesised(text)?;
    let mut truth = inside(operand, viewport, depth);
    let mut operator = None;
    while !rest.is_empty() {
        let word = if rest.starts_with("and") { "and" } else { "or" };
        if *operator.get_or_insert(word) != word {
            return None;
        }
        let (operand, after) = parenthesised(rest.strip_prefix(word)?.trim_start())?;
        let next = inside(operand, viewport, depth);
        truth = match (word, truth, next) {
            ("and", Some(false), _) | ("and", _, Some(false)) => Some(false),
            ("or", Some(true), _) | ("or", _, Some(true)) => Some(true),
            (_, Some(_), next) => next,
            (_, None, _) => None,
        };
        rest = after;
    }
    truth
}

/// Returns the text in the parentheses at the start of `text`, and the remaining text; a missing parenthesis
/// is added at the end.
fn parenthesised(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('(')?;
    let mut depth = 1_usize;
    let end = inner.find(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    Some(match end {
        Some(end) => (inner[..end].trim(), inner[end + 1..].trim_start()),
        None => (inner.trim(), ""),
    })
}

fn inside(text: &str, viewport: Viewport, depth: usize) -> Truth {
    let nested = text.starts_with('(')
        || text
            .strip_prefix("not")
            .is_some_and(|rest| rest.trim_start().starts_with('('));
    if nested {
        condition(text, viewport, depth + 1)
    } else {
        feature(text, viewport)
    }
}

fn feature(feature: &str, viewport: Viewport) -> Truth {
    let Some((name, value)) = feature.split_once(':') else {
        return range(feature, viewport).or_else(|| present(feature));
    };
    let (name, value) = (name.trim(), value.trim());
    let (width, height) = (f64::from(viewport.width), f64::from(viewport.height));
    let length = || css_length::pixels(value, viewport);
    match name {
        "min-width" | "min-device-width" => Some(width >= length()?),
        "max-width" | "max-device-width" => Some(width <= length()?),
        "width" | "device-width" => Some((width - length()?).abs() < 0.5),
        "min-height" | "min-device-height" => Some(height >= length()?),
        "max-height" | "max-device-height" => Some(height <= length()?),
        "height" | "device-height" => Some((height - length()?).abs() < 0.5),
        "min-aspect-ratio" | "min-device-aspect-ratio" => Some(width / height >= quotient(value)?),
        "max-aspect-ratio" | "max-device-aspect-ratio" => Some(width / height <= quotient(value)?),
        "orientation" => Some((value == "landscape") == (width > height)),
        "min-resolution" | "-webkit-min-device-pixel-ratio" => Some(viewport.ratio() >= density(value)?),
        "max-resolution" | "-webkit-max-device-pixel-ratio" => Some(viewport.ratio() <= density(value)?),
        "resolution" | "-webkit-device-pixel-ratio" => {
            Some((viewport.ratio() - density(value)?).abs() < 0.01)
        }
        "hover" | "any-hover" => Some(value == "hover"),
        "pointer" | "any-pointer" => Some(value == "fine"),
        "prefers-color-scheme" => Some(value == "light"),
        "prefers-reduced-motion"
        | "prefers-contrast"
        | "prefers-reduced-data"
        | "prefers-reduced-transparency" => Some(value == "no-preference"),
        "forced-colors" | "inverted-colors" => Some(value == "none"),
        "scripting" => Some(value == "enabled"),
        "update" => Some(value == "fast"),
        "overflow-block" | "overflow-inline" => Some(value == "scroll"),
        "display-mode" => Some(value == "browser"),
        "color-gamut" => Some(value == "srgb"),
        "dynamic-range" | "video-dynamic-range" => Some(value == "standard"),
        "min-color" => Some(value.parse::<u32>().ok()? <= 8),
        "grid" | "monochrome" => Some(value == "0"),
        _ => None,
    }
}

/// Evaluates a feature without value, such as `(hover)`.
fn present(feature: &str) -> Truth {
    match feature {
        "color"
        | "hover"
        | "pointer"
        | "any-hover"
        | "any-pointer"
        | "width"
        | "height"
        | "resolution"
        | "scripting"
        | "aspect-ratio"
        | "prefers-color-scheme" => Some(true),
        "monochrome" | "grid" | "prefers-reduced-motion" | "prefers-contrast" | "forced-colors" => {
            Some(false)
        }
        _ => None,
    }
}

/// Evaluates `width >= 600px`, `600px <= width` and `400px < width < 900px`; `None` for other text.
fn range(feature: &str, viewport: Viewport) -> Truth {
    let mut sides = Vec::new();
    let mut operators = Vec::new();
    let mut rest = feature;
    while let Some(at) = rest.find(['<', '>', '=']) {
        let length = if rest[at + 1..].starts_with('=') { 2 } else { 1 };
        sides.push(rest[..at].trim());
        operators.push(&rest[at..at + length]);
        rest = &rest[at + length..];
        if operators.len() > 2 {
            return None;
        }
    }
    sides.push(rest.trim());
    if operators.is_empty() {
        return None;
    }
    let value = |side: &str| match side {
        "width" | "device-width" => Some(f64::from(viewport.width)),
        "height" | "device-height" => Some(f64::from(viewport.height)),
        "resolution" => Some(viewport.ratio()),
        _ => css_length::pixels(side, viewport).or_else(|| density(side)),
    };
    let mut holds = true;
    for (operator, pair) in operators.iter().zip(sides.windows(2)) {
        let (left, right) = (value(pair[0])?, value(pair[1])?);
        holds &= match *operator {
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            ">=" => left >= right,
            _ => (left - right).abs() < f64::EPSILON,
        };
    }
    Some(holds)
}

/// Parses `16/9` or `1.5`.
fn quotient(value: &str) -> Option<f64> {
    let (over, under) = value.split_once('/').unwrap_or((value, "1"));
    let quotient = over.trim().parse::<f64>().ok()? / under.trim().parse::<f64>().ok()?;
    quotient.is_finite().then_some(quotient)
}

/// Returns a resolution in device pixels per CSS pixel.
pub(crate) fn density(value: &str) -> Option<f64> {
    for (unit, per) in [("dppx", 1.0), ("dpi", 96.0), ("dpcm", 96.0 / 2.54), ("x", 1.0)] {
        if let Some(number) = value.strip_suffix(unit) {
            return Some(number.trim().parse::<f64>().ok()? / per);
        }
    }
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_queries_evaluate_as_on_a_laptop_screen() {
        for yes in [
            "",
            "all",
            "screen",
            "only screen and (min-width: 40em)",
            "print, screen",
            "not print",
            "not screen and (min-width: 2000px)",
            "(max-width: 1366px)",
            "(min-width:600px) and (max-width:1400px)",
            "(width >= 600px)",
            "(400px < width <= 1366px)",
            "(orientation: landscape)",
            "(prefers-color-scheme: light)",
            "(hover)",
            "(max-width: 600px) or (min-width: 1000px)",
            "not (max-width: 600px)",
            "((min-width: 600px) and (not (orientation: portrait)))",
            "screen and (min-width: calc(40em + 10px))",
            "(unknown: thing), screen",
            "(min-width: 1px) or (unknown)",
            "(min-aspect-ratio: 16/10)",
            "SCREEN AND (MIN-WIDTH: 1PX)",
            "screen and (min-width: 1px",
        ] {
            assert!(applies(yes, Viewport::default()), "{yes}");
        }
        for no in [
            "print",
            "(max-width: 600px)",
            "screen and (min-width: 2000px)",
            "(-webkit-min-device-pixel-ratio: 2)",
            "(min-resolution: 192dpi)",
            "(width < 600px)",
            "(prefers-color-scheme: dark)",
            "(unknown: thing)",
            "not (unknown: thing)",
            "not screen",
            "(min-width: 1px) and (unknown)",
            "(min-width: 1px) and (min-width: 2px) or (min-width: 3px)",
            "screen (min-width: 1px)",
            "print and (min-width: 1px)",
            "(prefers-reduced-motion)",
            "(1px < 2px < 3px < width)",
            ",",
            "()",
        ] {
            assert!(!applies(no, Viewport::default()), "{no}");
        }
        let deep = "(".repeat(100_000);
        assert!(!applies(&deep, Viewport::default()));
        assert!(!applies(&"not ".repeat(100_000), Viewport::default()));
    }

    #[test]
    fn media_queries_follow_the_viewport() {
        let phone = Viewport {
            width: 390,
            height: 844,
            ratio_percent: 300,
        };
        for yes in [
            "(max-width: 600px)",
            "(min-resolution: 2dppx)",
            "(orientation: portrait)",
            "(resolution: 3x)",
        ] {
            assert!(applies(yes, phone), "{yes}");
        }
    }
}
