//! The file `rules` of the state directory.
//!
//! ```text
//! longhaul rules 1
//! pause-everything UNTIL
//! https NAME accelerate|tunnel
//! images NAME LEVEL
//! originals NAME UNTIL
//! pause NAME UNTIL
//! ```
//! Lines are in any order, at most one of a kind for a name. Times are seconds since 1970; names are in lower case and
//! include their subdomains.
use std::{fmt::Write as _, str::SplitAsciiWhitespace, time::Duration};

use longhaul_session::ImageLevel;
use longhaul_types::UnixTime;

use super::rule_set::{HttpsRule, MAX_NAMES, Rule, RuleSet};
use crate::host_name::HostName;

/// Maximum size of the file in bytes: 256 names of maximum length (RFC 1035 section 2.3.4), with four lines each.
pub const MAX_RULES_FILE: u64 = 512 * 1024;

const HEADER: &str = "longhaul rules 1";

/// Errors of decoding the rules. None of them contains a name: names say what the user visits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesFileError {
    /// The file has another version, or it is another file.
    #[error("its first line is not `{HEADER}`")]
    Version,
    /// The file is larger than an agent writes it.
    #[error("it is larger than {MAX_RULES_FILE} bytes")]
    TooLarge,
    /// There are rules for more names than an agent writes.
    #[error("line {0} exceeds the limit of {MAX_NAMES} names")]
    TooMany(usize),
    /// A line is malformed.
    #[error("line {0} is malformed")]
    Malformed(usize),
    /// A line says something about a name that an earlier line says.
    #[error("line {0} repeats an earlier one")]
    Repeated(usize),
}

impl RuleSet {
    /// The contents of the file.
    pub fn encode(&self) -> String {
        let mut text = format!("{HEADER}\n");
        let seconds = |time: UnixTime| time.since_epoch().as_secs();
        if let Some(until) = self.paused_until {
            let _infallible = writeln!(text, "pause-everything {}", seconds(until));
        }
        for (name, rule) in &self.rules {
            if let Some(https) = rule.https {
                let _infallible = writeln!(text, "https {name} {}", https.name());
            }
            if let Some(images) = rule.images {
                let _infallible = writeln!(text, "images {name} {}", images.name());
            }
            if let Some(until) = rule.originals_until {
                let _infallible = writeln!(text, "originals {name} {}", seconds(until));
            }
            if let Some(until) = rule.paused_until {
                let _infallible = writeln!(text, "pause {name} {}", seconds(until));
            }
        }
        text
    }

    /// Decodes the contents of the file.
    ///
    /// # Errors
    /// See [`RulesFileError`]. Nothing of a damaged file is used.
    pub fn decode(text: &str) -> Result<Self, RulesFileError> {
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, first)| first != HEADER) {
            return Err(RulesFileError::Version);
        }
        let mut set = Self::default();
        for (at, line) in lines {
            set.add_line(line, at + 1)?;
        }
        Ok(set)
    }

    fn add_line(&mut self, line: &str, number: usize) -> Result<(), RulesFileError> {
        let malformed = || RulesFileError::Malformed(number);
        let mut words = line.split_ascii_whitespace();
        let kind = words.next().ok_or_else(malformed)?;
        if kind == "pause-everything" {
            let until = time(&mut words).ok_or_else(malformed)?;
            put(&mut self.paused_until, until, number)?;
        } else {
            let name = words.next().and_then(name).ok_or_else(malformed)?;
            if self.rules.len() == MAX_NAMES && !self.rules.contains_key(&name) {
                return Err(RulesFileError::TooMany(number));
            }
            let rule: &mut Rule = self.rules.entry(name).or_default();
            match kind {
                "https" => {
                    let https = words.next().and_then(HttpsRule::named);
                    put(&mut rule.https, https.ok_or_else(malformed)?, number)?;
                }
                "images" => put(&mut rule.images, level(&mut words).ok_or_else(malformed)?, number)?,
                "originals" => put(
                    &mut rule.originals_until,
                    time(&mut words).ok_or_else(malformed)?,
                    number,
                )?,
                "pause" => put(
                    &mut rule.paused_until,
                    time(&mut words).ok_or_else(malformed)?,
                    number,
                )?,
                _ => return Err(malformed()),
            }
        }
        words.next().map_or(Ok(()), |_| Err(malformed()))
    }
}

fn put<T>(place: &mut Option<T>, value: T, number: usize) -> Result<(), RulesFileError> {
    match place.replace(value) {
        Some(_) => Err(RulesFileError::Repeated(number)),
        None => Ok(()),
    }
}

/// A name in the form in which the agent writes it.
fn name(word: &str) -> Option<HostName> {
    word.parse().ok().filter(|name: &HostName| name.as_str() == word)
}

fn level(words: &mut SplitAsciiWhitespace<'_>) -> Option<ImageLevel> {
    let name = words.next()?;
    ImageLevel::ALL.into_iter().find(|level| level.name() == name)
}

fn time(words: &mut SplitAsciiWhitespace<'_>) -> Option<UnixTime> {
    let seconds = words.next()?.parse().ok()?;
    Some(UnixTime::new(Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn damage_is_named_by_its_line() {
        let decode = |lines: &[&str]| RuleSet::decode(&lines.join("\n"));
        assert_eq!(decode(&[]), Err(RulesFileError::Version));
        assert_eq!(decode(&["longhaul rules 2"]), Err(RulesFileError::Version));
        assert_eq!(decode(&[HEADER]), Ok(RuleSet::default()));
        for wrong in [
            " ",
            "https a.test",
            "https a.test maybe",
            "https A.test tunnel",
            "https a/b tunnel",
            "images a.test best",
            "pause a.test tomorrow",
            "pause a.test 5 6",
            "pause-everything",
            "delete a.test",
        ] {
            assert_eq!(
                decode(&[HEADER, "images a.test low", wrong]),
                Err(RulesFileError::Malformed(3)),
                "{wrong}"
            );
        }
        let twice = [HEADER, "images a.test low", "images a.test low"];
        assert_eq!(decode(&twice), Err(RulesFileError::Repeated(3)));
        let names = (0..=MAX_NAMES).map(|number| format!("images {number}.test low"));
        let lines: Vec<String> = std::iter::once(HEADER.to_owned()).chain(names).collect();
        assert_eq!(
            RuleSet::decode(&lines.join("\n")),
            Err(RulesFileError::TooMany(MAX_NAMES + 2))
        );
    }

    fn any_time() -> impl Strategy<Value = Option<UnixTime>> {
        proptest::option::of(any::<u64>().prop_map(|seconds| UnixTime::new(Duration::from_secs(seconds))))
    }

    fn any_rule() -> impl Strategy<Value = Rule> {
        let https = proptest::option::of(prop_oneof![Just(HttpsRule::Accelerate), Just(HttpsRule::Tunnel)]);
        let images = proptest::option::of((0_usize..5).prop_map(|at| ImageLevel::ALL[at]));
        let rule = (https, images, any_time(), any_time());
        let rule = rule.prop_map(|(https, images, originals_until, paused_until)| Rule {
            https,
            images,
            originals_until,
            paused_until,
        });
        rule.prop_filter("a rule says something", |rule| *rule != Rule::default())
    }

    proptest! {
        #[test]
        fn rules_round_trip(
            rules in proptest::collection::btree_map("[a-z0-9]{1,8}(\\.[a-z]{2,5}){0,2}", any_rule(), 0..20),
            paused_until in any_time(),
        ) {
            let rules = rules.into_iter().map(|(name, rule)| (name.parse().unwrap(), rule)).collect();
            let set = RuleSet { rules, paused_until };
            let text = set.encode();
            prop_assert!(text.len() as u64 <= MAX_RULES_FILE);
            prop_assert_eq!(RuleSet::decode(&text), Ok(set));
        }
    }
}
