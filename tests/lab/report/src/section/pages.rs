//! Results by page: bars relative to the ideal, a table of pages and systems, and all figures in collapsed
//! tables.
use maud::{Markup, html};

use super::{Context, idle::of_window};
use crate::{
    chart::{Bar, BarGroup, bar_chart},
    markup::{Cell, Column, Table, Text, Tone, shorten},
    measurements::{Ideal, Loads, Setting, Systems, Variant},
    moments::{self, MOMENTS},
    quantity::{self, NONE},
    results::Row,
    statistics::Spread,
};

pub(super) fn render(context: &Context<'_>) -> Markup {
    let settings = &context.measurements.settings;
    html! {
        @if !settings.is_empty() {
            (legend())
        }
        @for (setting, systems) in settings {
            @if setting.loss.share() > 0.0 {
                details {
                    summary { (Text(&setting.label())) } "\n"
                    (of_setting(context, setting, systems))
                }
                "\n"
            } @else {
                h3 { (Text(&setting.label())) } "\n"
                (of_setting(context, setting, systems))
            }
        }
    }
}

fn of_setting(context: &Context<'_>, setting: &Setting, systems: &Systems<'_>) -> Markup {
    let title = format!(
        "{}: load time divided by the ideal's, by page and system",
        setting.label()
    );
    html! {
        (bar_chart(&title, &groups(context, systems)))
        (matrix(setting, systems))
        details {
            summary { "All figures of these pages" } "\n"
            (every_figure(setting, systems))
        }
        "\n"
    }
}

fn legend() -> Markup {
    html! {
        p class="legend-text" {
            "Bars: load time × ideal (gzip); the dashed line is the ideal. Median over the repetitions, whiskers from the \
             fastest to the slowest load, » beyond the scale. Tables: median seconds, below it × ideal (gzip) and the minimum \
             and maximum in seconds, then the seconds until the first byte and the paints."
        }
    }
}

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

fn matrix(setting: &Setting, systems: &Systems<'_>) -> Markup {
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
                found.map_or_else(|| html! { (NONE) }, |(_, loads)| time_cell(loads)),
            ));
        }
        table.row(Tone::Plain, &cells);
    }
    table.finish()
}

fn time_cell(loads: &Loads<'_>) -> Markup {
    html! {
        @if let Some(time) = loads.time() {
            @let ratio = loads.ratio(Ideal::Gzip).map(|ratio| ratio.median);
            b { (quantity::number(time.median)) } br;
            small {
                (quantity::ratio_or_none(ratio)) " ×"
                @if time.count > 1 { " · " (range(time)) }
                br; (moments::words(loads))
            }
        } @else {
            s { (quantity::number(loads.rows.first().map_or(f64::NAN, |row| row.time_s))) }
        }
        @if loads.failed() > 0 {
            br; small class="bad" { "✗ " (loads.failed()) " of " (loads.rows.len()) " failed" }
        }
    }
}

fn range(spread: Spread) -> String {
    format!(
        "{}–{}",
        quantity::number(spread.min),
        quantity::number(spread.max)
    )
}

fn every_figure(setting: &Setting, systems: &Systems<'_>) -> Markup {
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
            MOMENTS[0].0,
            MOMENTS[1].0,
            MOMENTS[2].0,
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
            "forwarded",
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
        number(MOMENTS[0].1),
        number(MOMENTS[1].1),
        number(MOMENTS[2].1),
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
        number(|row| row.forwarded.map(quantity::count)),
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
