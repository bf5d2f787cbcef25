//! Tables that the command prints after the summary, if a run has data for them.
use std::collections::BTreeMap;

use crate::{
    measurements::{Loads, Measurements, is_valid},
    moments::{MOMENTS, over_pages},
    pictures::compared,
    quantity,
    results::{Results, Row},
    statistics::median,
    terminal::{aligned, plain},
};

/// Returns the share of each page that was transferred over http in a replay over http, which a proxy can
/// read; the page refers to the rest by https. Empty if no page was replayed so.
pub fn text_replays(results: &Results) -> String {
    let mut pages: BTreeMap<(&str, &str), Vec<&Row>> = BTreeMap::new();
    let replayed = |row: &&Row| row.scheme == "http" && is_valid(row);
    for row in results.rows.iter().filter(replayed) {
        pages.entry((&row.page, &row.loader)).or_default().push(row);
    }
    if pages.is_empty() {
        return String::new();
    }
    let head = [
        "replayed over http",
        "loader",
        "objects",
        "over http",
        "kB",
        "over http",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    let (mut object_shares, mut byte_shares) = (Vec::new(), Vec::new());
    for ((page, loader), rows) in pages {
        let of = |figure: fn(&Row) -> u64| {
            median(
                &rows
                    .iter()
                    .map(|row| quantity::count(figure(row)))
                    .collect::<Vec<_>>(),
            )
            .unwrap_or(0.0)
        };
        let (objects, bytes) = (of(|row| row.objects), of(|row| row.body_bytes));
        let object_share = quantity::quotient(of(|row| row.http_objects), objects);
        let byte_share = quantity::quotient(of(|row| row.http_bytes), bytes);
        object_shares.extend(object_share);
        byte_shares.extend(byte_share);
        lines.push(vec![
            plain(page),
            plain(loader),
            format!("{objects:.0}"),
            quantity::percent_or_none(object_share),
            format!("{:.0}", bytes / 1000.0),
            quantity::percent_or_none(byte_share),
        ]);
    }
    lines.push(vec![
        "median".to_owned(),
        String::new(),
        String::new(),
        quantity::percent_or_none(median(&object_shares)),
        String::new(),
        quantity::percent_or_none(median(&byte_shares)),
    ]);
    aligned(&lines)
}

/// Returns the times of each system in seconds, and its forwarded requests: medians over pages. Empty without loads.
pub fn text_times(results: &Results) -> String {
    below_head(times(&Measurements::of(&[(String::new(), results.clone())])))
}

/// Returns the late requests of each system by class and reason, and those that its loads, and the visits before them,
/// do not teach: means over all loads. Empty if there are none.
pub fn text_late(results: &Results) -> String {
    below_head(late(&Measurements::of(&[(String::new(), results.clone())])))
}

fn below_head(lines: Vec<Vec<String>>) -> String {
    if lines.len() == 1 {
        return String::new();
    }
    aligned(&lines)
}

/// The lines of [`text_times`], with a head.
pub(crate) fn times(measurements: &Measurements<'_>) -> Vec<Vec<String>> {
    let mut head = vec!["seconds", "system", "load"];
    head.extend(MOMENTS.map(|(name, _)| name));
    head.push("forwarded");
    let mut lines = vec![head.into_iter().map(str::to_owned).collect()];
    for (setting, systems) in &measurements.settings {
        for (variant, pages) in systems {
            let mut line = vec![plain(&setting.label()), plain(&variant.label())];
            line.push(over_pages(pages, |row| Some(row.time_s)));
            line.extend(MOMENTS.map(|(_, figure)| over_pages(pages, figure)));
            line.push(over_pages(pages, |row| row.forwarded.map(quantity::count)));
            lines.push(line);
        }
    }
    lines
}

/// The lines of [`text_late`], with a head.
pub(crate) fn late(measurements: &Measurements<'_>) -> Vec<Vec<String>> {
    let head = ["late requests", "system", "class", "reason", "a load"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for (setting, systems) in &measurements.settings {
        for (variant, pages) in systems {
            let rows: Vec<&Row> = pages.values().flat_map(Loads::valid).collect();
            for ((class, reason), sum) in late_sums(&rows) {
                lines.push(vec![
                    plain(&setting.label()),
                    plain(&variant.label()),
                    plain(class),
                    plain(reason),
                    quantity::number(quantity::count(sum) / quantity::length(rows.len())),
                ]);
            }
        }
    }
    lines
}

/// Sums of the late requests by class and reason, then of the refused lessons.
fn late_sums<'r>(rows: &[&'r Row]) -> BTreeMap<(&'r str, &'r str), u64> {
    let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut add = |class: &'r str, reasons: &'r BTreeMap<String, u64>| {
        for (reason, count) in reasons {
            let sum = sums.entry((class, reason)).or_default();
            *sum = sum.saturating_add(*count);
        }
    };
    for row in rows {
        row.late.iter().for_each(|(class, reasons)| add(class, reasons));
        add("not taught before", &row.lessons_refused_before);
        add("not taught", &row.lessons_refused);
    }
    sums
}

/// Returns the differences of the screenshots of each page from those of direct loads, and of those from each
/// other. Empty without screenshots.
pub fn text_pictures(results: &Results) -> String {
    let files = [(String::new(), results.clone())];
    let measurements = Measurements::of(&files);
    let pictures = compared(&measurements);
    if pictures.is_empty() {
        return String::new();
    }
    let head = [
        "pictures",
        "page",
        "system",
        "direct, direct",
        "this, direct",
        "mean",
        "verdict",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines.extend(pictures.iter().map(|picture| {
        vec![
            plain(&picture.setting),
            plain(&picture.page),
            plain(&picture.system),
            quantity::percent_or_none(picture.noise),
            quantity::percent_or_none(picture.differs),
            quantity::percent_or_none(picture.mean),
            picture.verdict().to_owned(),
        ]
    }));
    let worse = pictures
        .iter()
        .filter(|picture| picture.no_worse == Some(false))
        .count();
    let open = pictures
        .iter()
        .filter(|picture| picture.no_worse.is_none())
        .count();
    let decided = pictures.len() - open;
    let mut text = aligned(&lines);
    text.push_str(&format!(
        "pictures: {} of {decided} no worse than direct compared with direct",
        decided - worse
    ));
    if open > 0 {
        text.push_str(&format!("; {open} undecided, which requires two runs of direct"));
    }
    text.push('\n');
    text
}
