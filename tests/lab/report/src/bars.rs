//! The transport's bars of all files, with their repetitions combined.
use std::collections::{BTreeMap, BTreeSet};

use crate::{measurements::Name, quantity, results::Bar, statistics::Spread};

/// Figures of one system in all repetitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) values: Vec<f64>,
    /// The limit, if this system has one.
    pub(crate) limit: Option<f64>,
    /// Number of repetitions that met it.
    pub(crate) met: usize,
    /// Number of repetitions with a limit.
    pub(crate) judged: usize,
}

impl Figures {
    fn add(&mut self, bar: &Bar) {
        self.values.push(bar.value);
        self.limit = self.limit.or(bar.limit);
        self.judged += usize::from(bar.met.is_some());
        self.met += usize::from(bar.met == Some(true));
    }

    /// The median, with minimum and maximum if there are several.
    pub(crate) fn text(&self) -> String {
        match Spread::of(&self.values) {
            None => quantity::NONE.to_owned(),
            Some(spread) if spread.count == 1 => quantity::number(spread.median),
            Some(spread) => {
                let [least, greatest] = [spread.min, spread.max].map(quantity::number);
                if least == greatest {
                    return least;
                }
                format!("{} ({least} to {greatest})", quantity::number(spread.median))
            }
        }
    }
}

/// A bar on a link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BarGroup {
    pub(crate) id: String,
    pub(crate) link: Name,
    pub(crate) systems: BTreeMap<Name, Figures>,
}

impl BarGroup {
    /// Returns the limit of the system that has one.
    pub(crate) fn limit(&self) -> Option<f64> {
        self.systems.values().find_map(|figures| figures.limit)
    }

    /// Returns the number of repetitions that met the limit, and the number of repetitions; `None` without a
    /// limit.
    pub(crate) fn met(&self) -> Option<(usize, usize)> {
        let judged: usize = self.systems.values().map(|figures| figures.judged).sum();
        let met = self.systems.values().map(|figures| figures.met).sum();
        (judged > 0).then_some((met, judged))
    }
}

/// Returns all bars, sorted by the number at the beginning of their id (`2 …` before `10 …`), then by id and
/// link.
pub(crate) fn groups<'a>(bars: impl IntoIterator<Item = &'a Bar>) -> Vec<BarGroup> {
    let mut groups: BTreeMap<(u32, &str, Name), BTreeMap<Name, Figures>> = BTreeMap::new();
    for bar in bars {
        let key = (number_of(&bar.id), bar.id.as_str(), Name::link(&bar.link));
        let figures = groups.entry(key).or_default();
        figures.entry(Name::system(&bar.system)).or_default().add(bar);
    }
    groups
        .into_iter()
        .map(|((_, id, link), systems)| BarGroup {
            id: id.to_owned(),
            link,
            systems,
        })
        .collect()
}

fn number_of(id: &str) -> u32 {
    let digits: String = id.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(u32::MAX)
}

/// Returns all systems with a figure, in the order of tables.
pub(crate) fn systems(groups: &[BarGroup]) -> BTreeSet<Name> {
    groups
        .iter()
        .flat_map(|group| group.systems.keys().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(id: &str, value: f64, met: Option<bool>) -> Bar {
        Bar {
            id: id.to_owned(),
            link: "lte".to_owned(),
            system: "longhaul".to_owned(),
            value,
            limit: met.map(|_| 1.0),
            met,
        }
    }

    #[test]
    fn bars_are_sorted_by_number() {
        let bars = [
            bar("unnumbered", 0.0, None),
            bar("10 priorities", 0.0, None),
            bar("2 trace", 0.0, None),
        ];
        let ids: Vec<_> = groups(&bars).into_iter().map(|group| group.id).collect();
        assert_eq!(ids, ["2 trace", "10 priorities", "unnumbered"]);
    }

    #[test]
    fn repetitions_become_a_median_with_its_range() {
        let bars = [
            bar("1 queue", 0.5, Some(true)),
            bar("1 queue", 2.0, Some(false)),
            bar("1 queue", 0.75, Some(true)),
        ];
        let groups = groups(&bars);
        let [group] = groups.as_slice() else {
            panic!("one bar is one group")
        };
        assert_eq!(group.met(), Some((2, 3)));
        assert_eq!(group.limit(), Some(1.0));
        let texts: Vec<_> = group.systems.values().map(Figures::text).collect();
        assert_eq!(texts, ["0.750 (0.500 to 2.00)"]);
    }
}
