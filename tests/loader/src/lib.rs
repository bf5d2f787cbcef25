//! A scripted browser on kernel TCP, and what a page load is.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod load;
pub mod model;

pub use load::{ObjectClass, ObjectLoad, Outcome, PageLoad};
