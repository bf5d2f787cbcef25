//! Choice among image candidates (HTML Living Standard 4.8.4.2) at device pixel ratio 1.
use super::media;

/// The candidate that a browser loads from `srcset` (with `sizes`), or `src` if that suits better.
pub(super) fn choose(srcset: Option<&str>, sizes: Option<&str>, src: Option<&str>) -> Option<String> {
    let mut candidates = srcset.map(|srcset| parse(srcset, sizes)).unwrap_or_default();
    // A src counts as 1x unless a candidate has that density or widths are given.
    let has_one = candidates
        .iter()
        .any(|(_, density)| (density - 1.0).abs() < f64::EPSILON);
    let has_widths = srcset.is_some_and(|srcset| split(srcset).iter().any(|(_, rest)| rest.contains('w')));
    let left_out = has_one || (has_widths && !candidates.is_empty());
    if let Some(src) = src.filter(|src| !left_out && !src.trim().is_empty()) {
        candidates.push((src.trim().to_owned(), 1.0));
    }
    let enough = candidates.iter().filter(|(_, density)| *density >= 1.0);
    let best = enough.min_by(|a, b| a.1.total_cmp(&b.1));
    let best = best.or_else(|| candidates.iter().max_by(|a, b| a.1.total_cmp(&b.1)));
    best.map(|(url, _)| url.clone())
}

/// URL and density of every valid candidate.
fn parse(srcset: &str, sizes: Option<&str>) -> Vec<(String, f64)> {
    let slot = slot_width(sizes);
    let mut candidates: Vec<(String, f64)> = Vec::new();
    for (url, descriptors) in split(srcset) {
        let mut density = Some(1.0);
        for descriptor in descriptors.split_ascii_whitespace() {
            let (number, unit) = descriptor.split_at(descriptor.len() - 1);
            density = match (unit, number.parse::<f64>()) {
                ("x", Ok(number)) if number > 0.0 => Some(number),
                ("w", Ok(number)) if number > 0.0 => Some(number / slot),
                ("h", Ok(_)) => density,
                _ => None,
            };
        }
        if let Some(density) = density {
            candidates.push((url, density));
        }
    }
    candidates
}

/// Splits at commas behind a candidate; commas inside a URL (as in `data:`) or in parentheses do not divide.
fn split(srcset: &str) -> Vec<(String, String)> {
    let mut candidates = Vec::new();
    let mut rest = srcset;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
        if rest.is_empty() {
            return candidates;
        }
        let end = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
        let (url, after) = rest.split_at(end);
        if let Some(url) = url.strip_suffix(',') {
            candidates.push((url.trim_end_matches(',').to_owned(), String::new()));
            rest = after;
            continue;
        }
        let mut depth = 0_usize;
        let end = after.find(|c: char| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        });
        let (descriptors, after) = after.split_at(end.unwrap_or(after.len()));
        candidates.push((url.to_owned(), descriptors.trim().to_ascii_lowercase()));
        rest = after;
    }
}

/// The width of the image's slot in pixels: the first `sizes` entry whose condition applies, else the viewport.
fn slot_width(sizes: Option<&str>) -> f64 {
    for entry in sizes.unwrap_or_default().split(',') {
        let entry = entry.trim();
        let (condition, size) = entry.rfind(')').map_or(("", entry), |at| entry.split_at(at + 1));
        let calculated =
            condition.contains("calc(") || condition.contains("min(") || condition.contains("max(");
        if calculated || !media::applies(condition) {
            continue;
        }
        if let Some(width) = media::length(size).filter(|width| *width > 0.0) {
            return width;
        }
    }
    media::VIEWPORT.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_as_a_browser_at_ratio_one() {
        type Text = Option<&'static str>;
        let cases: [(Text, Text, Text, Text); 9] = [
            (None, None, Some("a.png"), Some("a.png")),
            (Some("b.png 2x"), None, Some("a.png"), Some("a.png")),
            (Some("b.png, c.png 2x"), None, Some("a.png"), Some("b.png")),
            (
                Some("s.png 320w, m.png 640w, l.png 1600w"),
                None,
                Some("a.png"),
                Some("l.png"),
            ),
            (
                Some("s.png 320w, m.png 640w, l.png 1600w"),
                Some("300px"),
                Some("a.png"),
                Some("s.png"),
            ),
            (
                Some("s.png 320w, m.png 640w"),
                Some("(max-width: 600px) 50px, 100vw"),
                None,
                Some("m.png"),
            ),
            (
                Some("data:image/png;base64,AA== 1x,b.png 2x"),
                None,
                None,
                Some("data:image/png;base64,AA=="),
            ),
            (Some("bad.png 1q"), None, Some("a.png"), Some("a.png")),
            (Some(" , "), None, Some(" "), None),
        ];
        for (srcset, sizes, src, expected) in cases {
            assert_eq!(
                choose(srcset, sizes, src).as_deref(),
                expected,
                "{srcset:?} {sizes:?}"
            );
        }
    }
}
