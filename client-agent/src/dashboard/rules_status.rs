//! The user's rules for tools: `/rules.json`, which needs the token.
use longhaul_types::UnixTime;
use serde::{Deserialize, Serialize};

use crate::rules::{Rule, RuleSet};

/// The contents of `/rules.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesStatus {
    /// End of the pause of everything, in seconds since 1970; `null` if there is none.
    pub paused_until: Option<u64>,
    /// The rules, by name.
    pub rules: Vec<RuleStatus>,
}

/// The rules for one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleStatus {
    /// The name, in lower case; its subdomains are included.
    pub name: String,
    /// `accelerate` or `tunnel`; `null`: the settings decide.
    pub https: Option<String>,
    /// Image level of its pages; `null`: the level of all sites.
    pub images: Option<String>,
    /// End of the time with original images, in seconds since 1970.
    pub originals_until: Option<u64>,
    /// End of the pause, in seconds since 1970.
    pub paused_until: Option<u64>,
    /// What happens to the https of this name, and what decides, for people; `null` while no agent runs.
    pub decision: Option<String>,
}

impl RulesStatus {
    /// Returns the rules that have not ended. `decide` says what happens to the https of a name.
    pub fn of(rules: &RuleSet, now: UnixTime, decide: impl Fn(&str) -> Option<String>) -> Self {
        let seconds = |until: Option<UnixTime>| {
            let until = until.filter(|until| now < *until)?;
            Some(until.since_epoch().as_secs())
        };
        let rule = |name: &str, rule: &Rule| RuleStatus {
            name: name.to_owned(),
            https: rule.https.map(|https| https.name().to_owned()),
            images: rule.images.map(|level| level.name().to_owned()),
            originals_until: seconds(rule.originals_until),
            paused_until: seconds(rule.paused_until),
            decision: decide(name),
        };
        Self {
            paused_until: seconds(rules.paused_until(now)),
            rules: rules.iter().map(|(name, of)| rule(name.as_str(), of)).collect(),
        }
    }

    /// The rules of exactly this name, if there are any.
    pub fn rule(&self, name: &str) -> Option<&RuleStatus> {
        self.rules.iter().find(|rule| rule.name == name)
    }
}
