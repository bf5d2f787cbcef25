//! Introduction, failures and environment.
use std::collections::BTreeSet;

use maud::{Markup, html};

use super::Context;
use crate::{
    markup::{Cell, Column, Table, Tone, shorten},
    measurements::is_valid,
    quantity,
    results::Row,
};

/// Maximum number of listed failures; the counts in the tables are complete.
const MAX_FAILURES: usize = 60;

/// Returns the introduction: the measurements and their interpretation.
pub(crate) fn introduction(context: &Context<'_>) -> Markup {
    let rows = || context.files.iter().flat_map(|(_, results)| &results.rows);
    let names = |of: fn(&Row) -> &str| rows().map(of).collect::<BTreeSet<_>>().len();
    let bars: usize = context.files.iter().map(|(_, results)| results.bars.len()).sum();
    let curves: usize = context
        .files
        .iter()
        .map(|(_, results)| results.series.len())
        .sum();
    let failed = rows().filter(|row| !is_valid(row)).count();
    let tiles = [
        (context.measurements.rows, "page loads"),
        (names(|row| &row.page), "pages"),
        (names(|row| &row.link), "links"),
        (names(|row| &row.system), "systems"),
        (bars, "transport bars"),
        (curves, "transport curves"),
        (failed, "loads that failed"),
    ];
    html! {
        div class="tiles" {
            @for (figure, words) in tiles {
                div { b { (figure) } span { (words) } }
            }
        }
        @if rows().next().is_none() {
            p class="notice" { "No rows: these files contain no page loads." }
        }
        (how_to_read())
    }
}

fn how_to_read() -> Markup {
    html! {
        p {
            "The report shows how close page loads are to the ideal one-shot download, and how they compare with loads \
             without Longhaul. The " b { "ideal" } " sends one request and receives the page as one object, without \
             handshakes, headers or congestion control:"
        }
        p class="formula" { "T" sub { "ideal" } " = T" sub { "DNS" } " + RTT + 8 · S / R" }
        p {
            "RTT is the hop's and one of the Internet's; R is the link's raw rate; T" sub { "DNS" } " is 0 if a proxy is \
             configured. S has three sizes: " b { "raw" } ", bodies as the origin stores them; " b { "gzip" } ", text by \
             gzip\u{a0}-9 and images unchanged; " b { "lossy" } ", text by gzip\u{a0}-9 and images as delivered in this load, \
             so that the picture quality has no effect. " b { "1.00 is the ideal" } ", more is slower; only better \
             compression than that of S gives values below 1. The paper that defined the ideal took R from the FTP goodput, \
             2.7\u{a0}% less than the raw rate: the column “FTP goodput” shows this variant."
        }
        p {
            "Bytes are those of IP packets on the hop, including headers and handshakes; kB is 1000 bytes. A figure is the \
             median over the repetitions of a load, a figure over pages is the median (or geometric mean) of those medians. "
            b { "A load with a failed object is not valid" } ": it is excluded from every median, and its cell is marked ✗ \
            with the number of such loads; a page whose loads all failed is struck through and listed. Thereby no system \
            appears fast because it omitted something. Objects that do not exist at all (missing) are no failure."
        }
    }
}

/// Returns the list of failures, at the beginning of the report.
pub(crate) fn failures(context: &Context<'_>) -> Markup {
    let mut table = Table::new(
        "Loads that are excluded from the medians",
        &[
            ("link and condition", Column::Words),
            ("system", Column::Words),
            ("page", Column::Words),
            ("failed loads", Column::Numbers),
            ("failed objects", Column::Numbers),
            ("why", Column::Words),
        ],
    );
    let mut shown = 0;
    let mut total = 0;
    for (setting, systems) in &context.measurements.settings {
        for (variant, pages) in systems {
            for (page, loads) in pages.iter().filter(|(_, loads)| loads.failed() > 0) {
                total += 1;
                if shown == MAX_FAILURES {
                    continue;
                }
                shown += 1;
                let objects = loads
                    .rows
                    .iter()
                    .fold(0u64, |sum, row| sum.saturating_add(row.failed));
                table.row(
                    Tone::Failed,
                    &[
                        Cell::Head(setting.label()),
                        Cell::Text(variant.label()),
                        Cell::Text(shorten(page, 60)),
                        Cell::Number(format!("{} of {}", loads.failed(), loads.rows.len())),
                        Cell::Number(objects.to_string()),
                        Cell::Text(reasons(&loads.rows)),
                    ],
                );
            }
        }
    }
    if table.is_empty() {
        return html! {};
    }
    html! {
        (table.finish())
        @if total > shown {
            p { (total - shown) " further conditions with failed loads are not listed." }
        }
    }
}

/// Returns the first few different reasons.
fn reasons(rows: &[&Row]) -> String {
    let failed = rows.iter().filter(|row| !is_valid(row));
    let mut words: Vec<String> = Vec::new();
    for row in failed {
        let own: Vec<String> = if row.errors.is_empty() {
            vec![bare_reason(row)]
        } else {
            row.errors.clone()
        };
        for error in own {
            let error = shorten(&error, 120);
            if words.len() < 3 && !words.contains(&error) {
                words.push(error);
            }
        }
    }
    words.join("; ")
}

fn bare_reason(row: &Row) -> String {
    if row.failed > 0 {
        "objects failed, no reason given".to_owned()
    } else if row.objects == 0 {
        "no object was delivered".to_owned()
    } else {
        format!("invalid time: {}", quantity::number(row.time_s))
    }
}

/// Returns the environment of each file.
pub(crate) fn environment(context: &Context<'_>) -> Markup {
    let mut tables = Vec::new();
    for (name, results) in context.files {
        let environment = &results.environment;
        let mut table = Table::new(name, &[("what", Column::Words), ("value", Column::Words)]);
        let mut row = |what: &str, value: String| {
            let value = if value.is_empty() {
                "unknown".to_owned()
            } else {
                value
            };
            table.row(Tone::Plain, &[Cell::Head(what.to_owned()), Cell::Text(value)]);
        };
        row("date", environment.date.clone());
        row("commit of Longhaul", environment.commit.clone());
        row("seed", environment.seed.to_string());
        row("processor", environment.cpu.clone());
        row("kernel", environment.kernel.clone());
        for (program, version) in &environment.versions {
            row(program, version.clone());
        }
        row("page loads", results.rows.len().to_string());
        row(
            "transport bars and curves",
            format!("{} and {}", results.bars.len(), results.series.len()),
        );
        tables.push(table.finish());
    }
    html! {
        @for table in &tables { (table) }
    }
}
