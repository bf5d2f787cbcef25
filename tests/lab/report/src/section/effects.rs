//! Effects described in the papers, measured again: pipelining and connections, a full queue, loss in the
//! Internet, and the results of current systems on the static page.
use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::{Context, current_systems};
use crate::{
    chart::{Join, Line, LineChart},
    comparison::{improvement, page_time},
    markup::{Cell, Column, Table, Tone},
    measurements::{Pages, Setting, Systems, Variant, is_valid},
    papers::{self, StudySite},
    quantity::{self, NONE},
    results::SeriesPoint,
    statistics::{mean, median},
};

pub(super) fn render(context: &Context<'_>) -> Markup {
    let effects = [
        (
            "Pipelining and six connections (WWAN-STUDY Tables 6 and 9)",
            connections(context),
        ),
        ("The queue that a download fills (GPRS-WWW)", bulk_queue(context)),
        ("Loss in the Internet (UMTS-PROXY)", internet_loss(context)),
        (
            "Current systems on the static page",
            current_systems::render(context),
        ),
    ];
    html! {
        @for (title, body) in &effects {
            @if !body.0.is_empty() {
                h3 { (title) } "\n"
                (body)
            }
        }
    }
}

/// Returns the queueing delay during a download that fills the hop: the bars of the transport's bulk
/// transfers.
fn bulk_queue(context: &Context<'_>) -> Markup {
    let mut delays: BTreeMap<(&str, &str), [Option<f64>; 2]> = BTreeMap::new();
    for bar in context.files.iter().flat_map(|(_, results)| &results.bars) {
        let column = match bar.id.as_str() {
            "1 bulk queue p50 (s)" => 0,
            "1 bulk queue p95 (s)" => 1,
            _ => continue,
        };
        delays.entry((&bar.link, &bar.system)).or_default()[column] = Some(bar.value);
    }
    if delays.is_empty() {
        return html! {};
    }
    let mut table = Table::new(
        "Queueing delay of packets towards the client in a bulk download",
        &[
            ("link", Column::Words),
            ("system", Column::Words),
            ("median, s", Column::Numbers),
            ("p95, s", Column::Numbers),
        ],
    );
    for ((link, system), columns) in delays {
        let mut cells = vec![Cell::Head(link.to_owned()), Cell::Text(system.to_owned())];
        let figures = columns.map(|delay| delay.map_or_else(|| NONE.to_owned(), quantity::number));
        cells.extend(figures.map(Cell::Number));
        table.row(Tone::Plain, &cells);
    }
    html! {
        (table.finish())
        p class="legend-text" {
            "GPRS-WWW found 15 to 30 s of queueing delay on GPRS behind one TCP download with a window of 64 KB, so that a \
             second connection timed out twice on its SYN."
        }
    }
}

fn pages_of<'m>(systems: &'m Systems<'m>, system: &str) -> Option<&'m Pages<'m>> {
    systems
        .iter()
        .find(|(variant, _)| variant.system.text == system)
        .map(|(_, pages)| pages)
}

fn connections(context: &Context<'_>) -> Markup {
    let mut tables = Vec::new();
    for (setting, systems) in &context.measurements.settings {
        let variants = ["direct-pipelined", "direct-6", "longhaul"].map(|system| pages_of(systems, system));
        let Some(baseline) = pages_of(systems, "direct") else {
            continue;
        };
        // The paper's figures are for GPRS without loss, and are not comparable with other settings.
        let comparable = setting.loader.text == "model"
            && setting.link.text.starts_with("gprs")
            && setting.state.text == "cold"
            && setting.is_plain();
        if !comparable || variants.iter().all(Option::is_none) {
            continue;
        }
        let longhaul = systems.keys().find(|variant| variant.system.text == "longhaul");
        let longhaul = longhaul.map_or_else(|| "longhaul".to_owned(), Variant::label);
        let mut table = Table::new(
            &format!(
                "{}: seconds, and improvement over two connections; with the paper's GPRS figures",
                setting.label()
            ),
            &[
                ("page", Column::Words),
                ("2 connections", Column::Numbers),
                ("paper", Column::Numbers),
                ("pipelining", Column::Numbers),
                ("paper", Column::Numbers),
                ("6 connections", Column::Numbers),
                ("paper", Column::Numbers),
                (&longhaul, Column::Numbers),
                ("paper: dual proxy, everything", Column::Numbers),
            ],
        );
        for site in papers::STUDY_SITES {
            let Some(two) = page_time(baseline, site.page) else {
                continue;
            };
            let measured = variants.map(|pages| pages.and_then(|pages| page_time(pages, site.page)));
            table.row(Tone::Plain, &study_row(site, two, measured));
        }
        if !table.is_empty() {
            tables.push(table.finish());
        }
    }
    html! {
        @for table in &tables { (table) }
    }
}

fn study_row(site: &StudySite, two: f64, measured: [Option<f64>; 3]) -> Vec<Cell> {
    let with_gain = |seconds: f64, base: f64| {
        let gain = improvement(base, seconds).map_or_else(|| NONE.to_owned(), quantity::percent);
        format!("{} ({gain})", quantity::number(seconds))
    };
    let own =
        |seconds: Option<f64>| seconds.map_or_else(|| NONE.to_owned(), |seconds| with_gain(seconds, two));
    vec![
        Cell::Head(site.page.to_owned()),
        Cell::Number(quantity::number(two)),
        Cell::Number(quantity::number(site.two_connections)),
        Cell::Number(own(measured[0])),
        Cell::Number(with_gain(site.pipelining, site.two_connections)),
        Cell::Number(own(measured[1])),
        Cell::Number(with_gain(site.six_connections, site.two_connections)),
        Cell::Number(own(measured[2])),
        Cell::Number(with_gain(site.dual_proxy, site.two_connections)),
    ]
}

/// Link, loader, state and unusual conditions: the properties that stay the same when the loss changes.
type LossGroup = (String, String, String, String);

fn internet_loss(context: &Context<'_>) -> Markup {
    let mut groups: BTreeMap<LossGroup, Vec<(&Setting, &Systems<'_>)>> = BTreeMap::new();
    for (setting, systems) in &context.measurements.settings {
        let key = (
            setting.link.text.clone(),
            setting.loader.text.clone(),
            setting.state.text.clone(),
            setting.unusual.clone(),
        );
        groups.entry(key).or_default().push((setting, systems));
    }
    let mut charts = Vec::new();
    for ((link, loader, state, unusual), settings) in
        groups.into_iter().filter(|(_, settings)| settings.len() > 1)
    {
        let pages = common_pages(&settings);
        let over = pages.iter().copied().cloned().collect::<Vec<_>>().join(", ");
        if pages.is_empty() {
            continue;
        }
        let unusual = if unusual.is_empty() {
            unusual
        } else {
            format!(", {unusual}")
        };
        for (name, statistic) in [("mean", mean as fn(&[f64]) -> Option<f64>), ("median", median)] {
            let chart = LineChart {
                title: format!(
                    "{link}, {loader}, {state}{unusual}: {name} load time of {over} over the Internet's loss"
                ),
                x_axis: "packets lost in the Internet, %".to_owned(),
                y_axis: format!("{name} load time, s"),
                join: Join::Marked,
                lines: loss_lines(context, &settings, &pages, statistic),
            };
            charts.push(chart.draw());
        }
    }
    charts.retain(|chart| !chart.0.is_empty());
    html! {
        @if !charts.is_empty() {
            div class="charts" {
                @for chart in &charts { (chart) }
            }
            (umts_proxy_table())
        }
    }
}

/// Returns the systems that were measured at several loss ratios.
fn varied<'m>(settings: &[(&Setting, &'m Systems<'m>)]) -> BTreeSet<&'m Variant> {
    let all = settings.iter().flat_map(|(_, systems)| systems.keys());
    all.filter(|variant| {
        settings
            .iter()
            .filter(|(_, systems)| systems.contains_key(*variant))
            .count()
            > 1
    })
    .collect()
}

/// Returns the pages that each of those systems loaded at each of its loss ratios: a curve must not change
/// because of other pages.
fn common_pages<'m>(settings: &[(&Setting, &'m Systems<'m>)]) -> BTreeSet<&'m String> {
    let variants = varied(settings);
    let mut common: Option<BTreeSet<&String>> = None;
    for (_, systems) in settings {
        for (_, pages) in systems.iter().filter(|(variant, _)| variants.contains(variant)) {
            let valid: BTreeSet<&String> = pages
                .iter()
                .filter(|(_, loads)| loads.time().is_some())
                .map(|(page, _)| page)
                .collect();
            common = Some(match common {
                Some(before) => before.intersection(&valid).copied().collect(),
                None => valid,
            });
        }
    }
    common.unwrap_or_default()
}

fn loss_lines(
    context: &Context<'_>,
    settings: &[(&Setting, &Systems<'_>)],
    common: &BTreeSet<&String>,
    statistic: fn(&[f64]) -> Option<f64>,
) -> Vec<Line> {
    let variants = varied(settings);
    let mut lines: BTreeMap<&Variant, Vec<SeriesPoint>> = BTreeMap::new();
    for (setting, systems) in settings {
        for (variant, pages) in systems.iter().filter(|(variant, _)| variants.contains(variant)) {
            let loads = pages.iter().filter(|(page, _)| common.contains(page));
            let rows = loads.flat_map(|(_, loads)| &loads.rows);
            let times: Vec<f64> = rows.filter(|row| is_valid(row)).map(|row| row.time_s).collect();
            if let Some(value) = statistic(&times) {
                let point = SeriesPoint {
                    at: setting.loss.share() * 100.0,
                    value,
                };
                lines.entry(variant).or_default().push(point);
            }
        }
    }
    lines
        .into_iter()
        .map(|(variant, points)| {
            let label = variant.label();
            Line {
                look: context.palette.look(&label),
                label,
                points,
            }
        })
        .collect()
}

fn umts_proxy_table() -> Markup {
    let mut table = Table::new(
        "UMTS-PROXY Table 1: seconds, persistent connections, no loss in the Internet",
        &[
            ("system", Column::Words),
            ("mean", Column::Numbers),
            ("median", Column::Numbers),
            ("mean, pipelined", Column::Numbers),
            ("median, pipelined", Column::Numbers),
        ],
    );
    for loads in papers::UMTS_PROXY {
        let mut cells = vec![Cell::Head(loads.system.to_owned())];
        cells.extend(
            [
                loads.mean,
                loads.median,
                loads.mean_pipelined,
                loads.median_pipelined,
            ]
            .map(|seconds| Cell::Number(format!("{seconds:.2}"))),
        );
        table.row(Tone::Plain, &cells);
    }
    html! {
        p { (papers::UMTS_PROXY_LOSS) }
        (table.finish())
    }
}
