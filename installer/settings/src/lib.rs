//! Settings of Longhaul's programs.
//!
//! A program describes each of its settings once, as a [`Setting`]: names, form, default, meaning and reason.
//! Parser, `--help` and docs/CONFIGURATION.md are made from this description. [`Layers`] combines the values
//! of files, environment and flags. Each value has a [`Source`], and all mistakes are reported together.
//!
//! The order of the layers is: defaults, system file, user file, environment (`LONGHAUL_*`), flags. A file that
//! `--config` or `LONGHAUL_CONFIG` names replaces the system file and the user file. A later layer overrides an
//! earlier one, setting by setting.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod changes;
mod environment;
mod file;
mod flags;
mod form;
mod layers;
mod mistake;
mod nearest_key;
mod program;
mod reference;
mod report;
mod setting;
mod source;
pub mod units;
mod value;
mod without;

pub use changes::Changes;
pub use environment::Environment;
pub use flags::Flags;
pub use form::Form;
pub use layers::{DefaultFiles, Layers};
pub use mistake::{Mistake, Mistakes, Wrong};
pub use program::{Configured, EmptyVariables, FlagScope, Program};
pub use reference::{reference_table, table_after};
pub use report::{FileState, FoundVariable, Report, Resolved, Sources};
pub use setting::{Describe, Flag, Setting, TakesEffect};
pub use source::Source;
pub use value::{Value, list, quoted};
pub use without::WITHOUT;

#[cfg(test)]
mod tests;
