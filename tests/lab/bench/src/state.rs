//! State of sessions and caches when a load begins.
use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of sessions and caches at the beginning of a load.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// No session, all caches empty.
    First,
    /// Session open, all caches empty.
    Cold,
    /// The page was loaded before and has not changed; the browser's own cache is empty.
    Revisit,
    /// The page was loaded before and has changed since; the browser's own cache is empty.
    NextEdition,
    /// Another page of the site was loaded before; the browser's own cache is empty.
    Sibling,
    /// The page was loaded before, has not changed, and the browser has its cache.
    Warm,
    /// Another device loaded the page through the same gateway and left at once; this one's caches are empty.
    SecondDevice,
    /// Two other devices did so, one after the other; this one's caches are empty.
    ThirdDevice,
}

impl State {
    /// Returns its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Cold => "cold",
            Self::Revisit => "revisit",
            Self::NextEdition => "next-edition",
            Self::Sibling => "sibling",
            Self::Warm => "warm",
            Self::SecondDevice => "second-device",
            Self::ThirdDevice => "third-device",
        }
    }

    /// Number of other devices that visit the page before the measured one.
    pub fn earlier_devices(self) -> usize {
        match self {
            Self::First | Self::Cold | Self::Revisit | Self::NextEdition | Self::Sibling | Self::Warm => 0,
            Self::SecondDevice => 1,
            Self::ThirdDevice => 2,
        }
    }

    /// Returns true if another load precedes the measured one.
    pub fn has_earlier_load(self) -> bool {
        !matches!(self, Self::First | Self::Cold)
    }
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
