//! SVG output. Colours come from the page's style sheet, so that one drawing is suitable for light, dark and
//! print; plotting libraries with fixed colours cannot do this.
mod bars;
mod lines;
mod paired;
pub(crate) mod traces;
mod waterfall;

use std::collections::BTreeMap;

pub(crate) use bars::{Bar, BarGroup, bar_chart};
pub(crate) use lines::{Join, Line, LineChart, values as series_values};
pub(crate) use paired::{Pair, PairGroup, paired_chart, paired_file};
pub(crate) use waterfall::waterfall;

use maud::{Markup, PreEscaped, html};

use crate::{markup::Text, quantity};

/// Number of colours in the style sheet; further systems repeat them with other dashes and markers.
const COLOURS: usize = 8;
/// Dashes of lines, which distinguish lines without colours.
const DASHES: [&str; 5] = ["", "7 3", "2 3", "9 3 2 3", "12 4"];

/// Appearance of a system, the same in every chart of page loads, and in every chart of the transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Look(usize);

impl Look {
    fn colour(self) -> String {
        format!("var(--s{})", self.0 % COLOURS)
    }

    fn dash(self) -> Option<&'static str> {
        // The quotient is added so that a repeated colour does not repeat its dash.
        let dash = DASHES[(self.0 + self.0 / COLOURS) % DASHES.len()];
        (!dash.is_empty()).then_some(dash)
    }

    /// Returns a marker at a point; there are six shapes.
    fn marker(self, x: f64, y: f64) -> Markup {
        let (x, y, colour) = (finite(x), finite(y), self.colour());
        let path = |points: &str| html! { path d=(points) fill=(colour) {} };
        match (self.0 + self.0 / COLOURS) % 6 {
            0 => html! { circle cx=(tenths(x)) cy=(tenths(y)) r="4" fill=(colour) {} },
            1 => path(&format!("M{:.1} {:.1}h7v7h-7z", x - 3.5, y - 3.5)),
            2 => path(&format!("M{x:.1} {:.1}l4.5 8h-9z", y - 5.0)),
            3 => path(&format!("M{x:.1} {:.1}l5 5l-5 5l-5 -5z", y - 5.0)),
            4 => path(&format!("M{x:.1} {:.1}l4.5 -8h-9z", y + 5.0)),
            _ => html! {
                circle cx=(tenths(x)) cy=(tenths(y)) r="3.5" fill="none" stroke=(colour) stroke-width="2" {}
            },
        }
    }
}

/// Appearance of each system by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Palette(BTreeMap<String, Look>);

impl Palette {
    /// Assigns appearances in this order; a repeated name keeps its first.
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut looks = BTreeMap::new();
        for name in names {
            let next = Look(looks.len());
            looks.entry(name).or_insert(next);
        }
        Self(looks)
    }

    /// Returns the appearance of this name.
    pub(crate) fn look(&self, name: &str) -> Look {
        self.0.get(name).copied().unwrap_or_default()
    }
}

/// A linear scale from values to pixels.
#[derive(Clone, Copy, Debug)]
struct Scale {
    low: f64,
    span: f64,
    start: f64,
    length: f64,
}

impl Scale {
    /// Maps `low..high` to `start..end` (which may be decreasing). An empty or invalid range is widened.
    fn new(low: f64, high: f64, start: f64, end: f64) -> Self {
        let low = if low.is_finite() { low } else { 0.0 };
        let span = high - low;
        let span = if span.is_finite() && span > 0.0 { span } else { 1.0 };
        Self {
            low,
            span,
            start,
            length: end - start,
        }
    }

    /// Returns the pixel of a value, clamped to the scale.
    fn at(self, value: f64) -> f64 {
        let share = (value - self.low) / self.span;
        let share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        };
        self.start + share * self.length
    }
}

/// Returns round values from `low` to `high`, at most about `wanted` of them.
fn ticks(low: f64, high: f64, wanted: u32) -> Vec<f64> {
    let span = high - low;
    if !span.is_finite() || span <= 0.0 || !low.is_finite() {
        return vec![if low.is_finite() { low } else { 0.0 }];
    }
    let raw = span / f64::from(wanted.max(1));
    let magnitude = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * magnitude)
        .find(|step| *step >= raw * 0.999)
        .unwrap_or(10.0 * magnitude);
    if !(step.is_finite() && step > 0.0) {
        return vec![low];
    }
    let first = (low / step).ceil();
    // The bound protects against steps that vanish beside a large origin.
    (0..=wanted * 2 + 2)
        .map(|index| (first + f64::from(index)) * step)
        .take_while(|tick| *tick <= high + step * 1e-6)
        .collect()
}

/// Returns the label of a tick without unnecessary zeros.
fn tick_label(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if value.abs() >= 1e6 || (value != 0.0 && value.abs() < 1e-3) {
        quantity::number(value)
    } else if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// Alignment of text relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    End,
    Middle,
    Start,
}

/// A drawing under construction.
#[derive(Debug)]
struct Drawing {
    width: f64,
    height: f64,
    body: String,
}

impl Drawing {
    fn new(width: f64, height: f64) -> Self {
        Self {
            width,
            height,
            body: String::new(),
        }
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.push(&html! {
            line class=(class) x1=(tenths(from.0)) y1=(tenths(from.1)) x2=(tenths(to.0)) y2=(tenths(to.1)) {}
        });
    }

    /// Adds a rectangle with the style of a class.
    fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64)) {
        self.push(&html! {
            rect class=(class) x=(tenths(at.0)) y=(tenths(at.1)) width=(length(size.0)) height=(length(size.1)) {}
        });
    }

    /// Adds a rectangle in a colour; `is_pale` for figures that are not reliable.
    fn bar(&mut self, colour: &str, is_pale: bool, at: (f64, f64), size: (f64, f64)) {
        let (dashes, opacity) = if is_pale {
            (Some("4 2"), Some("0.35"))
        } else {
            (None, None)
        };
        self.push(&html! {
            rect fill=(colour) stroke=(colour) stroke-dasharray=[dashes] fill-opacity=[opacity]
                x=(tenths(at.0)) y=(tenths(at.1)) width=(length(size.0)) height=(length(size.1)) {}
        });
    }

    fn text(&mut self, class: &str, anchor: Anchor, at: (f64, f64), words: &str) {
        let anchor = match anchor {
            Anchor::End => Some("end"),
            Anchor::Middle => Some("middle"),
            Anchor::Start => None,
        };
        self.push(&html! {
            text class=(class) x=(tenths(at.0)) y=(tenths(at.1)) text-anchor=[anchor] { (Text(words)) }
        });
    }

    /// Adds what `draw` draws as a group with a title.
    fn group(&mut self, title: &str, draw: impl FnOnce(&mut Self)) {
        let before = std::mem::take(&mut self.body);
        draw(self);
        let group = std::mem::replace(&mut self.body, before);
        self.push(&html! {
            g {
                title { (Text(title)) }
                (PreEscaped(group))
            }
        });
    }

    fn push(&mut self, svg: &Markup) {
        self.body.push_str(&svg.0);
    }

    /// Returns the drawing; `title` is for screen readers.
    fn finish(self, title: &str) -> Markup {
        self.finish_in(None, title)
    }

    /// Returns the drawing as a file of its own.
    fn finish_alone(self, title: &str) -> Markup {
        self.finish_in(Some("http://www.w3.org/2000/svg"), title)
    }

    fn finish_in(self, namespace: Option<&str>, title: &str) -> Markup {
        let (width, height) = (format!("{:.0}", self.width), format!("{:.0}", self.height));
        html! {
            svg xmlns=[namespace] class="chart" role="img" aria-label=(Text(title))
                viewBox={ "0 0 " (width) " " (height) } width=(width) {
                (PreEscaped(self.body))
            }
            "\n"
        }
    }
}

/// A coordinate, to a tenth of a pixel.
fn tenths(value: f64) -> String {
    format!("{:.1}", finite(value))
}

/// A length, to a tenth of a pixel.
fn length(value: f64) -> String {
    tenths(finite(value).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 10.0, 5), vec![0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(0.0, f64::NAN, 5), vec![0.0]);
        assert_eq!(ticks(3.0, 3.0, 5), vec![3.0]);
        assert!(ticks(1e300, 1.000_000_000_000_1e300, 5).len() < 20);
        assert_eq!(tick_label(0.5), "0.5");
        assert_eq!(tick_label(20.0), "20");
    }

    #[test]
    fn scale_clamps_invalid_values() {
        let scale = Scale::new(f64::NAN, f64::INFINITY, 10.0, 110.0);
        assert_eq!(scale.at(f64::NAN), 10.0);
        assert_eq!(Scale::new(0.0, 2.0, 100.0, 0.0).at(1.0), 50.0);
        assert_eq!(Scale::new(0.0, 2.0, 100.0, 0.0).at(5.0), 0.0);
    }
}
