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
    /// The same, set up for links like these: windows of 16 MB, the link's round-trip time, three minutes without a sign of life, keep-alives.
    #[serde(rename = "quinn-tuned")]
    QuinnTuned,
    /// As [`System::QuinnTuned`], with quinn's own BBR, which its authors call experimental.
    #[serde(rename = "quinn-bbr")]
    QuinnBbr,
}

/// How quinn is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuicSetting {
    /// As it comes.
    Defaults,
    /// For slow and long links.
    LongLinks(QuicCongestion),
}

/// Which of quinn's controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuicCongestion {
    /// Its default.
    Cubic,
    /// Its experiment.
    Bbr,
}

/// A name that is no system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a transport; known are: longhaul, cubic, bbr, quinn, quinn-tuned, quinn-bbr")]
pub struct UnknownSystem(String);

impl System {
    /// All systems, Longhaul first.
    pub const ALL: [Self; 6] = [
        Self::Longhaul,
        Self::Cubic,
        Self::Bbr,
        Self::Quinn,
        Self::QuinnTuned,
        Self::QuinnBbr,
    ];

    /// The name in options and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Longhaul => "longhaul",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Quinn => "quinn",
            Self::QuinnTuned => "quinn-tuned",
            Self::QuinnBbr => "quinn-bbr",
        }
    }

    /// Transport and congestion control in words, for the results' environment.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Longhaul => "Longhaul over UDP, credit by the receiver, link profile given",
            Self::Cubic => "kernel TCP, cubic",
            Self::Bbr => "kernel TCP, bbr",
            Self::Quinn => "quinn 0.11 (QUIC), cubic, defaults, 0-RTT where a session is not open",
            Self::QuinnTuned => {
                "quinn 0.11 (QUIC), cubic, windows of 16 MB, the link's round-trip time, idle for 180 s"
            }
            Self::QuinnBbr => {
                "quinn 0.11 (QUIC), its own BBR, windows of 16 MB, the link's round-trip time, idle for 180 s"
            }
        }
    }

    /// The kernel's name of the congestion control; `None` where it is not the kernel's.
    pub(crate) const fn kernel_congestion(self) -> Option<&'static str> {
        match self {
            Self::Cubic => Some("cubic"),
            Self::Bbr => Some("bbr"),
            Self::Longhaul | Self::Quinn | Self::QuinnTuned | Self::QuinnBbr => None,
        }
    }

    /// How quinn is set up; `None` where it is not quinn.
    pub(crate) const fn quic(self) -> Option<QuicSetting> {
        match self {
            Self::Quinn => Some(QuicSetting::Defaults),
            Self::QuinnTuned => Some(QuicSetting::LongLinks(QuicCongestion::Cubic)),
            Self::QuinnBbr => Some(QuicSetting::LongLinks(QuicCongestion::Bbr)),
            Self::Longhaul | Self::Cubic | Self::Bbr => None,
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
