//! Tables printed by the command.
use std::collections::{BTreeMap, BTreeSet};

use longhaul_types::BitRate;

use super::{
    RATES, attempt,
    regret::Spread,
    rows::{Choice, Measured},
    texts::SizeClass,
};
use crate::{print, statistics::float};

/// Prints coders by kind and size, then the choices.
pub(super) fn of_coders(texts: &[Measured]) {
    if texts.is_empty() {
        return;
    }
    print(&format!(
        "{:<8}{:<11}{:>5} {:>8}  {:<20} {:>7} {:>6} {:>9}\n",
        "kind", "size", "texts", "KB", "coder", "KB coded", "ratio", "ms"
    ));
    let groups: BTreeSet<_> = texts.iter().map(|text| (text.kind, text.size_class)).collect();
    for (kind, class) in groups {
        let of_group = |text: &&Measured| (text.kind, text.size_class) == (kind, class);
        let group: Vec<_> = texts.iter().filter(of_group).collect();
        print_coders(&format!("{:<8}{:<11}", kind.name(), class.name()), &group);
    }
    let all: Vec<_> = texts.iter().collect();
    print_coders(&format!("{:<19}", "all"), &all);
    print_choices("choice without a base", &all);
}

/// Prints the effect of dictionaries on the texts for which they are made, then the choices.
pub(super) fn of_dictionaries(texts: &[Measured]) {
    let is_helped = |text: &&Measured| {
        text.coders
            .iter()
            .any(|coding| attempt::has_dictionary(&coding.coder))
    };
    let texts: Vec<_> = texts.iter().filter(is_helped).collect();
    if texts.is_empty() {
        return;
    }
    print(&format!(
        "\ntexts with a dictionary\n{:<8}{:<11}{:>5} {:>8}  {:<20} {:>7} {:>6} {:>9}\n",
        "kind", "size", "texts", "KB", "coder", "KB coded", "ratio", "ms"
    ));
    let groups: BTreeSet<_> = texts.iter().map(|text| (text.kind, text.size_class)).collect();
    for (kind, class) in groups {
        let of_group = |text: &&Measured| (text.kind, text.size_class) == (kind, class);
        let group: Vec<_> = texts.iter().copied().filter(of_group).collect();
        print_coders(&format!("{:<8}{:<11}", kind.name(), class.name()), &group);
    }
    print_coders(&format!("{:<19}", "all"), &texts);
    print_choices("choice with a dictionary", &texts);
}

/// Prints the effect of bases on editions, by page, then the choices.
pub(super) fn of_bases(texts: &[Measured], unchanged: usize) {
    if texts.is_empty() {
        return;
    }
    print(&format!(
        "\neditions: {} texts changed, {unchanged} did not\n{:<19}{:>5} {:>8}  {:<20} {:>7} {:>6} {:>9}\n",
        texts.len(),
        "page",
        "texts",
        "KB",
        "coder",
        "KB coded",
        "ratio",
        "ms"
    ));
    let mut pages: BTreeMap<&str, Vec<&Measured>> = BTreeMap::new();
    for text in texts {
        pages.entry(&text.page).or_default().push(text);
    }
    for (page, group) in &pages {
        print_coders(&format!("{page:<19}"), group);
    }
    let all: Vec<_> = texts.iter().collect();
    print_coders(&format!("{:<19}", "all"), &all);
    print_choices("choice with the previous edition as base", &all);
}

/// Prints a line for each coder that coded all of these texts: sums.
fn print_coders(group: &str, texts: &[&Measured]) {
    let bytes: usize = texts.iter().map(|text| text.bytes).sum();
    for name in attempt::names() {
        let codings = texts.iter().flat_map(|text| &text.coders);
        let (mut coded, mut time_s, mut count) = (0, 0.0, 0);
        for coding in codings.filter(|coding| coding.coder == name) {
            coded += coding.bytes;
            time_s += coding.time_s;
            count += 1;
        }
        if count == texts.len() {
            print(&format!(
                "{group}{count:>5} {:>8.1}  {name:<20} {:>7.1} {:>6.3} {:>9.2}\n",
                float(bytes) / 1000.0,
                float(coded) / 1000.0,
                float(coded) / float(bytes.max(1)),
                time_s * 1000.0,
            ));
        }
    }
}

/// Prints regrets by rate and size, the chosen coders, and the best ones.
fn print_choices(title: &str, texts: &[&Measured]) {
    print(&format!(
        "\n{title}: coding time + bytes / rate, divided by that of the best coder in hindsight\n{:<12} {:<11}{:>5} {:>7} {:>7} {:>7} {:>7}  chosen / best\n",
        "link", "size", "texts", "median", "p90", "worst", "sum"
    ));
    for (index, link) in RATES.into_iter().enumerate() {
        let classes = SizeClass::ALL.map(Some);
        for class in classes.into_iter().chain([None]) {
            let choices = texts
                .iter()
                .filter(|text| class.is_none_or(|class| text.size_class == class));
            let choices: Vec<&Choice> = choices.filter_map(|text| text.choices.get(index)).collect();
            if choices.is_empty() {
                continue;
            }
            let name = class.map_or("all", SizeClass::name);
            print_regret(&format!("{:<12} {name:<11}", rate(link)), &choices);
        }
        print_fixed(link, texts, index);
    }
}

fn print_regret(group: &str, choices: &[&Choice]) {
    let spread = Spread::of(choices.iter().map(|choice| choice.regret).collect());
    let total: f64 = choices.iter().map(|choice| choice.total_s).sum();
    let best: f64 = choices.iter().map(|choice| choice.best_total_s).sum();
    let chosen = tally(choices.iter().map(|choice| choice.coder.as_str()));
    let hindsight = tally(choices.iter().map(|choice| choice.best_coder.as_str()));
    print(&format!(
        "{group}{:>5} {:>7.2} {:>7.2} {:>7.2} {:>7.2}  {chosen} / {hindsight}\n",
        choices.len(),
        spread.median,
        spread.p90,
        spread.worst,
        total / best.max(f64::MIN_POSITIVE),
    ));
}

/// Prints the time of each coder for all texts, divided by the time of the best one of each text.
fn print_fixed(link: BitRate, texts: &[&Measured], index: usize) {
    let choices = texts.iter().filter_map(|text| text.choices.get(index));
    let best: f64 = choices.map(|choice| choice.best_total_s).sum();
    let mut line = format!("{:<12} one coder for all, sum:", "");
    for name in attempt::names() {
        let codings = texts.iter().flat_map(|text| &text.coders);
        let codings = codings.filter(|coding| coding.coder == name);
        let times: Vec<f64> = codings
            .map(|coding| coding.time_s + float(coding.bytes) / link.bytes_per_second())
            .collect();
        let total: f64 = times.iter().sum();
        if times.len() == texts.len() {
            line += &format!("  {name} {:.2}", total / best.max(f64::MIN_POSITIVE));
        }
    }
    print(&format!("{line}\n"));
}

/// Returns the frequency of each name, the highest first.
fn tally<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let counts: Vec<String> = counts
        .into_iter()
        .map(|(name, count)| format!("{count}x {name}"))
        .collect();
    counts.join(", ")
}

fn rate(link: BitRate) -> String {
    match link.as_bps() / 1000 {
        kbps @ 0..1000 => format!("{kbps} kbit/s"),
        kbps @ 1000..1_000_000 => format!("{} Mbit/s", kbps / 1000),
        kbps => format!("{} Gbit/s", kbps / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_and_rates_are_round() {
        assert_eq!(tally(["a", "b", "b"].into_iter()), "2x b, 1x a");
        let named: Vec<_> = RATES.into_iter().map(rate).collect();
        assert_eq!(named, ["40 kbit/s", "384 kbit/s", "10 Mbit/s", "1 Gbit/s"]);
    }
}
