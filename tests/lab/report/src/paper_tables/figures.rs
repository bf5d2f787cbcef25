//! Medians of the measured loads.
use crate::{
    measurements::is_valid,
    quantity,
    results::{Results, Row},
    statistics::{mean, median},
};

/// The loads of which a figure is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loads<'p> {
    pub(super) link: &'p str,
    pub(super) system: &'p str,
    /// Image level; `None` for any, for systems that convert no images.
    pub(super) level: Option<&'p str>,
    pub(super) state: &'p str,
    /// Share of packets lost in the Internet.
    pub(super) loss: f64,
    /// Unusual conditions.
    pub(super) conditions: &'p str,
    /// Techniques that were switched off, separated by commas.
    pub(super) without: &'p str,
    /// True if no other state may take the place of `cold`.
    pub(super) is_exact: bool,
}

impl<'p> Loads<'p> {
    /// Loads in state `cold` under the usual conditions.
    pub(super) const fn of(link: &'p str, system: &'p str) -> Self {
        Self {
            link,
            system,
            level: None,
            state: "cold",
            loss: 0.0,
            conditions: "",
            without: "",
            is_exact: false,
        }
    }

    pub(super) const fn at(self, level: &'p str) -> Self {
        Self {
            level: Some(level),
            ..self
        }
    }

    /// Loads with a gateway that knows the page, which a short run makes instead of loads in state `cold`: for tables whose
    /// states do not matter otherwise.
    const WARM_GATEWAY: [&'static str; 2] = ["second-device", "revisit"];

    /// Loads in exactly this state.
    pub(super) const fn in_state(self, state: &'p str) -> Self {
        Self {
            state,
            is_exact: true,
            ..self
        }
    }

    pub(super) const fn without(self, without: &'p str) -> Self {
        Self { without, ..self }
    }

    fn contains(&self, row: &Row) -> bool {
        row.link == self.link
            && row.system == self.system
            && row.loader == "model"
            && row.conditions == self.conditions
            && (row.internet_loss - self.loss).abs() < 1e-9
            && row.without.join(",") == self.without
            && self.level.is_none_or(|level| row.image_level == level)
    }
}

/// Means and medians over all loads of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Average {
    pub(super) mean: f64,
    pub(super) median: f64,
}

/// The rows of all results files.
#[derive(Debug)]
pub(super) struct Figures<'r> {
    rows: Vec<&'r Row>,
}

impl<'r> Figures<'r> {
    pub(super) fn of(files: &'r [(String, Results)]) -> Self {
        Self {
            rows: files.iter().flat_map(|(_, results)| &results.rows).collect(),
        }
    }

    /// Valid loads in their state. Without loads in state `cold`, those with a warm gateway take their place.
    fn valid(&self, loads: Loads<'_>) -> impl Iterator<Item = &'r Row> {
        let in_state = |state: &str| {
            self.rows
                .iter()
                .any(|row| row.state == state && loads.contains(row))
        };
        let mut state = loads.state;
        if !loads.is_exact && state == "cold" && !in_state(state) {
            let warm = Loads::WARM_GATEWAY.into_iter().find(|state| in_state(state));
            state = warm.unwrap_or(state);
        }
        self.rows
            .iter()
            .copied()
            .filter(move |row| row.state == state && loads.contains(row) && is_valid(row))
    }

    /// Median of a figure over the loads of a page.
    pub(super) fn median(&self, loads: Loads<'_>, page: &str, figure: impl Fn(&Row) -> f64) -> Option<f64> {
        let of_page = self.valid(loads).filter(|row| row.page == page);
        median(&of_page.map(figure).collect::<Vec<_>>())
    }

    /// Median load time of a page.
    pub(super) fn time(&self, loads: Loads<'_>, page: &str) -> Option<f64> {
        self.median(loads, page, |row| row.time_s)
    }

    /// Mean and median over all loads of these pages; `None` if a page has no valid load.
    pub(super) fn average(&self, loads: Loads<'_>, pages: &[&str]) -> Option<Average> {
        let mut times = Vec::new();
        for page in pages {
            let of_page: Vec<f64> = self
                .valid(loads)
                .filter(|row| row.page == *page)
                .map(|row| row.time_s)
                .collect();
            if of_page.is_empty() {
                return None;
            }
            times.extend(of_page);
        }
        Some(Average {
            mean: mean(&times)?,
            median: median(&times)?,
        })
    }

    /// Pages that have a valid load of each of these.
    pub(super) fn common_pages(&self, all: &[Loads<'_>]) -> Vec<&'r str> {
        let mut pages: Vec<&str> = self.rows.iter().map(|row| row.page.as_str()).collect();
        pages.sort_unstable();
        pages.dedup();
        pages.retain(|page| {
            all.iter()
                .all(|loads| self.valid(*loads).any(|row| row.page == *page))
        });
        pages
    }

    /// The papers' factors against `base`: time, bytes down, bytes up, perceived bandwidth, and the number of pages.
    pub(super) fn factors(&self, loads: Loads<'_>, base: Loads<'_>) -> Option<[f64; 5]> {
        let pages = self.common_pages(&[loads, base]);
        let (mut sums, mut rates) = ([[0.0; 2]; 3], [Vec::new(), Vec::new()]);
        for page in &pages {
            for (side, of) in [base, loads].into_iter().enumerate() {
                let time = self.time(of, page)?;
                let down = self.median(of, page, |row| quantity::count(row.bytes_down))?;
                let up = self.median(of, page, |row| quantity::count(row.bytes_up))?;
                for (sum, figure) in sums.iter_mut().zip([time, down, up]) {
                    sum[side] += figure;
                }
                let unoptimised = self.median(base, page, |row| quantity::count(row.bytes_down))?;
                rates[side].push(unoptimised / time);
            }
        }
        let [time, down, up] = sums.map(|[base, ours]| quantity::quotient(base, ours));
        let bandwidth = quantity::quotient(mean(&rates[1])?, mean(&rates[0])?)?;
        Some([time?, down?, up?, bandwidth, quantity::length(pages.len())])
    }

    /// Number of loads with failures.
    pub(super) fn failed(&self) -> usize {
        self.rows.iter().filter(|row| !is_valid(row)).count()
    }

    /// Number of loads.
    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Losses in the Internet with which one of these was measured, ascending.
    pub(super) fn losses(&self, loads: Loads<'_>) -> Vec<f64> {
        let mut losses: Vec<f64> = self
            .rows
            .iter()
            .filter(|row| row.link == loads.link && row.system == loads.system)
            .map(|row| row.internet_loss)
            .collect();
        losses.sort_by(f64::total_cmp);
        losses.dedup_by(|one, other| (*one - *other).abs() < 1e-9);
        losses
    }
}
