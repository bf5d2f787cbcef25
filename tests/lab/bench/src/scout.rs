//! The paper scout: what a browser near the gateway would request before the user's browser behind a link does.
//!
//! The loads of `direct-h2` over `lan-fast` stand for the scout, a second one of them for how much pages differ by
//! themselves, and those of Longhaul over other links for the users.
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use longhaul_report::{DetailObject, Row, median};

use crate::{CommandError, cli::ScoutArgs, print, run};

/// Link of the scout's loads.
const NEAR: &str = "lan-fast";
/// System of the scout's loads.
const SCOUT: &str = "direct-h2";
/// A request whose first byte came later than this part of a round trip was not announced.
const LATE: f64 = 0.75;

/// Prints the comparison.
pub(crate) fn scout(args: &ScoutArgs) -> Result<(), CommandError> {
    let mut rows = Vec::new();
    for file in &args.files {
        rows.extend(run::load_results(file)?.rows);
    }
    print(&table(&compare(&rows)));
    Ok(())
}

/// One page behind one link, compared with the scout's load.
#[derive(Clone, Debug, PartialEq)]
struct Comparison {
    page: String,
    condition: String,
    /// Requests of the user's browser after that of the page.
    requests: usize,
    /// Those that the scout's load contains.
    found: usize,
    /// Requests of the user's browser that took a round trip.
    late: usize,
    late_found: usize,
    /// Bytes of bodies that the scout's load has, and those that the user's browser requested, too.
    scouted_bytes: u64,
    used_bytes: u64,
    /// Requests that a second load near the gateway shares with the first one.
    repeated: Option<(usize, usize)>,
    /// Times by which the scout's requests precede late ones of the user's browser, seconds.
    leads: Vec<f64>,
    cpu_s: Option<f64>,
    memory: Option<u64>,
}

/// Compares each load of a user with the loads of the same page near the gateway.
fn compare(rows: &[Row]) -> Vec<Comparison> {
    let mut near: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows
        .iter()
        .filter(|row| row.link == NEAR && row.system == SCOUT && row.detail.is_some())
    {
        near.entry(&row.page).or_default().push(row);
    }
    let users = rows
        .iter()
        .filter(|row| row.link != NEAR && row.system.starts_with("longhaul"));
    users
        .filter_map(|user| compared(user, near.get(user.page.as_str())?))
        .collect()
}

fn compared(user: &Row, near: &[&Row]) -> Option<Comparison> {
    let scout = near.first()?;
    let (requests, scouted) = (requests(user)?, requests(scout)?);
    let late = |object: &DetailObject| {
        let (sent, first) = (object.sent?, object.first_byte?);
        Some(first - sent >= LATE * user.link_rtt_s)
    };
    let is_late = |object: &&&DetailObject| late(object).unwrap_or(false);
    let found = |object: &&DetailObject| scouted.contains_key(object.key.as_str());
    let leads = requests
        .values()
        .filter(|object| is_late(object))
        .filter_map(|object| Some(object.sent? - scouted.get(object.key.as_str())?.sent?));
    let of_user: BTreeSet<&str> = requests.keys().copied().collect();
    let repeated = near.get(1).and_then(|second| {
        let second = self::requests(second)?;
        let both = scouted.keys().filter(|key| second.contains_key(*key)).count();
        Some((both, scouted.len()))
    });
    Some(Comparison {
        page: user.page.clone(),
        condition: format!("{}, {}", user.link, user.state),
        requests: requests.len(),
        found: requests.values().filter(|object| found(object)).count(),
        late: requests.values().filter(is_late).count(),
        late_found: requests
            .values()
            .filter(is_late)
            .filter(|object| found(object))
            .count(),
        scouted_bytes: scouted.values().map(|object| object.bytes).sum(),
        used_bytes: scouted
            .iter()
            .filter(|(key, _)| of_user.contains(*key))
            .map(|(_, object)| object.bytes)
            .sum(),
        repeated,
        leads: leads.collect(),
        cpu_s: scout.cpu_browser_s,
        memory: scout.memory_browser_bytes,
    })
}

/// The requests of a load after that of its page, by URL.
fn requests(row: &Row) -> Option<BTreeMap<&str, &DetailObject>> {
    let objects = row.detail.as_ref()?.objects.iter();
    let sent = objects.filter(|object| object.sent.is_some() && !object.key.is_empty());
    Some(sent.skip(1).map(|object| (object.key.as_str(), object)).collect())
}

/// The comparison as a table in Markdown, with the medians of each condition.
fn table(comparisons: &[Comparison]) -> String {
    let mut text = String::from(
        "| page | load | requests found | late requests found | bytes that were of use | found by a second load | lead, median | processor time | memory |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let mut conditions: BTreeMap<&str, Vec<&Comparison>> = BTreeMap::new();
    for comparison in comparisons {
        let _infallible = writeln!(text, "{}", line(comparison));
        conditions
            .entry(&comparison.condition)
            .or_default()
            .push(comparison);
    }
    for (condition, all) in conditions {
        let of = |value: &dyn Fn(&Comparison) -> Option<f64>| {
            let values: Vec<f64> = all.iter().filter_map(|comparison| value(comparison)).collect();
            median(&values)
        };
        let recall = of(&|one| share(one.found as u64, one.requests as u64));
        let late = of(&|one| share(one.late_found as u64, one.late as u64));
        let precision = of(&|one| share(one.used_bytes, one.scouted_bytes));
        let cpu = of(&|one| one.cpu_s);
        let _infallible = writeln!(
            text,
            "| median of {} | {condition} | {} | {} | {} | | {} | {} | |",
            all.len(),
            percent(recall),
            percent(late),
            percent(precision),
            seconds(of(&|one| median(&one.leads))),
            seconds(cpu),
        );
    }
    text
}

fn line(one: &Comparison) -> String {
    format!(
        "| {} | {} | {} of {} | {} of {} | {} | {} | {} | {} | {} |",
        one.page,
        one.condition,
        one.found,
        one.requests,
        one.late_found,
        one.late,
        percent(share(one.used_bytes, one.scouted_bytes)),
        percent(
            one.repeated
                .and_then(|(both, all)| share(both as u64, all as u64))
        ),
        seconds(median(&one.leads)),
        seconds(one.cpu_s),
        one.memory
            .map_or_else(String::new, |bytes| format!("{} MB", bytes / 1_000_000)),
    )
}

#[expect(clippy::cast_precision_loss, reason = "bytes and requests of one load")]
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0))
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.2} s"))
}
