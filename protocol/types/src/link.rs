//! Link profiles: known properties of the hop, selected by name.
use std::{str::FromStr, time::Duration};

use crate::BitRate;

/// Rates and round-trip time of a hop, as configured. The transport starts with them and then measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkProfile {
    /// Rate towards the agent.
    pub down: BitRate,
    /// Rate towards the gateway.
    pub up: BitRate,
    /// Round-trip time of the idle hop.
    pub rtt: Duration,
}

/// Named profiles: down and up in bit/s, idle RTT in ms. The testbed's links of the same names have these
/// properties.
const NAMED: &[(&str, u64, u64, u64)] = &[
    ("gprs-3+1", 39_600, 13_400, 660),
    ("gprs-class6", 34_500, 13_400, 860),
    ("edge", 200_000, 60_000, 480),
    ("cdma-1x", 144_000, 64_000, 420),
    ("umts-384", 384_000, 64_000, 260),
    ("umts-dch256", 256_000, 256_000, 150),
    ("lte", 12_000_000, 5_000_000, 63),
    ("geo-sat", 20_000_000, 2_000_000, 602),
    ("leo-sat", 100_000_000, 15_000_000, 60),
    ("wlan-lossy", 20_000_000, 20_000_000, 60),
    ("dialup", 44_000, 31_000, 150),
    ("lan-fast", 100_000_000, 100_000_000, 5),
];

impl LinkProfile {
    /// The names that [`LinkProfile::from_str`] accepts.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, ..)| *name)
    }
}

/// Error: no link profile has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a link profile; known are: {known}", known = LinkProfile::names().collect::<Vec<_>>().join(", "))]
pub struct ParseLinkError(String);

impl FromStr for LinkProfile {
    type Err = ParseLinkError;
    fn from_str(text: &str) -> Result<Self, ParseLinkError> {
        let found = NAMED.iter().find(|(name, ..)| *name == text);
        let &(_, down, up, rtt) = found.ok_or_else(|| ParseLinkError(text.to_owned()))?;
        Ok(Self {
            down: BitRate::bps(down),
            up: BitRate::bps(up),
            rtt: Duration::from_millis(rtt),
        })
    }
}
