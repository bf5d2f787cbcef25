//! The papers' factors relative to a browser with two connections, measured and published.
use maud::{Markup, html};

use super::{Context, with_legend};
use crate::{
    comparison::MeasuredFactors,
    markup::{Cell, Column, Table, Tone},
    measurements::Setting,
    papers, quantity,
};

const COLUMNS: &[(&str, Column)] = &[
    ("source", Column::Words),
    ("system", Column::Words),
    ("pages", Column::Numbers),
    ("time", Column::Numbers),
    ("bytes down", Column::Numbers),
    ("bytes up", Column::Numbers),
    ("perceived bandwidth", Column::Numbers),
];

pub(super) fn render(context: &Context<'_>) -> Markup {
    let mut tables = Vec::new();
    let settings = context
        .measurements
        .settings
        .iter()
        .filter(|(setting, _)| setting.loader.text == "model" && setting.is_plain());
    for (setting, systems) in settings {
        let measured: Vec<_> = systems
            .iter()
            .filter(|(variant, _)| variant.system.text != "direct")
            .filter_map(|(variant, pages)| {
                let baseline = context.measurements.baseline(setting, variant)?;
                Some((variant.label(), MeasuredFactors::of(pages, baseline)?))
            })
            .collect();
        if measured.is_empty() {
            continue;
        }
        tables.push((setting.label(), table(setting, &measured)));
    }
    with_legend(&legend(), &tables)
}

fn legend() -> Markup {
    html! {
        p class="legend-text" {
            "A factor of 4 means a quarter of the time or bytes of system " code { "direct" } " with loader "
            code { "model" } " (HTTP/1.1, two persistent connections per host, no pipelining, identity coding), over the \
            pages that both loaded. Time, down and up: ratio of the sums over pages. Perceived bandwidth: bytes of the page \
            without optimisation, divided by the load time; ratio of the means over pages. The papers' rows were measured in \
            live networks of their time with other pages: they show the size of the effect, and are not a direct comparison. \
            C/S: agent and gateway; CLS: gateway alone. NettGain ran at its low picture quality."
        }
    }
}

fn table(setting: &Setting, measured: &[(String, MeasuredFactors)]) -> Markup {
    let mut table = Table::new(
        &format!("{}: factors relative to direct", setting.label()),
        COLUMNS,
    );
    for (label, factors) in measured {
        let mut cells = vec![
            Cell::Head("measured".to_owned()),
            Cell::Text(label.clone()),
            Cell::Number(factors.pages.to_string()),
        ];
        cells.extend(
            [factors.time, factors.down, factors.up, factors.bandwidth]
                .map(|factor| Cell::Number(quantity::ratio_or_none(factor))),
        );
        table.row(Tone::Plain, &cells);
    }
    let link = setting.link.text.as_str();
    let (source, rows) = if link.starts_with("gprs") {
        ("PEP-WWAN Table II, GPRS", papers::FACTORS_GPRS)
    } else if link.starts_with("umts") {
        ("PEP-WWAN Table III, UMTS", papers::FACTORS_UMTS)
    } else {
        ("", &[][..])
    };
    for (index, factors) in rows.iter().enumerate() {
        let mut cells = vec![
            Cell::Head(source.to_owned()),
            Cell::Text(factors.system.to_owned()),
            Cell::Number("10".to_owned()),
        ];
        cells.extend(
            [factors.time, factors.down, factors.up, factors.bandwidth]
                .map(|factor| Cell::Number(quantity::ratio(factor))),
        );
        table.row(if index == 0 { Tone::Group } else { Tone::Plain }, &cells);
    }
    table.finish()
}
