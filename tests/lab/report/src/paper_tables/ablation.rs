//! Longhaul without each of its techniques, and with each alone.
use super::{
    figures::{Figures, Loads},
    parts::{Grid, Part, Section},
};
use crate::{measurements::TECHNIQUES, quantity, statistics::geometric_mean};

/// Loads of a column: name, link, state, image level.
type Column = (&'static str, &'static str, &'static str, &'static str);

const COLUMNS: [Column; 6] = [
    ("GPRS, cold", "gprs-3+1", "cold", "medium"),
    ("GPRS, gateway warm", "gprs-3+1", "second-device", "medium"),
    ("UMTS, cold", "umts-384", "cold", "medium"),
    ("UMTS, gateway warm", "umts-384", "second-device", "medium"),
    ("UMTS, next edition", "umts-384", "next-edition", "original"),
    ("WLAN with 3 % loss, cold", "wlan-lossy", "cold", "original"),
];
const FIRST: [Column; 2] = [
    ("GPRS, first", "gprs-3+1", "first", "original"),
    ("UMTS, first", "umts-384", "first", "original"),
];
/// Why a technique shows no effect in these loads.
const SILENT: [(&str, &str); 3] = [
    (
        "early",
        "concerns only the first page of a session, which has a table of its own",
    ),
    (
        "dictionaries",
        "generated pages contain none of the libraries of which the dictionaries are made",
    ),
    (
        "learned",
        "the scripted browser runs no scripts, whose requests are what is learned",
    ),
];

pub(super) fn section(figures: &Figures<'_>) -> Section {
    let heads: Vec<&str> = std::iter::once("techniques")
        .chain(COLUMNS.iter().map(|column| column.0))
        .collect();
    let mut grid = Grid::new(
        "Load time as a multiple of that of Longhaul with everything; geometric mean over the pages that both loaded",
        &heads,
    );
    let every: Vec<&str> = TECHNIQUES.to_vec();
    grid.row(
        "everything: seconds, mean over pages",
        COLUMNS.map(|column| {
            let loads = loads(column);
            let pages = figures.common_pages(&[loads]);
            quantity::number_or_none(figures.average(loads, &pages).map(|average| average.mean))
        }),
    );
    let mut bytes = Grid::new(
        "Bytes on the hop, both directions, kB; sum over the pages that were loaded with everything, too",
        &heads,
    );
    let mut row = |name: String, without: &[&str]| {
        let without = without.join(",");
        grid.row(&name, COLUMNS.map(|column| ratio(figures, column, &without)));
        bytes.row(&name, COLUMNS.map(|column| kilobytes(figures, column, &without)));
    };
    row("with everything".to_owned(), &[]);
    for technique in TECHNIQUES {
        row(format!("without {technique}"), &[*technique]);
    }
    for technique in TECHNIQUES {
        let others: Vec<&str> = every.iter().copied().filter(|name| name != technique).collect();
        row(format!("{technique} alone"), &others);
    }
    row("without every technique".to_owned(), &every);
    let mut first = Grid::new(
        "The first page, before the session is open: load time as a multiple of that with everything",
        &["techniques", FIRST[0].0, FIRST[1].0],
    );
    first.row(
        "without early",
        FIRST.map(|column| ratio(figures, column, "early")),
    );
    let mut parts = vec![
        Part::Words(
            "Each row switches off one technique at both ends (`longhaul-bench pages --without`), or all but one (`--only`); \
             docs/BENCHMARKING.md says what takes the place of each. Image level medium, the agent's default, in the first four columns and original in the others. `gateway warm` is state `second-device`: the gateway has loaded the page for another device, and this agent has empty caches. Techniques overlap: \
             what one no longer saves, another may (an unchanged body is coded against itself if content hashes are off). Below 1 is \
             faster than with everything."
                .to_owned(),
        ),
        Part::Table(bytes),
        Part::Table(grid),
        Part::Table(first),
    ];
    for (technique, reason) in SILENT {
        parts.push(Part::Words(format!("{technique}: {reason}.")));
    }
    parts.push(Part::Words(
        "nack: only a link that loses packets shows it (WLAN); on GPRS and UMTS the emulated links lose nothing. credit: these agents \
         were told their link, so the window of the start is right from the beginning and a window that never changes costs little; \
         it is what the papers' clamp of the congestion window was."
            .to_owned(),
    ));
    Section {
        anchor: "ablation",
        title: "Longhaul without each technique, and with each alone",
        parts,
    }
}

fn loads((_, link, state, level): Column) -> Loads<'static> {
    Loads::of(link, "longhaul").at(level).in_state(state)
}

fn ratio(figures: &Figures<'_>, column: Column, without: &str) -> String {
    let base = loads(column);
    let loads = base.without(without);
    let ratios: Vec<f64> = figures
        .common_pages(&[base, loads])
        .into_iter()
        .filter_map(|page| quantity::quotient(figures.time(loads, page)?, figures.time(base, page)?))
        .collect();
    quantity::ratio_or_none(geometric_mean(&ratios))
}

fn kilobytes(figures: &Figures<'_>, column: Column, without: &str) -> String {
    let base = loads(column);
    let loads = base.without(without);
    let of_page = |page: &str| {
        figures.median(loads, page, |row| {
            quantity::count(row.bytes_down.saturating_add(row.bytes_up))
        })
    };
    let pages = figures.common_pages(&[base, loads]);
    let sum: f64 = pages.iter().filter_map(|page| of_page(page)).sum();
    quantity::number_or_none((!pages.is_empty()).then_some(sum / 1000.0))
}
