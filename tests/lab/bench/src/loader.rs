//! Choice of the browser.
use std::fmt;

use serde::{Deserialize, Serialize};

/// A browser.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    /// The scripted browser on kernel TCP: exact and reproducible.
    Model,
    /// Headless Chromium.
    Chromium,
}

impl Loader {
    /// Returns its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Chromium => "chromium",
        }
    }
}

impl fmt::Display for Loader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
