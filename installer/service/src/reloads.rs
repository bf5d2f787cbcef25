//! Reloads of the configuration.
use std::fmt::Write as _;

use longhaul_settings::{Changes, Mistakes, Program, Report};
use tracing::{error, info, warn};

/// The configuration in force, for comparison with a newly read one.
#[derive(Clone)]
pub struct Reloads {
    program: &'static Program,
    started: Report,
    applied: Report,
}

/// Result of a reload, for the service manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// A text for people.
    pub status: String,
}

impl Reloads {
    /// The configuration with which the program started.
    pub fn new(program: &'static Program, started: Report) -> Self {
        Self {
            program,
            applied: started.clone(),
            started,
        }
    }

    /// Logs the effect of a newly read configuration that the program has applied. `further` are the changed
    /// settings with secret values that take effect at the next start: reports do not contain their values.
    pub fn applied(&mut self, read: Report, further: &[&'static str]) -> Reloaded {
        let mut changes = Changes::between(self.program, &self.started, &self.applied, &read);
        changes.at_next_start.extend(further);
        self.applied = read;
        for key in &changes.at_next_start {
            warn!("`{key}` changed: takes effect at the next start");
        }
        let mut status = match changes.at_once.as_slice() {
            [] => "the configuration is reloaded, no setting changed".to_owned(),
            keys => format!("the configuration is reloaded, changed: {}", keys.join(", ")),
        };
        info!("{status}");
        if !changes.at_next_start.is_empty() {
            let keys = changes.at_next_start.join(", ");
            // Writing to a text cannot fail.
            let _written = write!(status, "; at the next start: {keys}");
        }
        Reloaded { status }
    }

    /// Logs the mistakes of a newly read configuration; the previous one stays in force.
    pub fn refused(mistakes: &Mistakes) -> Reloaded {
        for mistake in &mistakes.list {
            error!("{mistake}");
        }
        Self::failed("the configuration has mistakes")
    }

    /// Logs that a newly read configuration cannot be applied; the previous one stays in force.
    pub fn failed(problem: &str) -> Reloaded {
        let status = format!("not reloaded, the previous configuration stays in force: {problem}");
        error!("{status}");
        Reloaded { status }
    }
}
