//! Horizontal bars of load times divided by the ideal's.
use maud::Markup;

use super::{Anchor, Drawing, Look, Scale, tick_label, ticks};
use crate::{
    markup::shorten,
    quantity,
    statistics::{Spread, quantile},
};

const WIDTH: f64 = 1100.0;
const LEFT: f64 = 200.0;
const RIGHT: f64 = 190.0;
const ROW: f64 = 17.0;
const GAP: f64 = 24.0;
const TOP: f64 = 26.0;

/// One system's bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) look: Look,
    /// Ratio to the ideal; `None` without a valid load.
    pub(crate) ratio: Option<Spread>,
    /// Text after the bar.
    pub(crate) note: String,
    /// Number of failed loads.
    pub(crate) failed: usize,
}

/// The bars of one page.
#[derive(Clone, Debug)]
pub(crate) struct BarGroup {
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
}

/// Draws the groups on one scale, with the ideal as a line at 1.
pub(crate) fn bar_chart(title: &str, groups: &[BarGroup]) -> Markup {
    let count: usize = groups.iter().map(|group| group.bars.len()).sum();
    let height = TOP + quantity::length(groups.len()) * GAP + quantity::length(count) * ROW + 12.0;
    let scale = Scale::new(0.0, upper_end(groups), LEFT, WIDTH - RIGHT);
    let mut drawing = Drawing::new(WIDTH, height);
    for tick in ticks(0.0, scale.span, 8) {
        let x = scale.at(tick);
        drawing.line("grid", (x, TOP), (x, height - 6.0));
        drawing.text("tick", Anchor::Middle, (x, TOP - 8.0), &tick_label(tick));
    }
    let mut y = TOP;
    for group in groups {
        drawing.text(
            "group",
            Anchor::Start,
            (4.0, y + 17.0),
            &shorten(&group.title, 60),
        );
        y += GAP;
        for bar in &group.bars {
            draw(&mut drawing, scale, y, bar);
            y += ROW;
        }
    }
    let ideal = scale.at(1.0);
    drawing.line("ideal", (ideal, TOP - 4.0), (ideal, height - 6.0));
    drawing.finish(title)
}

fn draw(drawing: &mut Drawing, scale: Scale, y: f64, bar: &Bar) {
    let middle = y + ROW / 2.0;
    drawing.text(
        "label",
        Anchor::End,
        (LEFT - 8.0, middle + 4.0),
        &shorten(&bar.label, 28),
    );
    let mut end = LEFT;
    if let Some(ratio) = bar.ratio {
        end = scale.at(ratio.median);
        let (at, size) = ((LEFT, y + 3.0), (end - LEFT, ROW - 6.0));
        drawing.bar(&bar.look.colour(), bar.failed > 0, at, size);
        if ratio.max > ratio.min {
            drawing.line(
                "whisker",
                (scale.at(ratio.min), middle),
                (scale.at(ratio.max), middle),
            );
            for edge in [ratio.min, ratio.max] {
                drawing.line(
                    "whisker",
                    (scale.at(edge), middle - 3.0),
                    (scale.at(edge), middle + 3.0),
                );
            }
            end = end.max(scale.at(ratio.max));
        }
    }
    let off_scale = bar.ratio.is_some_and(|ratio| ratio.median > scale.span);
    let mark = if off_scale { "» " } else { "" };
    drawing.text(
        "value",
        Anchor::Start,
        (end + 6.0, middle + 4.0),
        &format!("{mark}{}", bar.note),
    );
    if bar.failed > 0 {
        let words = format!("✗ {} failed", bar.failed);
        drawing.text("bad", Anchor::End, (WIDTH, middle + 4.0), &words);
    }
}

/// Returns the end of the scale: one very slow system must not compress the bars of the others.
fn upper_end(groups: &[BarGroup]) -> f64 {
    let values: Vec<f64> = groups
        .iter()
        .flat_map(|group| &group.bars)
        .filter_map(|bar| bar.ratio.map(|ratio| ratio.max))
        .collect();
    let greatest = values.iter().copied().fold(0.0, f64::max);
    let usual = quantile(&values, 0.75).unwrap_or(1.0) * 3.0;
    (greatest.min(usual) * 1.02).max(1.25)
}
