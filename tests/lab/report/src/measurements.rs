//! The rows of all files, grouped into comparable sets.
mod setting;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    quantity,
    results::{Results, Row},
    statistics::{Spread, median},
};

pub(crate) use setting::{Name, Setting, TECHNIQUES, Variant};

/// Size that the ideal protocol transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ideal {
    Gzip,
    Lossy,
    Raw,
}

impl Ideal {
    /// Returns the ideal's time for this load.
    pub(crate) fn seconds(self, row: &Row) -> f64 {
        match self {
            Self::Gzip => row.ideal_gzip_s,
            Self::Lossy => row.ideal_lossy_s,
            Self::Raw => row.ideal_raw_s,
        }
    }

    /// Returns the ideal's bytes for this load, derived from its time: the row contains the bytes of the
    /// lossy ideal, and the three ideals differ only by bytes divided by rate.
    pub(crate) fn bytes(self, row: &Row) -> Option<f64> {
        let rate = quantity::count(row.link_down_bps);
        let bytes = lossy_bytes(row) + (self.seconds(row) - row.ideal_lossy_s) * rate / 8.0;
        (rate > 0.0 && bytes.is_finite() && bytes > 0.0).then_some(bytes)
    }
}

/// Returns the part of the ideal's time that is not transfer: DNS, the hop's round trip and one of the
/// Internet's.
pub(crate) fn ideal_latency(row: &Row) -> Option<f64> {
    let rate = quantity::count(row.link_down_bps);
    let seconds = row.ideal_lossy_s - 8.0 * lossy_bytes(row) / rate;
    (rate > 0.0 && seconds.is_finite()).then_some(seconds.max(0.0))
}

fn lossy_bytes(row: &Row) -> f64 {
    quantity::count(row.bytes_gzip_text) + quantity::count(row.bytes_image_delivered)
}

/// The repetitions of one page in one setting by one system.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads<'a> {
    pub(crate) rows: Vec<&'a Row>,
}

/// Returns true if a load is valid for a median: nothing failed, objects arrived, and the time is positive
/// and finite.
pub(crate) fn is_valid(row: &Row) -> bool {
    row.failed == 0 && row.objects > 0 && row.time_s.is_finite() && row.time_s > 0.0
}

impl<'a> Loads<'a> {
    /// Returns the valid loads.
    pub(crate) fn valid(&self) -> impl Iterator<Item = &'a Row> + '_ {
        self.rows.iter().copied().filter(|row| is_valid(row))
    }

    /// Returns the number of invalid loads.
    pub(crate) fn failed(&self) -> usize {
        self.rows.iter().filter(|row| !is_valid(row)).count()
    }

    /// Returns the spread of a figure over the valid loads.
    pub(crate) fn spread(&self, figure: impl Fn(&Row) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.valid().filter_map(figure).collect::<Vec<_>>())
    }

    /// Returns the median of a figure over the valid loads.
    pub(crate) fn median(&self, figure: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        median(&self.valid().filter_map(figure).collect::<Vec<_>>())
    }

    /// Returns the load time.
    pub(crate) fn time(&self) -> Option<Spread> {
        self.spread(|row| Some(row.time_s))
    }

    /// Returns the load time divided by the ideal's.
    pub(crate) fn ratio(&self, ideal: Ideal) -> Option<Spread> {
        self.spread(|row| quantity::quotient(row.time_s, ideal.seconds(row)))
    }
}

/// Page loads by page.
pub(crate) type Pages<'a> = BTreeMap<String, Loads<'a>>;
/// Page loads by system and page.
pub(crate) type Systems<'a> = BTreeMap<Variant, Pages<'a>>;

/// The rows of all files, grouped.
#[derive(Debug, Default)]
pub(crate) struct Measurements<'a> {
    pub(crate) settings: BTreeMap<Setting, Systems<'a>>,
    pub(crate) rows: usize,
}

impl<'a> Measurements<'a> {
    /// Groups the rows of these files.
    pub(crate) fn of(files: &'a [(String, Results)]) -> Self {
        let apart = files_must_stay_apart(files);
        let mut sorted = Self::default();
        for (name, results) in files {
            for row in &results.rows {
                let variant = Variant::of(row, apart.then(|| name.clone()));
                let systems = sorted.settings.entry(Setting::of(row)).or_default();
                let pages = systems.entry(variant).or_default();
                pages.entry(row.page.clone()).or_default().rows.push(row);
                sorted.rows += 1;
            }
        }
        sorted
    }

    /// Returns the links with the settings on each.
    pub(crate) fn by_link(&self) -> BTreeMap<&Name, Vec<(&Setting, &Systems<'a>)>> {
        let mut links: BTreeMap<&Name, Vec<(&Setting, &Systems<'a>)>> = BTreeMap::new();
        for (setting, systems) in &self.settings {
            links.entry(&setting.link).or_default().push((setting, systems));
        }
        links
    }

    /// Returns the loads without Longhaul in this setting: system `direct`. Without a session `first` and
    /// `cold` are equal, so either can replace the other. Of several files the variant's own is preferred.
    pub(crate) fn baseline(&self, setting: &Setting, variant: &Variant) -> Option<&Pages<'a>> {
        let other = match setting.state.text.as_str() {
            "cold" => Some("first"),
            "first" => Some("cold"),
            _ => None,
        };
        let states = std::iter::once(setting.state.text.as_str()).chain(other);
        states
            .filter_map(|state| self.direct(setting, state, variant))
            .next()
    }

    fn direct(&self, setting: &Setting, state: &str, variant: &Variant) -> Option<&Pages<'a>> {
        let systems = self.settings.get(&Setting {
            state: Name::state(state),
            ..setting.clone()
        })?;
        let mut found = systems
            .iter()
            .filter(|(candidate, _)| candidate.system.text == "direct");
        let first = found.clone().next();
        found
            .find(|(candidate, _)| candidate.source == variant.source)
            .or(first)
            .map(|(_, pages)| pages)
    }

    /// Returns the names of all systems in the order of tables.
    pub(crate) fn labels(&self) -> Vec<String> {
        let variants: BTreeSet<&Variant> = self.settings.values().flat_map(BTreeMap::keys).collect();
        variants.into_iter().map(Variant::label).collect()
    }
}

/// Returns true if files must not be combined: files of one commit are repetitions; files of different
/// commits with the same condition are a comparison, and combining them would hide the differences.
fn files_must_stay_apart(files: &[(String, Results)]) -> bool {
    let mut seen: BTreeMap<(Setting, Variant, &str), &str> = BTreeMap::new();
    files.iter().any(|(_, results)| {
        results.rows.iter().any(|row| {
            let commit = results.environment.commit.as_str();
            let condition = (Setting::of(row), Variant::of(row, None), row.page.as_str());
            *seen.entry(condition).or_insert(commit) != commit
        })
    })
}
