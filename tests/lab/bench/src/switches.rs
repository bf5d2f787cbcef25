//! Techniques of Longhaul that are switched off in a load.
use std::fmt;

use longhaul_types::{ParseTechniqueError, Technique, Techniques};
use serde::{Deserialize, Serialize};

use crate::cli::PagesArgs;

/// Word of `--without` for a load with every technique.
const NOTHING: &str = "none";
/// Word of `--without` and `--only` for a load for each technique.
const EACH: &str = "each";

/// The techniques that are switched off in a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Switches(Techniques);

impl Switches {
    /// Returns the techniques that are switched off.
    pub const fn without(self) -> Techniques {
        self.0
    }

    /// Returns true if every technique is in use.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Switches {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl From<Switches> for String {
    fn from(switches: Switches) -> Self {
        switches.to_string()
    }
}

impl TryFrom<String> for Switches {
    type Error = ParseTechniqueError;

    fn try_from(names: String) -> Result<Self, ParseTechniqueError> {
        names.parse().map(Self)
    }
}

/// Returns the switches of the loads: one for each `--without` and `--only`; without these, every technique is in
/// use.
///
/// # Errors
/// A name is unknown.
pub fn switches(args: &PagesArgs) -> Result<Vec<Switches>, ParseTechniqueError> {
    let mut all = Vec::new();
    for names in &args.without {
        match names.as_str() {
            EACH => all.extend(Technique::ALL.map(|technique| Techniques::NONE.with(technique))),
            NOTHING => all.push(Techniques::NONE),
            names => all.push(names.parse()?),
        }
    }
    for names in &args.only {
        match names.as_str() {
            EACH => all.extend(Technique::ALL.map(|technique| Techniques::NONE.with(technique).others())),
            NOTHING => all.push(Techniques::all()),
            names => all.push(names.parse::<Techniques>()?.others()),
        }
    }
    if all.is_empty() {
        all.push(Techniques::NONE);
    }
    let mut different = Vec::new();
    for set in all.into_iter().map(Switches) {
        if !different.contains(&set) {
            different.push(set);
        }
    }
    Ok(different)
}
