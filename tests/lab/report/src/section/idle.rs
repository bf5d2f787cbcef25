//! Causes of the hop's idle time between the first byte of a page and its last one.
use maud::{Markup, html};

use super::{Context, with_legend};
use crate::{
    markup::{Cell, Column, Table, Tone},
    measurements::{Pages, Setting, Systems},
    quantity,
    results::Row,
    statistics::median,
};

pub(super) fn render(context: &Context<'_>) -> Markup {
    let mut tables = Vec::new();
    for (link, settings) in context.measurements.by_link() {
        let with_data: Vec<_> = settings
            .into_iter()
            .filter(|(_, systems)| systems.values().any(has_idle_data))
            .collect();
        if !with_data.is_empty() {
            tables.push((link.text.clone(), table(&link.text, &with_data)));
        }
    }
    with_legend(&legend(), &tables)
}

fn legend() -> Markup {
    html! {
        p class="legend-text" {
            "Between the first and the last byte of the page on the hop, medians over pages; shares are of that time. \
             origin: data was in transit between gateway and origins, and the gateway held no data that the browser had \
             requested. gateway: the gateway held data that the browser had requested, so its transport or the gateway \
             itself left the hop idle. request: the browser had not requested the missing data; this includes pushed \
             objects that it has not requested yet. idle without origin: idle time without the time in which the hop waited \
             for origins, in numerator and denominator. The definition is in BENCHMARKING.md."
        }
    }
}

fn has_idle_data(pages: &Pages<'_>) -> bool {
    let mut rows = pages.values().flat_map(|loads| loads.valid());
    rows.any(|row| row.hop_idle_after_first_byte.is_some())
}

fn table(link: &str, settings: &[(&Setting, &Systems<'_>)]) -> Markup {
    let mut columns = vec![("condition", Column::Words), ("system", Column::Words)];
    columns.extend(
        [
            "pages",
            "first to last byte, s",
            "idle",
            "origin",
            "gateway",
            "request",
            "idle without origin",
            "idle, from the navigation",
        ]
        .map(|title| (title, Column::Numbers)),
    );
    let mut table = Table::new(&format!("{link}: causes of idle time on the hop"), &columns);
    for (setting, systems) in settings {
        let with_data: Vec<_> = systems.iter().filter(|(_, pages)| has_idle_data(pages)).collect();
        for (index, (variant, pages)) in with_data.iter().enumerate() {
            let mut cells = Vec::new();
            if index == 0 {
                cells.push(Cell::HeadOf(with_data.len(), setting.conditions()));
            }
            cells.push(Cell::Head(variant.label()));
            cells.extend(figures(pages).into_iter().map(Cell::Number));
            let tone = if index == 0 { Tone::Group } else { Tone::Plain };
            table.row(tone, &cells);
        }
    }
    table.finish()
}

fn figures(pages: &Pages<'_>) -> Vec<String> {
    let over_pages = |figure: fn(&Row) -> Option<f64>| -> Vec<f64> {
        pages.values().filter_map(|loads| loads.median(figure)).collect()
    };
    let share = |figure| quantity::percent_or_none(median(&over_pages(figure)));
    let window = over_pages(|row| row.hop_window_s);
    vec![
        window.len().to_string(),
        quantity::number_or_none(median(&window)),
        share(|row| row.hop_idle_after_first_byte),
        share(|row| of_window(row, row.hop_idle_origin_s)),
        share(|row| of_window(row, row.hop_idle_gateway_s)),
        share(|row| of_window(row, row.hop_idle_request_s)),
        share(|row| row.hop_idle_without_origin),
        share(|row| row.hop_idle_share),
    ]
}

/// Returns a part of the idle time as a share of the time between the first and the last byte.
pub(super) fn of_window(row: &Row, seconds: Option<f64>) -> Option<f64> {
    quantity::quotient(seconds?, row.hop_window_s?)
}
