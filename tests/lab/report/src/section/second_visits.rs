//! Later visits: the cost of a second visit, or of a second device, compared with a browser with its own
//! cache.
use std::collections::BTreeMap;

use maud::{Markup, html};

use super::{
    Context,
    pages::{useful_bytes, useful_objects},
    with_legend,
};
use crate::{
    aggregate::Aggregate,
    markup::{Cell, Column, Table, Tone},
    measurements::{Loads, Pages, Setting, Systems},
    moments::{self, MOMENTS},
    quantity,
    statistics::{geometric_mean, median},
};

/// State and system of a user without Longhaul at a second visit.
const WITHOUT: (&str, &str) = ("warm", "direct");
/// States that are not a second visit, in the table for comparison.
const FIRST_VISITS: &[&str] = &["first", "cold"];

pub(super) fn render(context: &Context<'_>) -> Markup {
    let mut groups: BTreeMap<String, Vec<(&Setting, &Systems<'_>)>> = BTreeMap::new();
    for (_, settings) in context.measurements.by_link() {
        for (setting, systems) in settings {
            let same = setting.apart_from_state();
            groups.entry(same).or_default().push((setting, systems));
        }
    }
    let mut tables = Vec::new();
    for (title, settings) in groups {
        let is_return =
            |(setting, _): &(&Setting, &Systems<'_>)| !FIRST_VISITS.contains(&setting.state.text.as_str());
        if settings.iter().any(is_return) {
            let table = table(&title, &settings);
            tables.push((title, table));
        }
    }
    with_legend(&legend(), &tables)
}

fn legend() -> Markup {
    html! {
        p class="legend-text" {
            "revisit: the page was loaded before through the same system, the browser's own cache is empty. warm: the \
             browser's own cache is not empty. second-device: another device loaded it through the same gateway and left at \
             once; third-device: two did. Medians over pages. forwarded: requests, with that of the page, that the browser \
             had to send over the hop. Round trips: load time divided by one round trip of hop and Internet. against direct: geometric mean, over \
             the pages that both loaded, of the time of " code { "direct" } " with a warm browser divided by this one's. push \
             taken: share of the pushed bytes, and of the pushed objects, that the browser used before it navigated to another \
             site."
        }
    }
}

fn table(title: &str, settings: &[(&Setting, &Systems<'_>)]) -> Markup {
    let without = settings
        .iter()
        .filter(|(setting, _)| setting.state.text == WITHOUT.0)
        .flat_map(|(_, systems)| systems.iter())
        .find(|(variant, _)| variant.system.text == WITHOUT.1)
        .map(|(_, pages)| pages);
    let number = |title| (title, Column::Numbers);
    let mut columns = vec![("state", Column::Words), ("system", Column::Words)];
    columns.extend(
        [
            "pages",
            "failed loads",
            "s",
            MOMENTS[0].0,
            MOMENTS[1].0,
            MOMENTS[2].0,
            "forwarded",
            "round trips",
            "× ideal (gzip)",
            "against direct",
            "down",
            "up",
            "push taken",
            "of objects",
        ]
        .map(number),
    );
    let mut table = Table::new(&format!("{title}: second visits, medians over pages"), &columns);
    for (setting, systems) in settings {
        for (index, (variant, pages)) in systems.iter().enumerate() {
            let mut cells = Vec::new();
            if index == 0 {
                cells.push(Cell::HeadOf(systems.len(), setting.state.text.clone()));
            }
            cells.push(Cell::Head(variant.label()));
            cells.extend(figures(pages, without).into_iter().map(Cell::Number));
            let tone = match (Aggregate::of(pages, None).failed, index) {
                (1.., _) => Tone::Failed,
                (0, 0) => Tone::Group,
                (0, _) => Tone::Plain,
            };
            table.row(tone, &cells);
        }
    }
    table.finish()
}

fn figures(pages: &Pages<'_>, without: Option<&Pages<'_>>) -> Vec<String> {
    let aggregate = Aggregate::of(pages, None);
    let over_pages = |figure: &dyn Fn(&Loads<'_>) -> Option<f64>| {
        median(&pages.values().filter_map(figure).collect::<Vec<_>>())
    };
    let gains: Vec<f64> = pages
        .iter()
        .filter_map(|(page, loads)| {
            let other = without?.get(page)?.time()?.median;
            quantity::quotient(other, loads.time()?.median)
        })
        .collect();
    let mut figures = vec![
        aggregate.pages.to_string(),
        aggregate.failed.to_string(),
        quantity::number_or_none(over_pages(&|loads| Some(loads.time()?.median))),
    ];
    figures.extend(MOMENTS.map(|(_, figure)| moments::over_pages(pages, figure)));
    figures.push(moments::over_pages(pages, |row| {
        row.forwarded.map(quantity::count)
    }));
    figures.extend([
        quantity::number_or_none(over_pages(&|loads| {
            loads.median(|row| {
                let latency = crate::measurements::ideal_latency(row)?;
                quantity::quotient(row.time_s, latency)
            })
        })),
        quantity::ratio_or_none(aggregate.gzip.map(|spread| spread.median)),
        quantity::ratio_or_none(geometric_mean(&gains)),
        quantity::bytes_or_none(over_pages(&|loads| {
            loads.median(|row| Some(quantity::count(row.bytes_down)))
        })),
        quantity::bytes_or_none(over_pages(&|loads| {
            loads.median(|row| Some(quantity::count(row.bytes_up)))
        })),
        quantity::percent_or_none(over_pages(&|loads| loads.median(useful_bytes))),
        quantity::percent_or_none(over_pages(&|loads| loads.median(useful_objects))),
    ]);
    figures
}
