//! What a reader sees before a page is complete: its first byte and its paints.
use crate::{
    measurements::{Loads, Pages},
    quantity,
    results::Row,
    statistics::median,
};

/// A figure of a row, if it is known.
pub(crate) type Figure = fn(&Row) -> Option<f64>;

/// Columns of tables with load times, with the figures of a row. Only some browsers paint.
pub(crate) const MOMENTS: [(&str, Figure); 3] = [
    ("first byte", |row| row.first_byte_s),
    ("first paint", |row| row.first_paint_s),
    ("largest paint", |row| row.largest_paint_s),
];

/// Returns the medians over the repetitions of a page, in seconds.
pub(crate) fn of_page(loads: &Loads<'_>) -> [String; 3] {
    MOMENTS.map(|(_, figure)| quantity::number_or_none(loads.median(figure)))
}

/// Returns the medians over pages of a figure.
pub(crate) fn over_pages(pages: &Pages<'_>, figure: Figure) -> String {
    let figures: Vec<f64> = pages.values().filter_map(|loads| loads.median(figure)).collect();
    quantity::number_or_none(median(&figures))
}

/// Returns the known moments of a page with their names.
pub(crate) fn words(loads: &Loads<'_>) -> String {
    let known = MOMENTS
        .iter()
        .filter_map(|(name, figure)| Some(format!("{name} {}", quantity::number(loads.median(figure)?))));
    known.collect::<Vec<_>>().join(", ")
}
