//! The result of `longhaul demo --once`.
use longhaul_types::{LinkProfile, ParseLinkError};
use serde::Serialize;

use super::scrape::{Counters, Savings};
use longhaul_replay::page::{PageLoad, ideal_time};

/// Result of one page load, as printed by `--json`. The keys are stable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// URL of the page.
    pub url: String,
    /// Number of requested objects that the origin has, including the page itself and failed objects.
    pub objects: usize,
    /// Number of objects that did not arrive, or that differ from the origin's.
    pub failed: usize,
    /// Bytes on the hop towards the agent.
    pub bytes_down: u64,
    /// Bytes on the hop towards the gateway.
    pub bytes_up: u64,
    /// Bytes that the gateway received from origins.
    pub origin_bytes: u64,
    /// Duration of the load in seconds.
    pub time_s: f64,
    /// Only with an emulated link: duration of the load without Longhaul in seconds; null if an object failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_direct_s: Option<Option<f64>>,
    /// Duration of the ideal one-shot download over GPRS (profile gprs-3+1) in seconds.
    pub ideal_gprs_s: f64,
    /// Duration of the ideal one-shot download over UMTS (profile umts-384) in seconds.
    pub ideal_umts_s: f64,
    /// Saved bytes; their sum is `origin_bytes` less `bytes_down`, within 1 %, if nothing came from the agent's cache.
    pub savings: Savings,
    /// Failed objects and reasons.
    pub errors: Vec<ObjectError>,
}

/// A failed object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectError {
    /// URL of the object.
    pub url: String,
    /// Reason of the failure.
    pub reason: String,
}

impl Report {
    pub(super) fn new(
        load: &PageLoad,
        direct: Option<&PageLoad>,
        before: Counters,
        after: Counters,
    ) -> Result<Self, ParseLinkError> {
        let size = load.ideal_size();
        let ideal = |profile: &str| {
            let link: LinkProfile = profile.parse()?;
            Ok(milliseconds(ideal_time(&link, size).as_secs_f64()))
        };
        let failures = load.failures().map(|(url, reason)| ObjectError {
            url: url.to_string(),
            reason: reason.to_owned(),
        });
        let errors: Vec<_> = failures.collect();
        Ok(Self {
            url: load.url.to_string(),
            objects: load.objects.len() - load.missing(),
            failed: errors.len(),
            bytes_down: after.down.saturating_sub(before.down),
            bytes_up: after.up.saturating_sub(before.up),
            origin_bytes: after.origin.saturating_sub(before.origin),
            time_s: milliseconds(load.time.as_secs_f64()),
            time_direct_s: direct.map(|direct| {
                let is_whole = direct.failures().next().is_none();
                is_whole.then(|| milliseconds(direct.time.as_secs_f64()))
            }),
            ideal_gprs_s: ideal("gprs-3+1")?,
            ideal_umts_s: ideal("umts-384")?,
            savings: after.savings.since(before.savings),
            errors,
        })
    }
}

fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::scrape::SavingsByCause;
    use longhaul_replay::page::{Object, Outcome};

    #[test]
    fn json_has_the_fixed_keys_in_order_and_numbers_as_numbers() {
        let object = |path: &str, outcome| Object {
            url: format!("http://a.test/{path}").parse().unwrap(),
            outcome,
        };
        let load = PageLoad {
            url: "http://a.test/".parse().unwrap(),
            objects: vec![
                object(
                    "",
                    Outcome::Loaded {
                        media_type: "image/png".to_owned(),
                        body: Bytes::from(vec![0; 48_000]),
                    },
                ),
                object("b", Outcome::Failed("gone \"away\"\n".to_owned())),
                object("c", Outcome::Missing),
            ],
            time: Duration::from_micros(1_234_567),
        };
        let before = Counters {
            down: 10,
            up: 20,
            origin: 30,
            savings: Savings {
                bytes: -5,
                by_cause: SavingsByCause {
                    headers: -5,
                    ..SavingsByCause::default()
                },
            },
        };
        let after = Counters {
            down: 1010,
            up: 120,
            origin: 60,
            savings: Savings {
                bytes: -970,
                by_cause: SavingsByCause {
                    coding: 30,
                    headers: -1000,
                    ..SavingsByCause::default()
                },
            },
        };
        let report = Report::new(&load, None, before, after).unwrap();
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(
            json,
            r#"{"url":"http://a.test/","objects":2,"failed":1,"bytes_down":1000,"bytes_up":100,"origin_bytes":30,"#
                .to_owned()
                + r#""time_s":1.235,"ideal_gprs_s":10.397,"ideal_umts_s":1.3,"#
                + r#""savings":{"bytes":-965,"by_cause":{"coding":30,"base":0,"pictures":0,"cache":0,"unchanged":0,"headers":-995}},"#
                + r#""errors":[{"url":"http://a.test/b","reason":"gone \"away\"\n"}]}"#
        );
        let direct_time = |direct: &PageLoad| {
            let report = Report::new(&load, Some(direct), before, after).unwrap();
            serde_json::to_value(&report).unwrap()["time_direct_s"].clone()
        };
        assert_eq!(direct_time(&load), serde_json::Value::Null, "an object failed");
        let mut whole = load.clone();
        whole.objects.remove(1);
        assert_eq!(direct_time(&whole), 1.235);
    }
}
