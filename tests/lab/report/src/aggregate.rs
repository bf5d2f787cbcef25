//! Figures of one system in one setting, over all its pages.
use crate::{
    measurements::{Ideal, Pages, ideal_latency},
    quantity,
    results::Row,
    statistics::{Spread, geometric_mean, median},
};

/// TCP payload divided by IP packet length at an MTU of 1500: the share of the raw rate that an FTP download
/// of the paper reaches.
const GOODPUT_SHARE: f64 = 1460.0 / 1500.0;

/// Figures over pages; each page counts once, with its median.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    /// Pages with a valid load.
    pub(crate) pages: usize,
    /// All loads.
    pub(crate) loads: usize,
    /// Invalid loads.
    pub(crate) failed: usize,
    /// Load time divided by the gzip ideal.
    pub(crate) gzip: Option<Spread>,
    /// Geometric mean of the same.
    pub(crate) geometric_mean: Option<f64>,
    /// Median load time divided by the gzip ideal at the goodput of an FTP download.
    pub(crate) goodput: Option<f64>,
    /// Median load time divided by the lossy ideal.
    pub(crate) lossy: Option<f64>,
    /// The page with the highest ratio to the gzip ideal.
    pub(crate) worst: Option<(String, f64)>,
    /// Geometric mean of direct's time divided by this system's, over the common pages.
    pub(crate) gain: Option<f64>,
    /// Median of bytes down divided by the gzip ideal's bytes.
    pub(crate) down: Option<f64>,
    /// Median of bytes up divided by bytes down.
    pub(crate) up_share: Option<f64>,
}

impl Aggregate {
    /// Computes the figures of these pages; `baseline` is system `direct` in the same setting.
    pub(crate) fn of(pages: &Pages<'_>, baseline: Option<&Pages<'_>>) -> Self {
        let by_page = |figure: &dyn Fn(&Row) -> Option<f64>| -> Vec<f64> {
            pages.values().filter_map(|loads| loads.median(figure)).collect()
        };
        let gzip = by_page(&|row| quantity::quotient(row.time_s, row.ideal_gzip_s));
        let worst = pages
            .iter()
            .filter_map(|(page, loads)| Some((page.clone(), loads.ratio(Ideal::Gzip)?.median)))
            .max_by(|left, right| left.1.total_cmp(&right.1));
        let gains: Vec<f64> = pages
            .iter()
            .filter_map(|(page, loads)| {
                let direct = baseline?.get(page)?.time()?.median;
                quantity::quotient(direct, loads.time()?.median)
            })
            .collect();
        Self {
            pages: pages.values().filter(|loads| loads.time().is_some()).count(),
            loads: pages.values().map(|loads| loads.rows.len()).sum(),
            failed: pages.values().map(|loads| loads.failed()).sum(),
            gzip: Spread::of(&gzip),
            geometric_mean: geometric_mean(&gzip),
            goodput: median(&by_page(&goodput_ratio)),
            lossy: median(&by_page(&|row| quantity::quotient(row.time_s, row.ideal_lossy_s))),
            worst,
            gain: geometric_mean(&gains),
            down: median(&by_page(&|row| {
                quantity::quotient(quantity::count(row.bytes_down), Ideal::Gzip.bytes(row)?)
            })),
            up_share: median(&by_page(&|row| {
                quantity::quotient(quantity::count(row.bytes_up), quantity::count(row.bytes_down))
            })),
        }
    }

    /// Returns the median over pages of another figure.
    pub(crate) fn median(&self, pages: &Pages<'_>, figure: fn(&Row) -> f64) -> Option<f64> {
        let values: Vec<f64> = pages
            .values()
            .filter_map(|loads| loads.median(|row| Some(figure(row))))
            .collect();
        median(&values)
    }
}

fn goodput_ratio(row: &Row) -> Option<f64> {
    let latency = ideal_latency(row)?;
    quantity::quotient(
        row.time_s,
        latency + (row.ideal_gzip_s - latency).max(0.0) / GOODPUT_SHARE,
    )
}
