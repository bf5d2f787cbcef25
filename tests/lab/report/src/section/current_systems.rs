//! Results of current systems on page `static`, compared with the measurements.
use std::collections::BTreeMap;

use maud::{Markup, html};

use super::Context;
use crate::{
    markup::{Cell, Column, Table, Tone},
    measurements::{Ideal, Loads, Variant},
    moments,
    papers::{self, TodayLoad},
    quantity::{self, NONE},
    results::Row,
};

/// One system of this run.
#[derive(Default)]
struct Measured {
    /// With the first byte and the paints in words.
    loads: [Option<(TodayLoad, String)>; papers::TODAY_LINKS.len()],
    kilobytes: String,
}

pub(super) fn render(context: &Context<'_>) -> Markup {
    let links = papers::TODAY_LINKS.map(|link| format!("{link}, s (× ideal)"));
    let mut columns = vec![("system", Column::Words)];
    columns.extend(links.iter().map(|title| (title.as_str(), Column::Numbers)));
    columns.push(("kB down/up on gprs-3+1", Column::Numbers));
    let mut table = Table::new(
        "Page static, Chromium: these measurements, then those of current systems",
        &columns,
    );
    for ((variant, state), measured) in measured(context) {
        let known = papers::TODAY
            .iter()
            .find(|known| known.system == Some(variant.system.text.as_str()));
        let mut cells = vec![Cell::Head(format!("here: {}, {state}", variant.label()))];
        for (index, load) in measured.loads.into_iter().enumerate() {
            let theirs = known.and_then(|known| known.loads[index]);
            cells.push(Cell::NumberMarkup(measured_cell(load, theirs)));
        }
        cells.push(Cell::Number(measured.kilobytes));
        table.row(Tone::Plain, &cells);
    }
    if table.is_empty() {
        return html! {};
    }
    add_known(&mut table);
    html! { (table.finish()) (legend()) }
}

fn legend() -> Markup {
    html! {
        p class="legend-text" {
            "The rows from elsewhere were measured with an independent emulator and headless Chromium, a new profile for \
             each load, median of 3 (lte and geo-sat: 2). Their ideal is 88,268 bytes, the page with its HTML gzipped. \
             “to theirs”: deviation of this command's own figure if both ran the same system, that is, the similarity of \
             the two test networks."
        }
    }
}

fn measured<'m>(context: &'m Context<'_>) -> BTreeMap<(&'m Variant, &'m str), Measured> {
    let mut found: BTreeMap<(&Variant, &str), Measured> = BTreeMap::new();
    for (setting, systems) in &context.measurements.settings {
        let link = papers::TODAY_LINKS
            .iter()
            .position(|link| *link == setting.link.text);
        let Some(link) = link.filter(|_| setting.loader.text == "chromium" && setting.is_plain()) else {
            continue;
        };
        for (variant, pages) in systems {
            let Some(loads) = pages.get("static") else {
                continue;
            };
            let Some(time) = loads.time() else { continue };
            let entry = found.entry((variant, setting.state.text.as_str())).or_default();
            let ratio = loads.ratio(Ideal::Gzip).map(|ratio| ratio.median);
            let load = TodayLoad {
                seconds: time.median,
                ratio,
            };
            entry.loads[link] = Some((load, moments::words(loads)));
            if papers::TODAY_LINKS[link] == "gprs-3+1" {
                entry.kilobytes = format!(
                    "{}/{}",
                    kilobytes(loads, |row| row.bytes_down),
                    kilobytes(loads, |row| row.bytes_up)
                );
            }
        }
    }
    found
}

fn kilobytes(loads: &Loads<'_>, figure: fn(&Row) -> u64) -> String {
    let kilobytes = loads.median(|row| Some(quantity::count(figure(row)) / 1e3));
    kilobytes.map_or_else(|| NONE.to_owned(), |kilobytes| format!("{kilobytes:.0}"))
}

fn measured_cell(load: Option<(TodayLoad, String)>, theirs: Option<TodayLoad>) -> Markup {
    let Some((load, moments)) = load else {
        return html! { (NONE) };
    };
    let off = theirs.map(|theirs| (load.seconds / theirs.seconds - 1.0) * 100.0);
    html! {
        b { (quantity::number(load.seconds)) } " (" (quantity::ratio_or_none(load.ratio)) ")"
        @if let Some(off) = off.filter(|off| off.is_finite()) {
            br; small { (format!("{off:+.0}")) " % to theirs" }
        }
        br; small { (moments) }
    }
}

fn add_known(table: &mut Table) {
    for (index, system) in papers::TODAY.iter().enumerate() {
        let mut cells = vec![Cell::Head(system.name.to_owned())];
        for load in system.loads {
            let words = load.map_or_else(
                || NONE.to_owned(),
                |load| {
                    let ratio = load.ratio.map_or_else(String::new, |ratio| format!(" ({ratio})"));
                    format!("{}{ratio}", load.seconds)
                },
            );
            cells.push(Cell::Number(words));
        }
        let bytes = if system.kilobytes.is_empty() {
            NONE
        } else {
            system.kilobytes
        };
        cells.push(Cell::Number(bytes.to_owned()));
        table.row(if index == 0 { Tone::Group } else { Tone::Plain }, &cells);
    }
}
