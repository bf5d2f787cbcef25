//! Horizontal bars in pairs: a paper's figure above today's.
use maud::{Markup, PreEscaped, html};

use super::{Anchor, Drawing, Scale, tick_label, ticks, traces};
use crate::{markup::shorten, quantity};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 80.0;
const BAR: f64 = 10.0;
const ROW: f64 = 2.0 * BAR + 7.0;
const GAP: f64 = 24.0;
const TOP: f64 = 50.0;
/// Colour of the papers' bars.
const PAPER: &str = "var(--s6)";
/// Colour of today's bars.
const TODAY: &str = "var(--s0)";

/// A figure of a paper and today's.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) label: String,
    pub(crate) paper: Option<f64>,
    pub(crate) today: Option<f64>,
}

/// Pairs with a common heading.
#[derive(Clone, Debug)]
pub(crate) struct PairGroup {
    pub(crate) title: String,
    pub(crate) pairs: Vec<Pair>,
}

/// Draws the groups on one scale; `unit` is that of all figures. Nothing without a figure of today.
pub(crate) fn paired_chart(title: &str, unit: &str, groups: &[PairGroup]) -> Markup {
    drawing(unit, groups).map_or_else(|| html! {}, |drawing| drawing.finish(title))
}

/// The same as a file of its own.
pub(crate) fn paired_file(title: &str, unit: &str, groups: &[PairGroup]) -> Markup {
    let Some(mut drawing) = drawing(unit, groups) else {
        return html! {};
    };
    let mut background = Drawing::new(drawing.width, drawing.height);
    background.push(&html! { style { (PreEscaped(traces::STYLE)) } });
    background.rect("page", (0.0, 0.0), (drawing.width, drawing.height));
    background.text("group", Anchor::Start, (4.0, 14.0), title);
    background.body.push_str(&drawing.body);
    drawing.body = background.body;
    drawing.finish_alone(title)
}

fn drawing(unit: &str, groups: &[PairGroup]) -> Option<Drawing> {
    let pairs = groups.iter().flat_map(|group| &group.pairs);
    let figures = pairs.flat_map(|pair| [pair.paper, pair.today]).flatten();
    let greatest = figures.filter(|figure| figure.is_finite()).fold(0.0, f64::max);
    let has_today = groups
        .iter()
        .flat_map(|group| &group.pairs)
        .any(|pair| pair.today.is_some());
    if greatest <= 0.0 || !has_today {
        return None;
    }
    let count: usize = groups.iter().map(|group| group.pairs.len()).sum();
    let height = TOP + quantity::length(groups.len()) * GAP + quantity::length(count) * ROW + 10.0;
    let scale = Scale::new(0.0, greatest, LEFT, WIDTH - RIGHT);
    let mut drawing = Drawing::new(WIDTH, height);
    for tick in ticks(0.0, greatest, 8) {
        let x = scale.at(tick);
        drawing.line("grid", (x, TOP), (x, height - 6.0));
        drawing.text("tick", Anchor::Middle, (x, TOP - 8.0), &tick_label(tick));
    }
    for (x, colour, words) in [
        (LEFT, PAPER, format!("the paper, {unit}")),
        (LEFT + 260.0, TODAY, format!("today, {unit}")),
    ] {
        drawing.bar(colour, false, (x, 21.0), (18.0, BAR));
        drawing.text("label", Anchor::Start, (x + 24.0, 30.0), &words);
    }
    let mut y = TOP;
    for group in groups {
        drawing.text(
            "group",
            Anchor::Start,
            (4.0, y + 17.0),
            &shorten(&group.title, 90),
        );
        y += GAP;
        for pair in &group.pairs {
            let middle = y + BAR;
            let label = shorten(&pair.label, 42);
            drawing.text("label", Anchor::End, (LEFT - 8.0, middle + 4.0), &label);
            for (figure, colour, y) in [(pair.paper, PAPER, y), (pair.today, TODAY, y + BAR)] {
                let Some(figure) = figure else { continue };
                let end = scale.at(figure);
                drawing.bar(colour, false, (LEFT, y + 0.5), (end - LEFT, BAR - 1.0));
                drawing.text(
                    "size",
                    Anchor::Start,
                    (end + 5.0, y + BAR - 1.0),
                    &quantity::number(figure),
                );
            }
            y += ROW;
        }
    }
    Some(drawing)
}
