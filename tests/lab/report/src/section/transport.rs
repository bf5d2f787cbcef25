//! The transport: its bars, its curves, and throughput versus delay.
use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::Context;
use crate::{
    bars::{self, BarGroup, Figures},
    chart::{Join, Line, LineChart, Palette, series_values},
    markup::{Cell, Column, Table, Tone},
    measurements::Name,
    quantity,
    results::{Bar, Series, SeriesPoint},
    statistics::{mean, quantile},
};

pub(super) fn render(context: &Context<'_>) -> Markup {
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
    let systems: BTreeSet<Name> = series.iter().map(|curve| Name::system(&curve.system)).collect();
    let palette = Palette::new(systems.into_iter().map(|system| system.text));
    let mut charts = scatters(&palette, &series);
    charts.extend(curves(&palette, &series));
    charts.retain(|chart| !chart.0.is_empty());
    html! {
        (bar_table(&bars))
        @if !charts.is_empty() {
            div class="charts" {
                @for chart in &charts { (chart) }
            }
        }
    }
}

fn bar_table(bars: &[&Bar]) -> Markup {
    if bars.is_empty() {
        return html! {};
    }
    let groups = bars::groups(bars.iter().copied());
    let systems = bars::systems(&groups);
    let mut columns = vec![("bar", Column::Words), ("link", Column::Words)];
    columns.extend(
        systems
            .iter()
            .map(|system| (system.text.as_str(), Column::Numbers)),
    );
    columns.extend([("limit", Column::Numbers), ("met", Column::Words)]);
    let mut table = Table::new("Bars of the transport", &columns);
    for of_id in groups.chunk_by(|left, right| left.id == right.id) {
        for (index, group) in of_id.iter().enumerate() {
            let mut cells = Vec::new();
            if index == 0 {
                cells.push(Cell::HeadOf(of_id.len(), group.id.clone()));
            }
            cells.push(Cell::Text(group.link.text.clone()));
            cells.extend(systems.iter().map(|system| {
                let figures = group.systems.get(system);
                Cell::Number(figures.map_or_else(|| quantity::NONE.to_owned(), Figures::text))
            }));
            cells.push(Cell::Number(quantity::number_or_none(group.limit())));
            cells.push(Cell::Markup(verdict(group)));
            table.row(if index == 0 { Tone::Group } else { Tone::Plain }, &cells);
        }
    }
    let judged = |wanted: fn((usize, usize)) -> bool| {
        let verdicts = groups.iter().filter_map(BarGroup::met);
        verdicts.filter(|verdict| wanted(*verdict)).count()
    };
    let met = judged(|(met, of)| met == of);
    let missed = judged(|(met, of)| met < of);
    let open = groups.len() - met - missed;
    html! {
        p { (met) " met, " (missed) " missed in at least one repetition, " (open) " without a limit." }
        (table.finish())
    }
}

/// Returns the number of repetitions that met the limit, in words.
fn verdict(group: &BarGroup) -> Markup {
    match group.met() {
        None => html! { span class="open" { "no limit" } },
        Some((met, of)) if met == of => html! { span class="good" { "✓ met" } },
        Some((0, _)) => html! { span class="bad" { "✗ missed" } },
        Some((met, of)) => html! { span class="bad" { "✗ met " (met) " of " (of) } },
    }
}

/// Returns the quantity without its unit: `goodput` for `goodput, bit/s`.
fn quantity_of(what: &str) -> &str {
    what.rsplit_once(',')
        .map_or(what, |(quantity, _)| quantity)
        .trim()
}

fn curves(palette: &Palette, series: &[&Series]) -> Vec<Markup> {
    let mut charts: BTreeMap<(Name, &str), Vec<&Series>> = BTreeMap::new();
    for curve in series {
        charts
            .entry((Name::link(&curve.link), &curve.what))
            .or_default()
            .push(curve);
    }
    let mut drawn = Vec::new();
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
        drawn.push(chart.draw());
    }
    drawn
}

/// Curves of one system on one link.
#[derive(Default)]
struct Flow {
    goodput: Vec<f64>,
    delay: Vec<f64>,
}

/// Mean goodput versus the 95th percentile of the queueing delay: higher and further left is better.
fn scatters(palette: &Palette, series: &[&Series]) -> Vec<Markup> {
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
    let mut drawn = Vec::new();
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
                "{}: goodput versus queueing delay (higher and further left is better)",
                link.text
            ),
            x_axis: "95th percentile of the queueing delay, s".to_owned(),
            y_axis: "mean goodput, bit/s".to_owned(),
            join: Join::Scatter,
            lines,
        };
        drawn.push(chart.draw());
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantity_of_removes_the_unit() {
        assert_eq!(quantity_of("goodput, bit/s"), "goodput");
        assert_eq!(quantity_of("goodput"), "goodput");
    }

    #[test]
    fn no_bars_render_nothing() {
        assert_eq!(bar_table(&[]).into_string(), "");
    }
}
