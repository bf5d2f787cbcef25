//! The comparison of what two browsers saw.
use std::{collections::BTreeSet, fmt};

use serde_json::{Map, Value};

use crate::{Case, Scheme, known};

/// One difference between a direct load and a load through Longhaul.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// What differs: `outcome`, `status`, `fields.etag`, `body`, ...
    pub aspect: String,
    /// Without Longhaul.
    pub direct: String,
    /// With Longhaul.
    pub through: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: direct {}, through {}",
            self.aspect,
            short(&self.direct),
            short(&self.through)
        )
    }
}

fn short(text: &str) -> String {
    const MAX: usize = 160;
    if text.chars().count() <= MAX {
        text.to_owned()
    } else {
        text.chars().take(MAX).chain("...".chars()).collect()
    }
}

/// Compares what was seen of a case; known differences are left out.
///
/// A case that fails directly may fail in another way: a proxy can show some failures only as an error page. It must not load.
/// A case that loads directly must look the same.
pub fn judge(case: &Case, scheme: Scheme, direct: &Value, through: &Value) -> Vec<Difference> {
    let unknown = compare(direct, through).into_iter();
    unknown
        .filter(|difference| !known::is_known(case, scheme, difference))
        .collect()
}

/// Compares what a program got: bytes and exit status. What it makes of odd fields is its own business.
pub(crate) fn judge_for(case: &Case, direct: &Value, through: &Value) -> Vec<Difference> {
    let unknown = compare(direct, through).into_iter();
    unknown
        .filter(|difference| {
            !difference.aspect.starts_with("fields.") && !known::is_known_for(case, difference)
        })
        .collect()
}

fn compare(direct: &Value, through: &Value) -> Vec<Difference> {
    let (direct_outcome, through_outcome) = (outcome(direct), outcome(through));
    // A mistake of the driver's page, which must not pass for a load that fails.
    if let Some(mistake) = [direct, through]
        .into_iter()
        .find(|seen| outcome(seen) == "mistake")
    {
        return vec![outcomes(direct_outcome, "mistake", mistake)];
    }
    if direct_outcome == "whole" && through_outcome == "whole" {
        aspects(direct, through)
    } else {
        let failed = |outcome: &str| matches!(outcome, "failed" | "broken" | "hangs");
        if failed(direct_outcome) && failed(through_outcome) {
            // A load that fails at once must not keep the user waiting.
            if through_outcome == "hangs" && direct_outcome != "hangs" {
                vec![outcomes(direct_outcome, through_outcome, through)]
            } else {
                Vec::new()
            }
        } else {
            vec![outcomes(direct_outcome, through_outcome, through)]
        }
    }
}

fn outcomes(direct: &str, through: &str, seen: &Value) -> Difference {
    Difference {
        aspect: "outcome".to_owned(),
        direct: direct.to_owned(),
        through: format!(
            "{through} {}",
            seen["fields"]["proxy-status"].as_str().unwrap_or_default()
        ),
    }
}

/// The outcome of a load; an error page of Longhaul is a failure.
fn outcome(seen: &Value) -> &str {
    let own_page = seen["fields"]["proxy-status"]
        .as_str()
        .is_some_and(|value| value.starts_with("longhaul"))
        || seen["text"]
            .as_str()
            .is_some_and(|text| text.contains("Whose fault?"));
    if own_page {
        "failed"
    } else {
        seen["outcome"].as_str().unwrap_or("missing")
    }
}

fn aspects(direct: &Value, through: &Value) -> Vec<Difference> {
    let empty = Map::new();
    let (one, other) = (
        direct.as_object().unwrap_or(&empty),
        through.as_object().unwrap_or(&empty),
    );
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let mut found = Vec::new();
    for name in names {
        let (one, other) = (&direct[name.as_str()], &through[name.as_str()]);
        if name == "fields" {
            let (empty, fields) = (Map::new(), name);
            let (first, second) = (
                one.as_object().unwrap_or(&empty),
                other.as_object().unwrap_or(&empty),
            );
            let names: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
            for name in names {
                push(
                    &mut found,
                    format!("{fields}.{name}"),
                    first.get(name),
                    second.get(name),
                );
            }
        } else {
            push(&mut found, name.clone(), Some(one), Some(other));
        }
    }
    found
}

fn push(found: &mut Vec<Difference>, aspect: String, direct: Option<&Value>, through: Option<&Value>) {
    if direct != through {
        let text = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
        found.push(Difference {
            aspect,
            direct: text(direct),
            through: text(through),
        });
    }
}
