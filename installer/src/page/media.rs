//! Media queries (Media Queries Level 4) for the screen that the loader pretends to have.

/// The viewport in CSS pixels: the most common laptop screen, and the product's default for image sizes.
pub(super) const VIEWPORT: (f64, f64) = (1366.0, 768.0);
/// One `em` or `rem` in media queries: the initial font size.
const EM: f64 = 16.0;

/// Whether a list of media queries applies to a colour screen with a pointer, light scheme, device pixel ratio 1.
/// The empty list applies; a query that is not understood does not.
pub(super) fn applies(list: &str) -> bool {
    let list = list.trim().to_ascii_lowercase();
    list.is_empty() || list.split(',').any(|query| query_applies(query.trim()))
}

fn query_applies(query: &str) -> bool {
    if let Some(rest) = query.strip_prefix("not ") {
        return !query_applies(rest.trim());
    }
    let query = query.strip_prefix("only ").unwrap_or(query);
    // `(a)and(b)` is invalid, so splitting at the spaced word is right.
    query.split(" and ").all(|part| {
        let part = part.trim();
        match part.strip_prefix('(').and_then(|part| part.strip_suffix(')')) {
            Some(feature) => feature_applies(feature.trim()),
            None => matches!(part, "all" | "screen"),
        }
    })
}

fn feature_applies(feature: &str) -> bool {
    let Some((name, value)) = feature.split_once(':') else {
        return range_applies(feature).unwrap_or(matches!(
            feature,
            "color" | "hover" | "pointer" | "any-hover" | "any-pointer" | "width" | "height"
        ));
    };
    let (name, value) = (name.trim(), value.trim());
    match name {
        "min-width" | "min-device-width" => length(value).is_some_and(|length| VIEWPORT.0 >= length),
        "max-width" | "max-device-width" => length(value).is_some_and(|length| VIEWPORT.0 <= length),
        "min-height" | "min-device-height" => length(value).is_some_and(|length| VIEWPORT.1 >= length),
        "max-height" | "max-device-height" => length(value).is_some_and(|length| VIEWPORT.1 <= length),
        "orientation" => value == "landscape",
        "min-resolution" | "-webkit-min-device-pixel-ratio" => {
            density(value).is_some_and(|density| density <= 1.0)
        }
        "max-resolution" | "-webkit-max-device-pixel-ratio" => {
            density(value).is_some_and(|density| density >= 1.0)
        }
        "hover" | "any-hover" => value == "hover",
        "pointer" | "any-pointer" => value == "fine",
        "prefers-color-scheme" => value == "light",
        "prefers-reduced-motion" | "prefers-contrast" | "prefers-reduced-data" => value == "no-preference",
        "scripting" => value == "enabled",
        _ => false,
    }
}

/// `width >= 600px`, `600px <= width` and `400px < width < 900px`; `None` if it is not a range.
fn range_applies(feature: &str) -> Option<bool> {
    let mut sides = Vec::new();
    let mut operators = Vec::new();
    let mut rest = feature;
    while let Some(at) = rest.find(['<', '>', '=']) {
        let length = if rest[at + 1..].starts_with('=') { 2 } else { 1 };
        sides.push(rest[..at].trim());
        operators.push(&rest[at..at + length]);
        rest = &rest[at + length..];
    }
    sides.push(rest.trim());
    if operators.is_empty() || operators.len() > 2 {
        return None;
    }
    let value = |side: &str| match side {
        "width" => Some(VIEWPORT.0),
        "height" => Some(VIEWPORT.1),
        _ => length(side),
    };
    let holds = operators.iter().zip(sides.windows(2)).all(|(operator, pair)| {
        let (Some(left), Some(right)) = (value(pair[0]), value(pair[1])) else {
            return false;
        };
        match *operator {
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            ">=" => left >= right,
            _ => (left - right).abs() < f64::EPSILON,
        }
    });
    Some(holds)
}

fn density(value: &str) -> Option<f64> {
    for (unit, per) in [("dppx", 1.0), ("dpi", 96.0), ("dpcm", 96.0 / 2.54), ("x", 1.0)] {
        if let Some(number) = value.strip_suffix(unit) {
            return Some(number.trim().parse::<f64>().ok()? / per);
        }
    }
    value.parse().ok()
}

/// A CSS length in pixels.
pub(super) fn length(value: &str) -> Option<f64> {
    let value = value.trim().to_ascii_lowercase();
    for (unit, pixels) in [
        ("px", 1.0),
        ("rem", EM),
        ("em", EM),
        ("vw", VIEWPORT.0 / 100.0),
        ("vh", VIEWPORT.1 / 100.0),
        ("in", 96.0),
        ("cm", 96.0 / 2.54),
        ("mm", 9.6 / 2.54),
        ("pt", 4.0 / 3.0),
        ("pc", 16.0),
    ] {
        if let Some(number) = value.strip_suffix(unit) {
            return number.trim().parse::<f64>().ok().map(|number| number * pixels);
        }
    }
    (value == "0").then_some(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_judged_as_by_a_laptop_screen() {
        for yes in [
            "",
            "all",
            "screen",
            "only screen and (min-width: 40em)",
            "print, screen",
            "not print",
            "(max-width: 1366px)",
            "(min-width:600px) and (max-width:1400px)",
            "(width >= 600px)",
            "(400px < width <= 1366px)",
            "(orientation: landscape)",
            "(prefers-color-scheme: light)",
            "(hover)",
        ] {
            assert!(applies(yes), "{yes}");
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
            "not screen",
        ] {
            assert!(!applies(no), "{no}");
        }
    }
}
