//! The changes that switch Longhaul on, as data: which file or setting, how it is undone, how to check it.
//!
//! [`plan_linux::steps`] computes the steps from what was found ([`Survey`]) and wanted ([`Wishes`]).
//! [`Machine`] applies them: each is in the journal of the state directory, with the bytes before and after,
//! before a file is touched; undoing needs nothing but the journal, also after the process died at any moment.
//! Files are replaced as a whole, so they are always complete.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod command;
mod disk;
mod error;
mod firefox_policies;
mod firefox_preferences;
mod journal;
mod keyed_lines;
mod machine;
mod nss;
#[cfg(not(unix))]
mod permissions_portable;
#[cfg(unix)]
mod permissions_unix;
mod plan;
pub mod plan_linux;
pub mod plan_macos;
pub mod plan_windows;
mod running_linux;
mod state_directories;
mod step;
mod survey;

pub use command::{CommandResult, CommandRunner, SystemCommands};
pub use error::ChangeError;
pub use keyed_lines::value as configured_value;
pub use machine::{JournalledStep, Machine, Outcome};
pub use plan::{Accelerate, Authority, Browsers, NICKNAME, Wishes};
pub use running_linux::{RunningBrowser, running_browsers};
pub use step::{Browser, Change, CommandLine, FirefoxPolicies, KeyForm, PolicyAuthority, Step, quoted};
pub use survey::{Places, Survey};
