//! The transport: its bars, its curves, and throughput against delay.
use std::collections::{BTreeMap, BTreeSet};

use super::Context;
use crate::{
    chart::{Join, Line, LineChart, Palette, series_values},
    markup::{Cell, Column, Table, Tone},
    measurements::Name,
    quantity,
    results::{Bar, Series, SeriesPoint},
    statistics::{mean, quantile},
};

pub(super) fn render(context: &Context<'_>) -> String {
    let bars: Vec<&Bar> = context
        .files
        .iter()
        .flat_map(|(_, results)| &results.bars)
        .collect();
    let series: Vec<&Series> = context
        .files
        .iter()
        .flat_map(|(_, results)| &results.series)
        .collect();
    let mut html = bar_table(&bars);
    let systems: BTreeSet<Name> = series.iter().map(|curve| Name::system(&curve.system)).collect();
    let palette = Palette::new(systems.into_iter().map(|system| system.text));
    let charts = scatters(&palette, &series) + &curves(&palette, &series);
    if !charts.is_empty() {
        html.push_str(&format!("<div class=\"charts\">{charts}</div>"));
    }
    html
}

/// The number that a bar's id begins with, then the id: `2 …` before `10 …`.
fn bar_order(bar: &Bar) -> (u32, String, Name, Name) {
    let digits: String = bar.id.chars().take_while(char::is_ascii_digit).collect();
    (
        digits.parse().unwrap_or(u32::MAX),
        bar.id.clone(),
        Name::link(&bar.link),
        Name::system(&bar.system),
    )
}

fn bar_table(bars: &[&Bar]) -> String {
    if bars.is_empty() {
        return String::new();
    }
    let met = bars.iter().filter(|bar| bar.met == Some(true)).count();
    let missed = bars.iter().filter(|bar| bar.met == Some(false)).count();
    let open = bars.len() - met - missed;
    let mut sorted = bars.to_vec();
    sorted.sort_by_key(|bar| bar_order(bar));
    let systems: BTreeSet<Name> = bars.iter().map(|bar| Name::system(&bar.system)).collect();
    let mut columns = vec![("bar", Column::Words), ("link", Column::Words)];
    columns.extend(
        systems
            .iter()
            .map(|system| (system.text.as_str(), Column::Numbers)),
    );
    columns.extend([("limit", Column::Numbers), ("met", Column::Words)]);
    let mut table = Table::new("Bars of the transport", &columns);
    for group in sorted.chunk_by(|left, right| left.id == right.id) {
        let links: Vec<_> = group.chunk_by(|left, right| left.link == right.link).collect();
        for (index, of_link) in links.iter().enumerate() {
            let mut cells = Vec::new();
            if index == 0 {
                cells.push(Cell::HeadOf(links.len(), group[0].id.clone()));
            }
            cells.push(Cell::Text(of_link[0].link.clone()));
            cells.extend(
                systems
                    .iter()
                    .map(|system| Cell::Number(values(of_link, &system.text))),
            );
            let limit = of_link.iter().find_map(|bar| bar.limit);
            cells.push(Cell::Number(quantity::number_or_none(limit)));
            cells.push(Cell::Markup(verdict(of_link).to_owned()));
            table.row(if index == 0 { Tone::Group } else { Tone::Plain }, &cells);
        }
    }
    format!(
        "<p>{met} met, {missed} missed, {open} without a limit.</p>{}",
        table.finish()
    )
}

/// A system's figures: one, or one of each file that has it.
fn values(bars: &[&Bar], system: &str) -> String {
    let of_system = bars.iter().filter(|bar| bar.system == system);
    let figures: Vec<_> = of_system.map(|bar| quantity::number(bar.value)).collect();
    if figures.is_empty() {
        return quantity::NONE.to_owned();
    }
    figures.join(" / ")
}

/// What the systems with a limit make of it: all must meet it.
fn verdict(bars: &[&Bar]) -> &'static str {
    let judged: Vec<bool> = bars.iter().filter_map(|bar| bar.met).collect();
    if judged.is_empty() {
        "<span class=\"open\">no limit</span>"
    } else if judged.iter().all(|met| *met) {
        "<span class=\"good\">✓ met</span>"
    } else {
        "<span class=\"bad\">✗ missed</span>"
    }
}

/// `goodput, bit/s` is the quantity `goodput` in bit/s.
fn quantity_of(what: &str) -> &str {
    what.rsplit_once(',')
        .map_or(what, |(quantity, _)| quantity)
        .trim()
}

fn curves(palette: &Palette, series: &[&Series]) -> String {
    let mut charts: BTreeMap<(Name, &str), Vec<&Series>> = BTreeMap::new();
    for curve in series {
        charts
            .entry((Name::link(&curve.link), &curve.what))
            .or_default()
            .push(curve);
    }
    let mut html = String::new();
    for ((link, what), mut members) in charts {
        members.sort_by_key(|curve| Name::system(&curve.system));
        let lines = members
            .into_iter()
            .map(|curve| Line {
                label: curve.system.clone(),
                look: palette.look(&curve.system),
                points: curve.points.clone(),
            })
            .collect();
        let chart = LineChart {
            title: format!("{}: {}", link.text, quantity_of(what)),
            x_axis: "time, s".to_owned(),
            y_axis: what.to_owned(),
            join: Join::Curve,
            lines,
        };
        html.push_str(&chart.draw());
    }
    html
}

/// What the curves of one system on one link say.
#[derive(Default)]
struct Flow {
    goodput: Vec<f64>,
    delay: Vec<f64>,
}

/// Mean goodput against the 95th percentile of the queueing delay: up and to the left is better.
fn scatters(palette: &Palette, series: &[&Series]) -> String {
    let mut links: BTreeMap<Name, BTreeMap<Name, Flow>> = BTreeMap::new();
    for curve in series {
        let quantity = quantity_of(&curve.what).to_lowercase();
        let systems = links.entry(Name::link(&curve.link)).or_default();
        let flow = systems.entry(Name::system(&curve.system)).or_default();
        let values = series_values(&curve.points);
        if curve.what.ends_with("bit/s") && (quantity.contains("goodput") || quantity.contains("throughput"))
        {
            flow.goodput.extend(values);
        } else if quantity.contains("delay") {
            flow.delay.extend(values);
        }
    }
    let mut html = String::new();
    for (link, systems) in links {
        let lines: Vec<Line> = systems
            .into_iter()
            .filter_map(|(system, flow)| {
                let point = SeriesPoint {
                    at: quantile(&flow.delay, 0.95)?,
                    value: mean(&flow.goodput)?,
                };
                Some(Line {
                    look: palette.look(&system.text),
                    label: system.text,
                    points: vec![point],
                })
            })
            .collect();
        let chart = LineChart {
            title: format!(
                "{}: goodput against queueing delay (up and left is better)",
                link.text
            ),
            x_axis: "95th percentile of the queueing delay, s".to_owned(),
            y_axis: "mean goodput, bit/s".to_owned(),
            join: Join::Scatter,
            lines,
        };
        html.push_str(&chart.draw());
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_sort_by_their_number() {
        let bar = |id: &str| Bar {
            id: id.to_owned(),
            ..Bar::default()
        };
        assert!(bar_order(&bar("2 trace")) < bar_order(&bar("10 priorities")));
        assert!(bar_order(&bar("10 priorities")) < bar_order(&bar("unnumbered")));
        assert_eq!(quantity_of("goodput, bit/s"), "goodput");
        assert_eq!(quantity_of("goodput"), "goodput");
    }

    #[test]
    fn nothing_is_said_of_no_bars() {
        assert_eq!(bar_table(&[]), "");
    }
}
