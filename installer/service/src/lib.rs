//! What agent and gateway have in common as services of an operating system.
//!
//! * [`settings`] describes `log` and `log-format`; [`Logs`] applies them.
//! * [`serve`] runs a [`Service`] until a stop signal: it tells the service manager the state (sd_notify(3)),
//!   reloads the configuration at SIGHUP, sends the watchdog's messages while every [`LivenessProbe`] is answered, and
//!   ends the service in order, within a limit.
//! * [`check_private_directory`] refuses a state directory in which others could replace the keys.
//! * [`Reloads`] compares a newly read configuration with the one in force, and logs what a reload does.
//!
//! The modules `*_unix` contain all code for Unix; the modules `*_portable` replace them elsewhere.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod exit;
#[cfg(not(unix))]
#[path = "journal_stream_portable.rs"]
mod journal_stream;
#[cfg(unix)]
#[path = "journal_stream_unix.rs"]
mod journal_stream;
mod liveness_probe;
mod log_filter;
mod log_format;
mod logs;
mod priority_format;
mod private_directory;
#[cfg(not(unix))]
#[path = "private_directory_portable.rs"]
mod private_directory_check;
#[cfg(unix)]
#[path = "private_directory_unix.rs"]
mod private_directory_check;
mod reloads;
mod service_manager;
#[cfg(not(unix))]
#[path = "service_manager_portable.rs"]
mod service_manager_of_process;
#[cfg(unix)]
#[path = "service_manager_unix.rs"]
mod service_manager_of_process;
pub mod settings;
#[cfg(not(unix))]
#[path = "signals_portable.rs"]
mod signals;
#[cfg(unix)]
#[path = "signals_unix.rs"]
mod signals;
mod supervision;

pub use exit::Exit;
pub use liveness_probe::{LivenessProbe, Probed, liveness_probe};
pub use log_filter::{FilterError, LogFilter};
pub use log_format::LogFormat;
pub use logs::{Logs, LogsError};
pub use private_directory::NotPrivate;
pub use private_directory_check::check_private_directory;
pub use reloads::{Reloaded, Reloads};
pub use service_manager::ServiceManager;
pub use signals::Signals;
pub use supervision::{Ended, Service, serve};

/// A request of the operating system to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Read the configuration again (SIGHUP).
    Reload,
    /// End (SIGINT, SIGTERM, Ctrl-C); the exit status of a program that ends at once because of it.
    Stop(u8),
}
