//! The project's targets, judged from rows: met, missed, or not measured.
mod conditions;
mod page_loads;
mod transport;

use std::collections::BTreeSet;

use crate::{measurements::Measurements, results::Results};

/// Whether a target is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The rows cover the target and stay within it.
    Met,
    /// A row that counts breaks it.
    Missed,
    /// The rows do not decide it.
    NotMeasured,
}

impl Verdict {
    /// The word for tables without colours.
    pub fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::NotMeasured => "not measured",
        }
    }
}

/// A target with what was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What is judged.
    pub what: String,
    /// The limit.
    pub goal: String,
    /// What others reach.
    pub to_beat: String,
    /// What the rows say.
    pub measured: String,
    /// Whether the goal is reached.
    pub verdict: Verdict,
}

/// Judges every target from these files.
pub fn targets(files: &[(String, Results)]) -> Vec<Target> {
    judge(&Measurements::of(files), files)
}

/// Judges every target from sorted rows. Files that must not be pooled are judged one by one.
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

/// A finding: what was measured and what follows.
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

    /// Decided by the rows.
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
