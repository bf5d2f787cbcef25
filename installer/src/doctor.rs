//! `longhaul doctor`: finds what is wrong on this device, and names one command for each finding.
//!
//! `gather` collects the facts in a bounded time, without changing anything, with or without a running agent
//! and a network. Each check ([`CHECKS`]) judges them by itself. The only traffic goes to the gateway: by the
//! agent, and one plain HTTP request to the gateway's host (or to `--portal-url`) that looks for a captive
//! portal while the gateway does not answer.
mod checks;
mod facts;
mod gather;
mod hop;
mod port_holder;
mod portal;
mod report;
#[cfg(test)]
mod tests;

pub use checks::{CHECKS, Check, Finding, Place, Verdict};
pub use facts::{BrowserTrust, BypassedHost, Facts, Hop, PortHolder, Portal, Storage, TakenPort};
pub use report::Report;

use crate::{
    cli::DoctorArgs,
    switch::{SwitchError, Target},
};

/// Looks at this device and judges it.
///
/// # Errors
/// The directories of this device are unknown.
pub fn examine(args: &DoctorArgs) -> Result<Report, SwitchError> {
    let target = Target::of(&args.places)?;
    Ok(Report::of(&gather::gather(&target, args.portal_url.as_ref())))
}
