//! What comparisons with direct connections say, in the status.
use serde::{Deserialize, Serialize};

use crate::holdout::{Kind, Regression};

/// Times through Longhaul compared with direct ones, in this network on links like the one in use, also in earlier runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HoldOutStatus {
    /// `tunnels` (time to the host's first bytes) or `pages` (time to the last response before a pause).
    pub kind: String,
    /// Visits on such links.
    pub visits: u64,
    /// Visits that went the other way than most, to be compared.
    pub held_out: u64,
    /// Number of comparisons; at most the last 64 count.
    pub comparisons: u64,
    /// Regression rate: share of the comparisons in which Longhaul was slower by more than 5 %; `null` without any.
    pub slower: Option<f64>,
    /// Median of time through Longhaul / direct time; `null` without any.
    pub median: Option<f64>,
    /// 95th percentile of the same ratio; `null` without any.
    pub p95: Option<f64>,
    /// True if connections go direct because Longhaul is slower.
    pub is_bypassed: bool,
}

impl HoldOutStatus {
    pub(super) fn of((kind, regression): (Kind, Regression)) -> Self {
        Self {
            kind: kind.name().to_owned(),
            visits: regression.visits,
            held_out: regression.held_out,
            comparisons: regression.comparisons as u64,
            slower: regression.slower,
            median: regression.median,
            p95: regression.p95,
            is_bypassed: regression.is_bypassed,
        }
    }

    /// The comparison in words.
    pub fn text(&self) -> String {
        let (Some(slower), Some(median), Some(p95)) = (self.slower, self.median, self.p95) else {
            return format!("{}: not compared yet", self.kind);
        };
        let direct = if self.is_bypassed {
            "; they go direct now"
        } else {
            ""
        };
        format!(
            "{}: slower in {:.0} % of {} comparisons, time {median:.2} of the direct one in the median ({p95:.2} at \
             most in 95 %){direct}",
            self.kind,
            slower * 100.0,
            self.comparisons,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_how_often_longhaul_is_slower() {
        let regression = Regression {
            comparisons: 12,
            slower: Some(0.25),
            median: Some(0.4),
            p95: Some(1.2),
            is_bypassed: true,
            ..Regression::default()
        };
        assert_eq!(
            HoldOutStatus::of((Kind::Page, regression)).text(),
            "pages: slower in 25 % of 12 comparisons, time 0.40 of the direct one in the median (1.20 at most in 95 %); \
             they go direct now"
        );
        let none = HoldOutStatus::of((Kind::Tunnel, Regression::default()));
        assert_eq!(none.text(), "tunnels: not compared yet");
    }
}
