//! The transports that are measured side by side.
use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// Longhaul's session over UDP.
    Longhaul,
    /// The kernel's TCP with CUBIC (RFC 9438).
    Cubic,
    /// The kernel's TCP with BBR, the version that the kernel has.
    Bbr,
    /// QUIC by the quinn library with its defaults, of which one is CUBIC.
    Quinn,
}

/// A name that is no system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a transport; known are: longhaul, cubic, bbr, quinn")]
pub struct UnknownSystem(String);

impl System {
    /// All systems, Longhaul first.
    pub const ALL: [Self; 4] = [Self::Longhaul, Self::Cubic, Self::Bbr, Self::Quinn];

    /// The name in options and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Longhaul => "longhaul",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Quinn => "quinn",
        }
    }

    /// Transport and congestion control in words, for the results' environment.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Longhaul => "Longhaul over UDP, credit by the receiver, link profile given",
            Self::Cubic => "kernel TCP, cubic",
            Self::Bbr => "kernel TCP, bbr",
            Self::Quinn => "quinn 0.11 (QUIC), cubic, defaults, 0-RTT where a session is not open",
        }
    }

    /// The kernel's name of the congestion control; `None` where it is not the kernel's.
    pub(crate) const fn kernel_congestion(self) -> Option<&'static str> {
        match self {
            Self::Cubic => Some("cubic"),
            Self::Bbr => Some("bbr"),
            Self::Longhaul | Self::Quinn => None,
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for System {
    type Err = UnknownSystem;

    fn from_str(text: &str) -> Result<Self, UnknownSystem> {
        Self::ALL
            .into_iter()
            .find(|system| system.name() == text)
            .ok_or_else(|| UnknownSystem(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for system in System::ALL {
            assert_eq!(system.name().parse(), Ok(system));
        }
        assert!("reno".parse::<System>().is_err());
    }
}
