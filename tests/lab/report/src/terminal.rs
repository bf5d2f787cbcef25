//! The figures as plain text, for the terminal and for documents.
use std::collections::BTreeSet;

use crate::{
    aggregate::Aggregate,
    bars::{self, Figures},
    measurements::{Ideal, Measurements, Name, Setting, Systems, Variant},
    moments, quantity,
    results::Results,
    statistics::Spread,
    tables,
    targets::judge,
};

/// Columns of the summary; all except the first two contain numbers.
const COLUMNS: [&str; 9] = [
    "condition",
    "system",
    "pages",
    "failed",
    "x ideal",
    "quartiles",
    "geo mean",
    "worst page",
    "direct/this",
];

/// Returns the table that the command prints after a run: per link, loader and state, each system relative to
/// the gzip ideal. Lines have at most about 120 characters; control characters in names are replaced.
pub fn text_summary(results: &Results) -> String {
    let files = [(String::new(), results.clone())];
    let measurements = Measurements::of(&files);
    if measurements.rows == 0 && results.bars.is_empty() {
        return "no rows\n".to_owned();
    }
    let mut lines: Vec<Vec<String>> = vec![COLUMNS.map(str::to_owned).to_vec()];
    for (setting, systems) in &measurements.settings {
        lines.extend(summary_lines(&measurements, setting, systems));
    }
    let mut text = if measurements.rows > 0 {
        aligned(&lines)
    } else {
        String::new()
    };
    if !results.bars.is_empty() {
        let met = results.bars.iter().filter(|bar| bar.met == Some(true)).count();
        let missed = results.bars.iter().filter(|bar| bar.met == Some(false)).count();
        text.push_str(&format!("bars: {met} met, {missed} missed\n"));
    }
    text
}

fn summary_lines(
    measurements: &Measurements<'_>,
    setting: &Setting,
    systems: &Systems<'_>,
) -> Vec<Vec<String>> {
    systems
        .iter()
        .map(|(variant, pages)| {
            let aggregate = Aggregate::of(pages, measurements.baseline(setting, variant));
            let spread = aggregate.gzip;
            let worst = aggregate.worst.as_ref();
            vec![
                plain(&setting.label()),
                plain(&variant.label()),
                aggregate.pages.to_string(),
                aggregate.failed.to_string(),
                quantity::ratio_or_none(spread.map(|spread| spread.median)),
                spread
                    .filter(|spread| spread.count > 1)
                    .map_or_else(|| quantity::NONE.to_owned(), quartiles),
                quantity::ratio_or_none(aggregate.geometric_mean),
                worst.map_or_else(
                    || quantity::NONE.to_owned(),
                    |(page, ratio)| format!("{} {}", plain(page), quantity::ratio(*ratio)),
                ),
                quantity::ratio_or_none(aggregate.gain),
            ]
        })
        .collect()
}

fn quartiles(spread: Spread) -> String {
    format!(
        "{}-{}",
        quantity::ratio(spread.lower_quartile),
        quantity::ratio(spread.upper_quartile)
    )
}

/// Pads columns to their widest cell: text left-aligned, numbers right-aligned.
pub(crate) fn aligned(lines: &[Vec<String>]) -> String {
    let width_of = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(width_of).collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| {
                if column < 2 {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Returns names as one line without control characters, which could control a terminal.
pub(crate) fn plain(text: &str) -> String {
    let short = crate::markup::shorten(text, 60);
    short
        .chars()
        .map(|character| {
            if character.is_control() {
                '\u{fffd}'
            } else {
                character
            }
        })
        .collect()
}

/// Returns the tables for documents, in GitHub's Markdown: environment, summary, seconds by page, bars and
/// targets.
pub fn markdown(results: &[(String, Results)]) -> String {
    let measurements = Measurements::of(results);
    let mut text = String::new();
    for (name, results) in results {
        let environment = &results.environment;
        let versions: Vec<String> = environment
            .versions
            .iter()
            .map(|(program, version)| format!("{program} {version}"))
            .collect();
        text.push_str(&format!(
            "`{}`: {}, commit {}, seed {}, {}, kernel {}; {}\n\n",
            cell(name).replace('`', "'"),
            cell(&environment.date),
            cell(&environment.commit),
            environment.seed,
            cell(&environment.cpu),
            cell(&environment.kernel),
            cell(&versions.join(", "))
        ));
    }
    if measurements.rows == 0 {
        text.push_str("No rows.\n\n");
    } else {
        let mut summary = vec![COLUMNS.map(str::to_owned).to_vec()];
        for (setting, systems) in &measurements.settings {
            summary.extend(summary_lines(&measurements, setting, systems));
        }
        for lines in [summary, tables::times(&measurements), tables::late(&measurements)] {
            text.push_str(&table(&lines));
        }
        for (setting, systems) in &measurements.settings {
            text.push_str(&page_table(setting, systems));
        }
    }
    text.push_str(&bar_table(results));
    text.push_str("| target | limit | measured | verdict |\n| --- | --- | --- | --- |\n");
    for target in judge(&measurements, results) {
        let words = [&target.what, &target.goal, &target.measured]
            .map(|words| cell(words))
            .join(" | ");
        text.push_str(&format!("| {words} | {} |\n", target.verdict.word()));
    }
    text
}

/// Returns a table of lines with a head; all columns except the first two are right-aligned. Empty without lines.
fn table(lines: &[Vec<String>]) -> String {
    let [head, _, ..] = lines else {
        return String::new();
    };
    let rule = format!("| --- | --- |{}", " ---: |".repeat(head.len() - 2));
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line.iter().map(|words| cell(words)).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
        if index == 0 {
            text.push_str(&format!("{rule}\n"));
        }
    }
    text.push('\n');
    text
}

fn page_table(setting: &Setting, systems: &Systems<'_>) -> String {
    let pages: BTreeSet<&String> = systems.values().flat_map(|pages| pages.keys()).collect();
    let heads: Vec<String> = systems
        .keys()
        .map(|variant: &Variant| cell(&variant.label()))
        .collect();
    let mut text = format!(
        "{}: seconds (x ideal with gzip); first byte, first paint, largest paint\n\n| page | ",
        cell(&setting.label())
    );
    text.push_str(&format!(
        "{} |\n| --- |{}\n",
        heads.join(" | "),
        " ---: |".repeat(heads.len())
    ));
    for page in pages {
        let cells: Vec<String> = systems
            .values()
            .map(|pages| {
                let Some(loads) = pages.get(page) else {
                    return quantity::NONE.to_owned();
                };
                let failed = match loads.failed() {
                    0 => String::new(),
                    failed => format!(", {failed} of {} failed", loads.rows.len()),
                };
                loads.time().map_or_else(
                    || format!("failed{failed}"),
                    |time| {
                        let ratio = loads.ratio(Ideal::Gzip).map(|ratio| ratio.median);
                        format!(
                            "{} ({}{failed}); {}",
                            quantity::number(time.median),
                            quantity::ratio_or_none(ratio),
                            moments::of_page(loads).join(", ")
                        )
                    },
                )
            })
            .collect();
        text.push_str(&format!("| {} | {} |\n", cell(page), cells.join(" | ")));
    }
    text.push('\n');
    text
}

/// Returns a table for each link: the median of the repetitions, with minimum and maximum.
fn bar_table(results: &[(String, Results)]) -> String {
    let groups = bars::groups(results.iter().flat_map(|(_, results)| &results.bars));
    let systems = bars::systems(&groups);
    let links: BTreeSet<&Name> = groups.iter().map(|group| &group.link).collect();
    let names: Vec<_> = systems.iter().map(|system| cell(&system.text)).collect();
    let mut text = String::new();
    for link in links {
        text.push_str(&format!(
            "**{}**\n\n| bar | limit | met | {} |\n| --- | ---: | --- |{}\n",
            cell(&link.text),
            names.join(" | "),
            " ---: |".repeat(names.len())
        ));
        for group in groups.iter().filter(|group| group.link == *link) {
            let met = group
                .met()
                .map_or_else(String::new, |(met, of)| format!("{met} of {of}"));
            let limit = group.limit().map_or_else(String::new, quantity::number);
            let figures: Vec<_> = systems
                .iter()
                .map(|system| group.systems.get(system).map_or_else(String::new, Figures::text))
                .collect();
            text.push_str(&format!(
                "| {} | {limit} | {met} | {} |\n",
                cell(&group.id),
                figures.join(" | ")
            ));
        }
        text.push('\n');
    }
    text
}

/// Escapes text for a cell: it must not end the cell, begin a tag or make a link.
fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in plain_long(text).chars() {
        match character {
            '|' | '\\' | '[' | ']' | '*' | '_' => {
                safe.push('\\');
                safe.push(character);
            }
            '<' => safe.push_str("&lt;"),
            '&' => safe.push_str("&amp;"),
            other => safe.push(other),
        }
    }
    safe
}

fn plain_long(text: &str) -> String {
    let short = crate::markup::shorten(text, 300);
    short
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect()
}
