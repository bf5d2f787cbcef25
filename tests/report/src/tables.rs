//! Tables that the command prints after the summary, if a run has data for them.
use std::collections::BTreeMap;

use crate::{
    measurements::{Measurements, is_valid},
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
