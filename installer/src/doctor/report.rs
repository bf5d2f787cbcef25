//! The report of the checks, for people and for tools.
use std::fmt::Write as _;

use serde_json::json;

use super::{
    checks::{CHECKS, Check, Finding, Place, Verdict},
    facts::Facts,
};

/// The verdicts of all checks.
#[derive(Clone, Debug)]
pub struct Report {
    verdicts: Vec<(Check, Verdict)>,
}

impl Report {
    /// Judges the facts by all checks.
    pub fn of(facts: &Facts) -> Self {
        let verdicts = CHECKS.iter().map(|check| (*check, (check.judge)(facts)));
        Self {
            verdicts: verdicts.collect(),
        }
    }

    /// The findings with their checks.
    pub fn findings(&self) -> impl Iterator<Item = (&Check, &Finding)> {
        self.verdicts.iter().flat_map(|(check, verdict)| {
            let findings: &[Finding] = match verdict {
                Verdict::Findings(findings) => findings,
                Verdict::Healthy | Verdict::Skipped(_) => &[],
            };
            findings.iter().map(move |finding| (check, finding))
        })
    }

    /// True if nothing was found.
    pub fn is_healthy(&self) -> bool {
        self.findings().next().is_none()
    }

    /// The report for people.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for (check, verdict) in &self.verdicts {
            let _infallible = match verdict {
                Verdict::Healthy => writeln!(out, "ok       {}", check.healthy),
                Verdict::Skipped(why) => writeln!(out, "skipped  {} ({why})", check.healthy),
                Verdict::Findings(findings) => findings.iter().try_for_each(|finding| {
                    writeln!(out, "FINDING  {}\n         {}", finding.what, mend(finding))
                }),
            };
        }
        let number = self.findings().count();
        let _infallible = match number {
            0 => writeln!(out, "\nNothing is wrong."),
            1 => writeln!(out, "\n1 finding."),
            _ => writeln!(out, "\n{number} findings; mend the first one first."),
        };
        out
    }

    /// The report as one line of JSON.
    pub fn to_json(&self) -> String {
        let findings: Vec<_> = self
            .findings()
            .map(|(check, finding)| {
                json!({
                    "check": check.id,
                    "kind": finding.kind,
                    "what": finding.what,
                    "mend": finding.mend,
                    "place": place(finding.place),
                })
            })
            .collect();
        let checks = self.verdicts.iter().map(|(check, verdict)| {
            let (result, why) = match verdict {
                Verdict::Healthy => ("healthy", None),
                Verdict::Skipped(why) => ("skipped", Some(why)),
                Verdict::Findings(_) => ("finding", None),
            };
            json!({ "check": check.id, "result": result, "why": why })
        });
        let all = json!({
            "healthy": self.is_healthy(),
            "findings": findings,
            "checks": checks.collect::<Vec<_>>(),
        });
        format!("{all}\n")
    }
}

fn mend(finding: &Finding) -> String {
    match finding.place {
        Place::Here => format!("-> {}", finding.mend),
        Place::Gateway => format!("-> on the gateway, by its operator: {}", finding.mend),
    }
}

const fn place(place: Place) -> &'static str {
    match place {
        Place::Here => "here",
        Place::Gateway => "gateway",
    }
}
