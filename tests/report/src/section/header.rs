//! Introduction, failures and environment.
use std::collections::BTreeSet;

use super::Context;
use crate::{
    markup::{Cell, Column, Table, Tone, escape, shorten},
    measurements::is_valid,
    quantity,
    results::Row,
};

/// Maximum number of listed failures; the counts in the tables are complete.
const MAX_FAILURES: usize = 60;

/// Returns the introduction: the measurements and their interpretation.
pub(crate) fn introduction(context: &Context<'_>) -> String {
    let rows = || context.files.iter().flat_map(|(_, results)| &results.rows);
    let names = |of: fn(&Row) -> &str| rows().map(of).collect::<BTreeSet<_>>().len();
    let bars: usize = context.files.iter().map(|(_, results)| results.bars.len()).sum();
    let curves: usize = context
        .files
        .iter()
        .map(|(_, results)| results.series.len())
        .sum();
    let failed = rows().filter(|row| !is_valid(row)).count();
    let mut html = String::from("<div class=\"tiles\">");
    let mut tile = |figure: String, words: &str| {
        html.push_str(&format!(
            "<div><b>{}</b><span>{}</span></div>",
            escape(&figure),
            escape(words)
        ));
    };
    tile(context.measurements.rows.to_string(), "page loads");
    tile(names(|row| &row.page).to_string(), "pages");
    tile(names(|row| &row.link).to_string(), "links");
    tile(names(|row| &row.system).to_string(), "systems");
    tile(bars.to_string(), "transport bars");
    tile(curves.to_string(), "transport curves");
    tile(failed.to_string(), "loads that failed");
    html.push_str("</div>");
    if rows().next().is_none() {
        html.push_str("<p class=\"notice\">No rows: these files contain no page loads.</p>");
    }
    html.push_str(HOW_TO_READ);
    html
}

const HOW_TO_READ: &str = "<p>The report shows how close page loads are to the ideal one-shot download, and \
how they compare with loads without Longhaul. The <b>ideal</b> sends one request and receives the page as \
one object, without handshakes, headers or congestion control:</p><p class=\"formula\">T<sub>ideal</sub> = \
T<sub>DNS</sub> + RTT + 8 · S / R</p><p>RTT is the hop's and one of the Internet's; R is the link's raw \
rate; T<sub>DNS</sub> is 0 if a proxy is configured. S has three sizes: <b>raw</b>, bodies as the origin \
stores them; <b>gzip</b>, text by gzip&nbsp;-9 and images unchanged; <b>lossy</b>, text by gzip&nbsp;-9 and \
images as delivered in this load, so that the picture quality has no effect. <b>1.00 is the ideal</b>, more \
is slower; only better compression than that of S gives values below 1. The paper that defined the ideal \
took R from the FTP goodput, 2.7&nbsp;% less than the raw rate: the column “FTP goodput” shows this \
variant.</p><p>Bytes are those of IP packets on the hop, including headers and handshakes; kB is 1000 bytes. \
A figure is the median over the repetitions of a load, a figure over pages is the median (or geometric mean) \
of those medians. <b>A load with a failed object is not valid</b>: it is excluded from every median, and its \
cell is marked ✗ with the number of such loads; a page whose loads all failed is struck through and listed. \
Thereby no system appears fast because it omitted something. Objects that do not exist at all (missing) are \
no failure.</p>";

/// Returns the list of failures, at the beginning of the report.
pub(crate) fn failures(context: &Context<'_>) -> String {
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
        return String::new();
    }
    let mut html = table.finish();
    if total > shown {
        html.push_str(&format!(
            "<p>{} further conditions with failed loads are not listed.</p>",
            total - shown
        ));
    }
    html
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
pub(crate) fn environment(context: &Context<'_>) -> String {
    let mut html = String::new();
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
        html.push_str(&table.finish());
    }
    html
}
