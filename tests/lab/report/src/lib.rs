//! Benchmark results: the file format and the report generated from it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod aggregate;
mod bars;
mod chart;
mod comparison;
mod markup;
mod measurements;
mod moments;
mod page;
mod paper_tables;
mod papers;
mod pictures;
mod quantity;
mod results;
mod section;
mod statistics;
mod tables;
mod targets;
mod terminal;
mod trace_plot;

pub use page::html;
pub use paper_tables::{PaperReport, PictureFigure};
pub use results::{
    AS_RECORDED, BESIDE_BULK, BESIDE_REQUESTS, Bar, Detail, DetailObject, Environment, HELD_STILL, Results,
    ResultsError, Row, Sample, Series, SeriesPoint, outstanding,
};
pub use statistics::{Spread, geometric_mean, mean, median, quantile};
pub use tables::{text_late, text_pictures, text_replays, text_times};
pub use targets::{Target, Verdict, targets};
pub use terminal::{markdown, text_summary};
pub use trace_plot::trace_plot;
