//! Results by page: bars relative to the ideal, a table of pages and systems, and all figures in collapsed
//! tables.
use super::{Context, idle::of_window};
use crate::{
    chart::{Bar, BarGroup, bar_chart},
    markup::{Cell, Column, Table, Tone, escape, shorten},
    measurements::{Ideal, Loads, Setting, Systems, Variant},
    quantity::{self, NONE},
    results::Row,
    statistics::Spread,
};

pub(super) fn render(context: &Context<'_>) -> String {
    let mut html = String::new();
    for (setting, systems) in &context.measurements.settings {
        let with_loss = setting.loss.share() > 0.0;
        if with_loss {
            html.push_str(&format!(
                "<details><summary>{}</summary>\n",
                escape(&setting.label())
            ));
        } else {
            html.push_str(&format!("<h3>{}</h3>\n", escape(&setting.label())));
        }
        html.push_str(&bar_chart(
            &format!(
                "{}: load time divided by the ideal's, by page and system",
                setting.label()
            ),
            &groups(context, systems),
        ));
        html.push_str(&matrix(setting, systems));
        html.push_str("<details><summary>All figures of these pages</summary>\n");
        html.push_str(&every_figure(setting, systems));
        html.push_str(if with_loss {
            "</details></details>\n"
        } else {
            "</details>\n"
        });
    }
    if !html.is_empty() {
        html.insert_str(0, LEGEND);
    }
    html
}

const LEGEND: &str = "<p class=\"legend-text\">Bars: load time × ideal (gzip); the dashed line is the ideal. \
Median over the repetitions, whiskers from the fastest to the slowest load, » beyond the scale. Tables: \
median seconds, below it × ideal (gzip) and the minimum and maximum in seconds.</p>";

/// Returns the pages of a setting in order, each with its loads by system.
fn by_page<'m>(
    systems: &'m Systems<'m>,
) -> std::collections::BTreeMap<&'m str, Vec<(&'m Variant, &'m Loads<'m>)>> {
    let mut pages: std::collections::BTreeMap<&str, Vec<(&Variant, &Loads<'_>)>> =
        std::collections::BTreeMap::new();
    for (variant, loads_by_page) in systems {
        for (page, loads) in loads_by_page {
            pages.entry(page).or_default().push((variant, loads));
        }
    }
    pages
}

fn groups(context: &Context<'_>, systems: &Systems<'_>) -> Vec<BarGroup> {
    by_page(systems)
        .into_iter()
        .map(|(page, systems)| BarGroup {
            title: page.to_owned(),
            bars: systems
                .into_iter()
                .map(|(variant, loads)| {
                    let ratio = loads.ratio(Ideal::Gzip);
                    let seconds = quantity::number_or_none(loads.time().map(|time| time.median));
                    let note = ratio.map_or_else(
                        || "no valid load".to_owned(),
                        |ratio| format!("{} × ({seconds} s)", quantity::ratio(ratio.median)),
                    );
                    let label = variant.label();
                    Bar {
                        look: context.palette.look(&label),
                        label,
                        ratio,
                        note,
                        failed: loads.failed(),
                    }
                })
                .collect(),
        })
        .collect()
}

fn matrix(setting: &Setting, systems: &Systems<'_>) -> String {
    let labels: Vec<String> = systems.keys().map(Variant::label).collect();
    let mut columns = vec![("page", Column::Words), ("ideal (gzip), s", Column::Numbers)];
    columns.extend(labels.iter().map(|label| (label.as_str(), Column::Numbers)));
    let mut table = Table::new(&format!("{}: seconds to load", setting.label()), &columns);
    for (page, loads) in by_page(systems) {
        let ideal = loads
            .iter()
            .find_map(|(_, loads)| loads.spread(|row| Some(row.ideal_gzip_s)));
        let mut cells = vec![
            Cell::Head(shorten(page, 60)),
            Cell::Number(quantity::number_or_none(ideal.map(|ideal| ideal.median))),
        ];
        for variant in systems.keys() {
            let found = loads.iter().find(|(candidate, _)| *candidate == variant);
            cells.push(Cell::NumberMarkup(
                found.map_or_else(|| NONE.to_owned(), |(_, loads)| time_cell(loads)),
            ));
        }
        table.row(Tone::Plain, &cells);
    }
    table.finish()
}

fn time_cell(loads: &Loads<'_>) -> String {
    let mut html = match (loads.time(), loads.ratio(Ideal::Gzip)) {
        (Some(time), ratio) => {
            let range = if time.count > 1 {
                format!(" · {}", range(time))
            } else {
                String::new()
            };
            format!(
                "<b>{}</b><br><small>{} ×{range}</small>",
                quantity::number(time.median),
                quantity::ratio_or_none(ratio.map(|ratio| ratio.median))
            )
        }
        (None, _) => {
            let struck = loads.rows.first().map_or(f64::NAN, |row| row.time_s);
            format!("<s>{}</s>", quantity::number(struck))
        }
    };
    if loads.failed() > 0 {
        html.push_str(&format!(
            "<br><small class=\"bad\">✗ {} of {} failed</small>",
            loads.failed(),
            loads.rows.len()
        ));
    }
    html
}

fn range(spread: Spread) -> String {
    format!(
        "{}–{}",
        quantity::number(spread.min),
        quantity::number(spread.max)
    )
}

fn every_figure(setting: &Setting, systems: &Systems<'_>) -> String {
    let number = |title| (title, Column::Numbers);
    let mut columns = vec![("page", Column::Words), ("system", Column::Words)];
    columns.extend(
        [
            "loads",
            "s",
            "min–max",
            "× raw",
            "× gzip",
            "× lossy",
            "first paint s",
            "largest paint s",
            "down",
            "up",
            "origin",
            "objects",
            "missing",
            "connections",
            "DNS",
            "PF",
            "hop idle",
            "hop idle of all",
            "idle after first byte",
            "of it origin",
            "gateway",
            "request",
            "idle without origin",
            "objects over http",
            "bytes over http",
            "queue p95 s",
            "pushed",
            "push taken",
            "of objects",
            "push wasted",
            "cache hits",
            "CPU s agent",
            "CPU s gateway",
            "memory agent",
            "memory gateway",
        ]
        .map(number),
    );
    let mut table = Table::new(&format!("{}: all figures, medians", setting.label()), &columns);
    for (page, loads_by_system) in by_page(systems) {
        let rows = loads_by_system.len();
        for (index, (variant, loads)) in loads_by_system.into_iter().enumerate() {
            let mut cells = Vec::new();
            if index == 0 {
                cells.push(Cell::HeadOf(rows, shorten(page, 60)));
            }
            cells.push(Cell::Head(variant.label()));
            cells.extend(figures(loads).into_iter().map(Cell::Number));
            let tone = match (loads.failed(), index) {
                (1.., _) => Tone::Failed,
                (0, 0) => Tone::Group,
                (0, _) => Tone::Plain,
            };
            table.row(tone, &cells);
        }
    }
    table.finish()
}

fn figures(loads: &Loads<'_>) -> Vec<String> {
    let number = |figure: fn(&Row) -> Option<f64>| quantity::number_or_none(loads.median(figure));
    let bytes = |figure: fn(&Row) -> u64| {
        quantity::bytes_or_none(loads.median(|row| Some(quantity::count(figure(row)))))
    };
    let counted_bytes = |figure: fn(&Row) -> Option<u64>| {
        quantity::bytes_or_none(loads.median(|row| figure(row).map(quantity::count)))
    };
    let count = |figure: fn(&Row) -> u64| {
        quantity::number_or_none(loads.median(|row| Some(quantity::count(figure(row)))))
    };
    let percent = |figure: fn(&Row) -> Option<f64>| quantity::percent_or_none(loads.median(figure));
    let ratio = |ideal: Ideal| quantity::ratio_or_none(loads.ratio(ideal).map(|ratio| ratio.median));
    let counted = match loads.failed() {
        0 => loads.rows.len().to_string(),
        failed => format!("{} (✗ {failed})", loads.rows.len()),
    };
    vec![
        counted,
        number(|row| Some(row.time_s)),
        loads.time().map_or_else(|| NONE.to_owned(), range),
        ratio(Ideal::Raw),
        ratio(Ideal::Gzip),
        ratio(Ideal::Lossy),
        number(|row| row.first_paint_s),
        number(|row| row.largest_paint_s),
        bytes(|row| row.bytes_down),
        bytes(|row| row.bytes_up),
        bytes(|row| row.origin_bytes),
        count(|row| row.objects),
        count(|row| row.missing),
        count(|row| row.connections),
        count(|row| row.dns_lookups),
        number(|row| row.pipelining_factor),
        quantity::percent_or_none(loads.median(|row| Some(row.hop_idle_while_missing))),
        percent(|row| row.hop_idle_share),
        percent(|row| row.hop_idle_after_first_byte),
        percent(|row| of_window(row, row.hop_idle_origin_s)),
        percent(|row| of_window(row, row.hop_idle_gateway_s)),
        percent(|row| of_window(row, row.hop_idle_request_s)),
        percent(|row| row.hop_idle_without_origin),
        percent(|row| over_http(row.http_objects, row.objects)),
        percent(|row| over_http(row.http_bytes, row.body_bytes)),
        number(|row| Some(row.queue_p95_s)),
        counted_bytes(|row| row.pushed_bytes),
        quantity::percent_or_none(loads.median(useful_bytes)),
        quantity::percent_or_none(loads.median(useful_objects)),
        bytes(|row| row.push_wasted_bytes),
        number(|row| row.cache_hits.map(quantity::count)),
        number(|row| Some(row.cpu_agent_s)),
        number(|row| Some(row.cpu_gateway_s)),
        counted_bytes(|row| row.rss_agent_bytes),
        counted_bytes(|row| row.rss_gateway_bytes),
    ]
}

/// Returns the share of the delivered objects or bytes that came over http; `None` for rows of an older
/// command.
fn over_http(part: u64, all: u64) -> Option<f64> {
    quantity::quotient(quantity::count(part), quantity::count(all))
}

/// Returns the share of the pushed bytes that the browser used.
pub(super) fn useful_bytes(row: &Row) -> Option<f64> {
    let (taken, pushed) = (row.push_taken_bytes?, row.pushed_bytes?);
    quantity::quotient(quantity::count(taken), quantity::count(pushed))
}

/// Returns the share of the pushed objects that the browser used.
pub(super) fn useful_objects(row: &Row) -> Option<f64> {
    let (taken, pushed) = (row.push_taken_objects?, row.pushed_objects?);
    quantity::quotient(quantity::count(taken), quantity::count(pushed))
}
