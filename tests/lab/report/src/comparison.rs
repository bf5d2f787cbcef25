//! Comparison of a system with the baseline of two connections, as in the papers.
use crate::{measurements::Pages, quantity, statistics::mean};

/// The papers' four factors. Each is the baseline divided by the system (bandwidth: the inverse), so that
/// higher is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MeasuredFactors {
    /// Number of pages that both loaded.
    pub(crate) pages: usize,
    pub(crate) time: Option<f64>,
    pub(crate) down: Option<f64>,
    pub(crate) up: Option<f64>,
    pub(crate) bandwidth: Option<f64>,
}

impl MeasuredFactors {
    /// Returns the factors over the pages that both loaded; `None` if there is no such page.
    pub(crate) fn of(pages: &Pages<'_>, baseline: &Pages<'_>) -> Option<Self> {
        let mut sums = [Pair::default(), Pair::default(), Pair::default()];
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let mut count = 0;
        for (page, loads) in pages {
            let Some(base) = baseline.get(page) else { continue };
            let (Some(time), Some(base_time)) = (loads.time(), base.time()) else {
                continue;
            };
            let down = |loads: &crate::measurements::Loads<'_>| {
                loads
                    .median(|row| Some(quantity::count(row.bytes_down)))
                    .unwrap_or(f64::NAN)
            };
            let up = |loads: &crate::measurements::Loads<'_>| {
                loads
                    .median(|row| Some(quantity::count(row.bytes_up)))
                    .unwrap_or(f64::NAN)
            };
            count += 1;
            sums[0].add(base_time.median, time.median);
            sums[1].add(down(base), down(loads));
            sums[2].add(up(base), up(loads));
            // The page's bytes without optimisation, for either system.
            ours.push(down(base) / time.median);
            theirs.push(down(base) / base_time.median);
        }
        let bandwidth = mean(&ours)
            .zip(mean(&theirs))
            .and_then(|(ours, theirs)| quantity::quotient(ours, theirs));
        let [time, down, up] = sums.map(|pair| quantity::quotient(pair.baseline, pair.system));
        (count > 0).then_some(Self {
            pages: count,
            time,
            down,
            up,
            bandwidth,
        })
    }
}

#[derive(Clone, Copy, Default)]
struct Pair {
    baseline: f64,
    system: f64,
}

impl Pair {
    fn add(&mut self, baseline: f64, system: f64) {
        self.baseline += baseline;
        self.system += system;
    }
}

/// Returns the share of the baseline's time that a system saves on a page; negative if it is slower.
pub(crate) fn improvement(baseline_s: f64, system_s: f64) -> Option<f64> {
    let saved = 1.0 - system_s / baseline_s;
    (saved.is_finite() && baseline_s > 0.0).then_some(saved)
}

/// Returns the median time of a page, if it has a valid load.
pub(crate) fn page_time(pages: &Pages<'_>, page: &str) -> Option<f64> {
    pages.get(page)?.time().map(|time| time.median)
}
