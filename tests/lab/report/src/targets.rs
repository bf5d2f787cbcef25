//! The project's targets, decided by rows: met, missed, or not measured.
mod conditions;
mod page_loads;
mod transport;

use std::collections::BTreeSet;

use crate::{measurements::Measurements, results::Results};

/// Verdict on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The rows cover the target and meet it.
    Met,
    /// A valid row misses it.
    Missed,
    /// The rows do not decide it.
    NotMeasured,
}

impl Verdict {
    /// Returns the verdict as text, for tables without colours.
    pub fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::NotMeasured => "not measured",
        }
    }
}

/// A target with its measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Description.
    pub what: String,
    /// The limit.
    pub goal: String,
    /// Results of other systems.
    pub to_beat: String,
    /// Result of the rows.
    pub measured: String,
    /// Verdict on the goal.
    pub verdict: Verdict,
}

/// Decides every target from these files.
pub fn targets(files: &[(String, Results)]) -> Vec<Target> {
    judge(&Measurements::of(files), files)
}

/// Decides every target from grouped rows. Files that must not be combined are decided separately.
pub(crate) fn judge(measurements: &Measurements<'_>, files: &[(String, Results)]) -> Vec<Target> {
    let variants = measurements.settings.values().flat_map(|systems| systems.keys());
    let mut sources: BTreeSet<Option<&str>> = variants.map(|variant| variant.source()).collect();
    if sources.is_empty() {
        sources.insert(None);
    }
    let mut judged = Vec::new();
    for source in sources {
        let rows = conditions::Judged { measurements, source };
        let mut targets = page_loads::judge(&rows);
        if let Some(source) = source {
            for target in &mut targets {
                target.what.push_str(&format!(" [{source}]"));
            }
        }
        judged.extend(targets);
    }
    judged.extend(transport::judge(files));
    judged
}

/// Measurement and verdict.
pub(crate) struct Finding {
    measured: String,
    verdict: Verdict,
}

impl Finding {
    fn unmeasured(why: &str) -> Self {
        Self {
            measured: why.to_owned(),
            verdict: Verdict::NotMeasured,
        }
    }

    /// Creates a finding that is decided by the rows.
    fn decided(measured: String, met: bool) -> Self {
        Self {
            measured,
            verdict: if met { Verdict::Met } else { Verdict::Missed },
        }
    }

    fn target(self, what: &str, goal: &str, to_beat: &str) -> Target {
        Target {
            what: what.to_owned(),
            goal: goal.to_owned(),
            to_beat: to_beat.to_owned(),
            measured: self.measured,
            verdict: self.verdict,
        }
    }
}

#[cfg(test)]
mod tests;
