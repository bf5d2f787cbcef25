//! Selection of image candidates (HTML Living Standard 4.8.4).
use crate::{Viewport, css_length, media};

/// Maximum number of candidates per image; real images have about ten.
const MAX_CANDIDATES: usize = 100;

/// Size for which a candidate is intended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Descriptor {
    /// Device pixels per CSS pixel (`2x`).
    Density(f64),
    /// Width of the image in pixels (`640w`).
    Width(f64),
}

/// One URL of an image with several sizes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate<T> {
    pub(crate) target: T,
    pub(crate) descriptor: Descriptor,
}

/// Returns the candidates of `srcset`, with `src` if it is a candidate (section 4.8.4.2.3).
pub(crate) fn candidates(srcset: Option<&str>, src: Option<&str>) -> Vec<Candidate<String>> {
    let mut candidates = srcset.map(parse).unwrap_or_default();
    let left_out = candidates.iter().any(|candidate| match candidate.descriptor {
        Descriptor::Density(density) => (density - 1.0).abs() < f64::EPSILON,
        Descriptor::Width(_) => true,
    });
    if let Some(src) = src.filter(|src| !left_out && !src.trim().is_empty()) {
        candidates.push(Candidate {
            target: src.trim().to_owned(),
            descriptor: Descriptor::Density(1.0),
        });
    }
    candidates
}

/// Returns the index of the candidate that a browser loads: of the two densities around the screen's, the
/// proportionally nearer, as in Chromium; at ratio 1 never a density below the screen's.
pub(crate) fn select<T>(candidates: &[Candidate<T>], sizes: &str, viewport: Viewport) -> Option<usize> {
    let slot = slot_width(sizes, viewport);
    let density = |candidate: &Candidate<T>| match candidate.descriptor {
        Descriptor::Density(density) => density,
        Descriptor::Width(width) => width / slot,
    };
    let mut order: Vec<(usize, f64)> = candidates.iter().map(density).enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let ratio = viewport.ratio();
    for (position, pair) in order.windows(2).enumerate() {
        let (current, next) = (pair[0].1, pair[1].1);
        if next < ratio {
            continue;
        }
        let mean = (current * next).sqrt();
        let takes_next = (ratio <= 1.0 && ratio > current) || ratio >= mean;
        // The first of several equal densities applies.
        if takes_next && next > current {
            return first_of(&order, position + 1);
        }
        return first_of(&order, position);
    }
    first_of(&order, order.len().checked_sub(1)?)
}

/// Returns the first candidate in document order with the density at `position`; the sort is stable.
fn first_of(order: &[(usize, f64)], position: usize) -> Option<usize> {
    let density = order.get(position)?.1;
    let first = order.iter().find(|(_, other)| other.total_cmp(&density).is_eq());
    first.map(|(index, _)| *index)
}

/// Parses the valid candidates of `srcset` (section 4.8.4.2.4).
fn parse(srcset: &str) -> Vec<Candidate<String>> {
    let mut candidates = Vec::new();
    for (target, descriptors) in split(srcset) {
        if let Some(descriptor) = descriptor(&descriptors) {
            candidates.push(Candidate { target, descriptor });
        }
        if candidates.len() >= MAX_CANDIDATES {
            break;
        }
    }
    candidates
}

fn descriptor(descriptors: &str) -> Option<Descriptor> {
    let mut found = None;
    for descriptor in descriptors.split_ascii_whitespace() {
        let (end, unit) = descriptor.char_indices().next_back()?;
        let number: f64 = descriptor[..end].parse().ok()?;
        let positive = number.is_finite() && number > 0.0;
        match unit {
            'x' if found.is_none() && positive => found = Some(Descriptor::Density(number)),
            'w' if found.is_none() && positive => found = Some(Descriptor::Width(number)),
            // Heights are reserved for future use and ignored.
            'h' => {}
            _ => return None,
        }
    }
    Some(found.unwrap_or(Descriptor::Density(1.0)))
}

/// Splits at commas after a candidate; commas inside a URL (such as `data:`) or in parentheses do not
/// separate.
fn split(srcset: &str) -> impl Iterator<Item = (String, String)> {
    let mut rest = srcset;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
        let (url, after) = rest.split_at(end);
        if let Some(url) = url.strip_suffix(',') {
            rest = after;
            return Some((url.trim_end_matches(',').to_owned(), String::new()));
        }
        let descriptors = media::split_top_level(after, ',').next().unwrap_or_default();
        rest = &after[descriptors.len()..];
        Some((url.to_owned(), descriptors.trim().to_ascii_lowercase()))
    })
}

/// Returns the width of the image's slot in pixels: the first `sizes` entry whose condition applies, else the
/// viewport.
fn slot_width(sizes: &str, viewport: Viewport) -> f64 {
    for entry in media::split_top_level(sizes, ',') {
        let entry = entry.trim();
        let (condition, size) = condition_and_size(entry);
        if !media::applies(condition, viewport) {
            continue;
        }
        if let Some(width) = css_length::pixels(size, viewport).filter(|width| *width > 0.0) {
            return width;
        }
    }
    f64::from(viewport.width.max(1))
}

/// Splits `(min-width: 600px) calc(50vw - 1em)` before its last word or function.
fn condition_and_size(entry: &str) -> (&str, &str) {
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, c) in entry.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        // `(a)10px` is valid without a space.
        if depth == 0
            && (c.is_ascii_whitespace()
                || (c == ')' && entry[at + 1..].starts_with(|c: char| c.is_ascii_digit())))
        {
            start = at + 1;
        }
    }
    let (condition, size) = entry.split_at(start);
    (condition.trim(), size.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(srcset: Option<&str>, sizes: &str, src: Option<&str>, viewport: Viewport) -> Option<String> {
        let candidates = candidates(srcset, src);
        select(&candidates, sizes, viewport).map(|index| candidates[index].target.clone())
    }

    #[test]
    fn srcset_chooses_as_a_browser_at_ratio_one() {
        type Text = Option<&'static str>;
        let widths = Some("s.png 320w, m.png 640w, l.png 1600w");
        let cases: [(Text, &str, Text, Text); 17] = [
            (None, "", Some("a.png"), Some("a.png")),
            (Some("b.png 2x"), "", Some("a.png"), Some("a.png")),
            (Some("b.png, c.png 2x"), "", Some("a.png"), Some("b.png")),
            (widths, "", Some("a.png"), Some("l.png")),
            (widths, "300px", Some("a.png"), Some("s.png")),
            (widths, "(max-width: 600px) 50px, 100vw", None, Some("l.png")),
            (
                widths,
                "(max-width: 600px) 50px, calc(50vw - 50px)",
                None,
                Some("m.png"),
            ),
            (
                widths,
                "(min-width: calc(1px + 1px)) 310px, 100vw",
                None,
                Some("s.png"),
            ),
            (widths, "(min-width:1px)310px", None, Some("s.png")),
            (widths, "auto, 300px", None, Some("s.png")),
            (
                Some("data:image/png;base64,AA== 1x,b.png 2x"),
                "",
                None,
                Some("data:image/png;base64,AA=="),
            ),
            (Some("bad.png 1q"), "", Some("a.png"), Some("a.png")),
            (Some("bad.png -1x, é.png 1é"), "", Some("a.png"), Some("a.png")),
            (Some("bad.png 1x 2x, ok.png 1x"), "", None, Some("ok.png")),
            (Some("w.png 100w 50h"), "", Some("a.png"), Some("w.png")),
            (Some("one.png, two.png"), "", None, Some("one.png")),
            (Some(" , "), "", Some(" "), None),
        ];
        for (srcset, sizes, src, expected) in cases {
            let chosen = choose(srcset, sizes, src, Viewport::default());
            assert_eq!(chosen.as_deref(), expected, "{srcset:?} {sizes:?}");
        }
    }

    #[test]
    fn srcset_chooses_by_the_pixel_ratio() {
        let at = |ratio_percent| Viewport {
            ratio_percent,
            ..Viewport::default()
        };
        let densities = Some("b.png 1.5x, c.png 3x");
        for (ratio, expected) in [
            (100, "a.png"),
            (150, "b.png"),
            (200, "b.png"),
            (225, "c.png"),
            (400, "c.png"),
        ] {
            let chosen = choose(densities, "", Some("a.png"), at(ratio));
            assert_eq!(chosen.as_deref(), Some(expected), "{ratio}");
        }
    }
}
