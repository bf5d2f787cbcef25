//! One table per link: every system relative to the ideal, over all pages.
use maud::{Markup, html};

use super::{Context, pages::useful_bytes, with_legend};
use crate::{
    aggregate::Aggregate,
    markup::{Cell, Column, Table, Tone, shorten},
    measurements::{Setting, Systems},
    moments::{self, MOMENTS},
    quantity::{self, NONE},
    results::Row,
    statistics::median as median_of,
};

pub(super) fn render(context: &Context<'_>) -> Markup {
    let mut links = Vec::new();
    for (link, settings) in context.measurements.by_link() {
        let line = link_line(&settings);
        let mut table = Table::new(
            &format!("{}: systems relative to the ideal, medians over pages", link.text),
            &[
                ("condition", Column::Words),
                ("system", Column::Words),
                ("pages", Column::Numbers),
                ("failed loads", Column::Numbers),
                ("× ideal (gzip)", Column::Numbers),
                ("quartiles", Column::Numbers),
                ("geom. mean", Column::Numbers),
                ("FTP good\u{ad}put", Column::Numbers),
                ("× ideal (lossy)", Column::Numbers),
                ("worst page", Column::Numbers),
                (MOMENTS[0].0, Column::Numbers),
                (MOMENTS[1].0, Column::Numbers),
                (MOMENTS[2].0, Column::Numbers),
                ("direct / this", Column::Numbers),
                ("down × ideal", Column::Numbers),
                ("up / down", Column::Numbers),
                ("queue p95, s", Column::Numbers),
                ("hop idle", Column::Numbers),
                ("push taken", Column::Numbers),
                ("agent CPU s", Column::Numbers),
                ("gateway CPU s", Column::Numbers),
            ],
        );
        for (setting, systems) in settings {
            add_rows(context, &mut table, setting, systems);
        }
        let part = html! { (line) (table.finish()) };
        links.push((link.text.clone(), part));
    }
    with_legend(&legend(), &links)
}

fn legend() -> Markup {
    html! {
        p class="legend-text" {
            "pages: pages with at least one valid load, of those that were measured with any system in this condition; a \
             system that lacks pages is marked, because its medians are over fewer pages. × ideal (gzip): the median over \
             pages; quartiles and geometric mean likewise. FTP goodput: median × ideal (gzip) with R reduced by 2.7\u{a0}%. \
             direct / this: geometric mean, over the pages that both loaded, of the time of " code { "direct" } " divided by \
             this system's; above 1 is faster than direct. first byte, first paint, largest paint: seconds, medians over \
             pages; the scripted browser does not paint. down × ideal: bytes on the hop towards the client divided by the \
             gzip ideal's. hop idle: share of the load in which the hop was idle while data was missing. push taken: share of \
             the pushed bytes that the browser used before it left the page."
        }
    }
}

fn link_line(settings: &[(&Setting, &Systems<'_>)]) -> Markup {
    let row = settings
        .iter()
        .flat_map(|(_, systems)| systems.values())
        .flat_map(|pages| pages.values())
        .find_map(|loads| loads.rows.first());
    html! {
        @if let Some(row) = row {
            p {
                (quantity::bit_rate(quantity::count(row.link_down_bps))) " towards the client, idle round trip "
                (quantity::number(row.link_rtt_s)) " s."
            }
            "\n"
        }
    }
}

fn add_rows(context: &Context<'_>, table: &mut Table, setting: &Setting, systems: &Systems<'_>) {
    let every_page: std::collections::BTreeSet<&String> =
        systems.values().flat_map(|pages| pages.keys()).collect();
    for (index, (variant, pages)) in systems.iter().enumerate() {
        let aggregate = Aggregate::of(pages, context.measurements.baseline(setting, variant));
        let mut cells = Vec::new();
        if index == 0 {
            cells.push(Cell::HeadOf(systems.len(), setting.conditions()));
        }
        cells.push(Cell::Head(variant.label()));
        cells.push(Cell::NumberMarkup(coverage(&aggregate, every_page.len())));
        cells.push(Cell::NumberMarkup(match aggregate.failed {
            0 => html! { "0" },
            failed => html! { span class="bad" { "✗ " (failed) " of " (aggregate.loads) } },
        }));
        let spread = aggregate.gzip;
        let median = quantity::ratio_or_none(spread.map(|spread| spread.median));
        cells.push(Cell::NumberMarkup(html! { b { (median) } }));
        let quartiles = spread.filter(|spread| spread.count > 1).map_or_else(
            || NONE.to_owned(),
            |spread| {
                format!(
                    "{}–{}",
                    quantity::ratio(spread.lower_quartile),
                    quantity::ratio(spread.upper_quartile)
                )
            },
        );
        cells.push(Cell::Number(quartiles));
        cells.push(Cell::Number(quantity::ratio_or_none(aggregate.geometric_mean)));
        cells.push(Cell::Number(quantity::ratio_or_none(aggregate.goodput)));
        cells.push(Cell::Number(quantity::ratio_or_none(aggregate.lossy)));
        let worst = aggregate.worst.as_ref().map_or_else(
            || NONE.to_owned(),
            |(page, ratio)| format!("{} {}", shorten(page, 24), quantity::ratio(*ratio)),
        );
        cells.push(Cell::Number(worst));
        cells.extend(MOMENTS.map(|(_, figure)| Cell::Number(moments::over_pages(pages, figure))));
        cells.push(Cell::Number(quantity::ratio_or_none(aggregate.gain)));
        cells.push(Cell::Number(quantity::ratio_or_none(aggregate.down)));
        cells.push(Cell::Number(quantity::percent_or_none(aggregate.up_share)));
        let median = |figure: fn(&Row) -> f64| aggregate.median(pages, figure);
        cells.push(Cell::Number(quantity::number_or_none(median(|row| {
            row.queue_p95_s
        }))));
        cells.push(Cell::Number(quantity::percent_or_none(median(|row| {
            row.hop_idle_while_missing
        }))));
        let taken = pages.values().filter_map(|loads| loads.median(useful_bytes));
        cells.push(Cell::Number(quantity::percent_or_none(median_of(
            &taken.collect::<Vec<_>>(),
        ))));
        cells.push(Cell::Number(quantity::number_or_none(median(|row| {
            row.cpu_agent_s
        }))));
        cells.push(Cell::Number(quantity::number_or_none(median(|row| {
            row.cpu_gateway_s
        }))));
        let tone = match (aggregate.failed, index) {
            (1.., _) => Tone::Failed,
            (0, 0) => Tone::Group,
            (0, _) => Tone::Plain,
        };
        table.row(tone, &cells);
    }
}

fn coverage(aggregate: &Aggregate, every: usize) -> Markup {
    html! {
        (aggregate.pages)
        @if aggregate.pages < every {
            span class="warn" { " of " (every) }
        }
    }
}
