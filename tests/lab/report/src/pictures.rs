//! Differences between screenshots of a system's loads and those of direct loads.
use crate::{measurements::Measurements, results::Row};

/// Screenshots of one page by one system in one setting.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    /// Link, loader, state and unusual conditions.
    pub(crate) setting: String,
    pub(crate) page: String,
    pub(crate) system: String,
    /// Number of screenshots of this system.
    pub(crate) count: usize,
    /// Maximum difference between two direct loads.
    pub(crate) noise: Option<f64>,
    /// Difference of the load that differs most from direct loads.
    pub(crate) differs: Option<f64>,
    /// Mean absolute difference of the same load.
    pub(crate) mean: Option<f64>,
    /// True if no load differs more than direct loads do.
    pub(crate) no_worse: Option<bool>,
}

impl Compared {
    /// Returns the verdict as text.
    pub(crate) fn verdict(&self) -> &'static str {
        match self.no_worse {
            Some(true) => "no worse",
            Some(false) => "worse",
            None => "undecided",
        }
    }
}

/// Returns all pages with screenshots, in the order of tables.
pub(crate) fn compared(measurements: &Measurements<'_>) -> Vec<Compared> {
    let mut found = Vec::new();
    for (setting, systems) in &measurements.settings {
        let pages: std::collections::BTreeSet<&String> =
            systems.values().flat_map(|pages| pages.keys()).collect();
        for page in pages {
            for (variant, pages) in systems {
                let rows = pages.get(page).map_or(&[][..], |loads| &loads.rows);
                let rows: Vec<&Row> = rows
                    .iter()
                    .copied()
                    .filter(|row| row.screenshot.is_some())
                    .collect();
                if rows.is_empty() {
                    continue;
                }
                let farthest = rows
                    .iter()
                    .filter(|row| row.screenshot_differs.is_some_and(f64::is_finite))
                    .max_by(|one, other| {
                        let differs = |row: &Row| row.screenshot_differs.unwrap_or(0.0);
                        differs(one).total_cmp(&differs(other))
                    });
                let verdicts: Vec<bool> = rows.iter().filter_map(|row| row.screenshot_no_worse).collect();
                found.push(Compared {
                    setting: setting.label(),
                    page: page.clone(),
                    system: variant.label(),
                    count: rows.len(),
                    noise: rows.iter().find_map(|row| row.screenshot_noise),
                    differs: farthest.and_then(|row| row.screenshot_differs),
                    mean: farthest.and_then(|row| row.screenshot_mean_difference),
                    no_worse: (!verdicts.is_empty()).then(|| verdicts.iter().all(|verdict| *verdict)),
                });
            }
        }
    }
    found
}
