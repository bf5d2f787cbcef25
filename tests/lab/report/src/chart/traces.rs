//! Throughput versus queueing delay on recorded traces: a separate drawing with its own style.
use std::collections::BTreeMap;

use maud::{Markup, PreEscaped, html};

use super::{Anchor, Drawing, Look, Palette, Scale, tenths};
use crate::statistics::quantile;

const PANEL: (f64, f64) = (470.0, 330.0);
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 46.0;
const LEGEND: f64 = 46.0;
const COLUMNS: usize = 2;
/// Delays on the axis, in seconds: 1, 2 and 5 of each decade.
const DELAYS: [f64; 12] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0];
/// Shares on the axis; the lowest may be omitted.
const SHARES: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
/// Colours of the page in light and dark mode, because the drawing is a separate file.
pub(super) const STYLE: &str = "svg{--page:#fff;--ink:#1a1d21;--quiet:#5b636d;--line:#d5d9de;--good:#0a6b3a;--s0:#0072b2;--s1:#c2500a;--s2:#007a5a;--s3:#a8488a;--s4:#7d6608;--s5:#4fa8dc;--s6:#5a5f66;--s7:#7a3b00;font-family:system-ui,sans-serif}\
@media(prefers-color-scheme:dark){svg{--page:#14171a;--ink:#e6e9ec;--quiet:#9aa4af;--line:#353b42;--good:#5fd08f;--s0:#56b4e9;--s1:#ff9a5c;--s2:#35c9a0;--s3:#e79ccb;--s4:#e3d35a;--s5:#9ecff0;--s6:#b4bac2;--s7:#d6a06a}}\
text{font-size:12px;fill:var(--ink)}text.tick{font-size:11px;fill:var(--quiet)}text.axis-text{fill:var(--quiet)}text.group{font-weight:600;font-size:13px}text.label{font-size:11.5px;paint-order:stroke;stroke:var(--page);stroke-width:3px;stroke-linejoin:round}\
.grid{stroke:var(--line)}.axis{stroke:var(--quiet)}.bar{fill:var(--good);fill-opacity:.10;stroke:var(--good);stroke-dasharray:5 3}.page{fill:var(--page)}";

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// 95th percentile of the queueing delay, seconds.
    pub(crate) delay: f64,
    /// Share of the capacity, 0 to 1.
    pub(crate) share: f64,
}

/// Measurements of a system on a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cloud {
    /// Repetitions at the trace's beginning.
    pub(crate) repeated: Vec<Point>,
    /// Measurements of other parts of the trace.
    pub(crate) elsewhere: Vec<Point>,
}

impl Cloud {
    /// Returns the median delay and share of the repetitions.
    fn centre(&self) -> Option<Point> {
        let middle =
            |value: fn(&Point) -> f64| quantile(&self.repeated.iter().map(value).collect::<Vec<_>>(), 0.5);
        Some(Point {
            delay: middle(|point| point.delay)?,
            share: middle(|point| point.share)?,
        })
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.repeated.iter().chain(&self.elsewhere)
    }
}

/// A trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Panel {
    pub(crate) title: String,
    /// Maximum delay and minimum share by the bar of this trace.
    pub(crate) bar: Option<Point>,
    pub(crate) systems: BTreeMap<String, Cloud>,
}

/// Returns all panels with equal axes, and the legend above them; empty without panels.
pub(crate) fn draw(panels: &[Panel], palette: &Palette) -> Markup {
    if panels.is_empty() {
        return html! {};
    }
    let columns = COLUMNS.min(panels.len());
    let rows = panels.len().div_ceil(columns);
    let size = |count: usize, of: f64| crate::quantity::length(count) * of;
    let (width, height) = (size(columns, PANEL.0), LEGEND + size(rows, PANEL.1));
    let mut drawing = Drawing::new(width, height);
    drawing.push(&html! { style { (PreEscaped(STYLE)) } });
    drawing.rect("page", (0.0, 0.0), (width, height));
    legend(&mut drawing, panels, palette);
    let axes = Axes::of(panels);
    for (index, panel) in panels.iter().enumerate() {
        let corner = (
            size(index % columns, PANEL.0),
            LEGEND + size(index / columns, PANEL.1),
        );
        axes.panel(&mut drawing, panel, palette, corner);
    }
    drawing.finish_alone("Share of the capacity versus the 95th percentile of the queueing delay")
}

fn legend(drawing: &mut Drawing, panels: &[Panel], palette: &Palette) {
    let mut x = 16.0;
    for system in names(panels, palette) {
        drawing.push(&palette.look(&system).marker(x, 16.0));
        drawing.text("", Anchor::Start, (x + 10.0, 20.0), &system);
        x += 34.0 + crate::quantity::length(system.len()) * 6.6;
    }
    drawing.text(
        "tick",
        Anchor::Start,
        (10.0, 39.0),
        "share of the capacity used; large: the trace's beginning, median and range of the repetitions; small: other parts of it; dashed: the limits of the bar. Higher and further left is better.",
    );
}

/// Returns the systems in the order of their appearances.
fn names(panels: &[Panel], palette: &Palette) -> Vec<String> {
    let mut names: Vec<String> = panels
        .iter()
        .flat_map(|panel| panel.systems.keys().cloned())
        .collect();
    names.sort_by_key(|name| (palette.look(name), name.clone()));
    names.dedup();
    names
}

/// Axes of all panels: logarithmic delay, share up to 1.
struct Axes {
    least: f64,
    greatest: f64,
    least_share: f64,
}

impl Axes {
    fn of(panels: &[Panel]) -> Self {
        let delays = || {
            let points = panels
                .iter()
                .flat_map(|panel| panel.systems.values())
                .flat_map(Cloud::points);
            points.map(|point| point.delay).filter(|delay| delay.is_finite())
        };
        let below = DELAYS
            .iter()
            .rev()
            .find(|tick| delays().all(|delay| delay >= **tick));
        let above = DELAYS.iter().find(|tick| delays().all(|delay| delay <= **tick));
        let clouds = panels.iter().flat_map(|panel| panel.systems.values());
        let found = clouds.flat_map(Cloud::points).map(|point| point.share);
        let wanted = panels.iter().filter_map(|panel| panel.bar).map(|bar| bar.share);
        let least_share = found.chain(wanted).fold(1.0, f64::min);
        Self {
            // No point may lie on the axis.
            least_share: SHARES
                .into_iter()
                .rfind(|share| *share + 0.02 < least_share)
                .unwrap_or(0.0),
            least: below.copied().unwrap_or(DELAYS[0]),
            greatest: above.copied().unwrap_or(DELAYS[DELAYS.len() - 1]),
        }
    }

    fn panel(&self, drawing: &mut Drawing, panel: &Panel, palette: &Palette, corner: (f64, f64)) {
        let (left, right) = (corner.0 + LEFT, corner.0 + PANEL.0 - RIGHT);
        let (top, bottom) = (corner.1 + TOP, corner.1 + PANEL.1 - BOTTOM);
        let across = Scale::new(self.least.ln(), self.greatest.ln(), left, right);
        let upward = Scale::new(self.least_share, 1.0, bottom, top);
        drawing.text("group", Anchor::Start, (left, top - 12.0), &panel.title);
        for tick in SHARES.into_iter().filter(|share| *share >= self.least_share) {
            let y = upward.at(tick);
            drawing.line("grid", (left, y), (right, y));
            drawing.text(
                "tick",
                Anchor::End,
                (left - 6.0, y + 4.0),
                &format!("{:.0} %", tick * 100.0),
            );
        }
        for tick in DELAYS
            .into_iter()
            .filter(|tick| (self.least..=self.greatest).contains(tick))
        {
            let x = across.at(tick.ln());
            drawing.line("grid", (x, top), (x, bottom));
            drawing.text(
                "tick",
                Anchor::Middle,
                (x, bottom + 16.0),
                &super::tick_label(tick),
            );
        }
        drawing.line("axis", (left, bottom), (right, bottom));
        drawing.line("axis", (left, top), (left, bottom));
        let middle = f64::midpoint(left, right);
        drawing.text(
            "axis-text",
            Anchor::Middle,
            (middle, bottom + 34.0),
            "queueing delay, 95th percentile, s",
        );
        if let Some(bar) = panel.bar {
            let (x, y) = (across.at(bar.delay.ln()), upward.at(bar.share));
            drawing.rect("bar", (left, top), (x - left, y - top));
        }
        for (system, cloud) in &panel.systems {
            let look = palette.look(system);
            let place = |point: &Point| (across.at(point.delay.ln()), upward.at(point.share));
            for (x, y) in cloud.elsewhere.iter().map(place) {
                drawing.push(&html! {
                    g opacity=".55" transform=(placed((x, y), ".6")) { (look.marker(0.0, 0.0)) }
                });
            }
            let Some(centre) = cloud.centre() else { continue };
            let (x, y) = place(&centre);
            let ends = |value: fn((f64, f64)) -> f64| {
                let places = cloud.repeated.iter().map(place).map(value);
                places.fold((f64::MAX, f64::MIN), |(least, most), value| {
                    (least.min(value), most.max(value))
                })
            };
            let (from_x, to_x) = ends(|place| place.0);
            let (from_y, to_y) = ends(|place| place.1);
            drawing.push(&range(look, (from_x, y), (to_x, y)));
            drawing.push(&range(look, (x, from_y), (x, to_y)));
            drawing.push(&html! {
                g transform=(placed((x, y), "1.35")) { (look.marker(0.0, 0.0)) }
            });
        }
    }
}

/// Returns the transformation that moves a marker to a place.
fn placed(at: (f64, f64), scale: &str) -> String {
    format!("translate({} {}) scale({scale})", tenths(at.0), tenths(at.1))
}

/// Returns the line of a range of measurements.
fn range(look: Look, from: (f64, f64), to: (f64, f64)) -> Markup {
    let line = format!("M{:.1} {:.1}L{:.1} {:.1}", from.0, from.1, to.0, to.1);
    html! { path d=(line) stroke=(look.colour()) stroke-width="1.6" {} }
}
