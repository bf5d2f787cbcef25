//! What was saved: in this run, and in periods that the agent keeps.
use serde::{Deserialize, Serialize};

use crate::{
    history::{Counts, Summary},
    savings::{ReportedFlows, SavedBytes},
};

/// Saved bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavingsStatus {
    /// The bytes since the agent's start, in total and by cause.
    #[serde(flatten)]
    pub saved: SavedBytes,
    /// What the gateway reported: the bytes of responses from origins and on the hop.
    #[serde(default)]
    pub flows: ReportedFlows,
    /// False if the gateway of the current session is of an older version, which does not report what origins
    /// sent: then only answers of the agent's cache are counted in this session.
    pub reported: bool,
    /// What was saved in periods, as kept in the state directory. At most a second behind.
    #[serde(default)]
    pub kept: KeptSavings,
}

/// What was saved in periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptSavings {
    /// The current day of this computer's calendar.
    pub today: PeriodSavings,
    /// Its month.
    pub month: PeriodSavings,
    /// Everything that was ever counted.
    pub all: PeriodSavings,
}

/// What was saved in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeriodSavings {
    /// The bytes, in total and by cause.
    #[serde(flatten)]
    pub saved: SavedBytes,
    /// What the gateway reported.
    pub flows: ReportedFlows,
    /// Bytes that crossed the hop towards the agent in sessions with reports.
    pub hop: u64,
    /// Estimated time that was saved, in s: what the saved bytes would have taken at `link_rate_bps` when they were
    /// counted. Round trips that were saved are not included.
    pub time_s: f64,
}

/// The contents of `/savings.json`: what was saved on each day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SavingsDays {
    /// The first day that was counted.
    pub since: Option<String>,
    /// The kept days that have counts, oldest first.
    pub days: Vec<DaySavings>,
}

/// What was saved on a day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DaySavings {
    /// Day of this computer's calendar: `2026-03-31`.
    pub day: String,
    /// What was saved.
    #[serde(flatten)]
    pub savings: PeriodSavings,
}

impl KeptSavings {
    pub(super) fn of(summary: &Summary) -> Self {
        let [today, month, all] =
            [summary.today, summary.month, summary.all].map(|counts| PeriodSavings::of(&counts));
        Self { today, month, all }
    }
}

impl PeriodSavings {
    fn of(counts: &Counts) -> Self {
        Self {
            saved: counts.saved(),
            flows: counts.totals().flows(),
            hop: counts.hop(),
            time_s: counts.saved_time_s(),
        }
    }
}

impl SavingsDays {
    /// Returns the days of the kept savings.
    pub(crate) fn of(summary: Summary) -> Self {
        let day = |(day, counts)| DaySavings {
            day,
            savings: PeriodSavings::of(&counts),
        };
        Self {
            since: summary.since,
            days: summary.days.into_iter().map(day).collect(),
        }
    }
}
