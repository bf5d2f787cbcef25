//! A scripted browser on kernel TCP, and the definition of a page load.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod load;
pub mod model;

pub use load::{ObjectClass, ObjectLoad, Outcome, PageLoad};
