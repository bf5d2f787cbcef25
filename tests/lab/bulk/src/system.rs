//! The compared transports.
use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// Longhaul's session over UDP.
    Longhaul,
    /// Longhaul's session over TLS alone.
    #[serde(rename = "longhaul-tls")]
    LonghaulTls,
    /// Longhaul's session over QUIC alone.
    #[serde(rename = "longhaul-quic")]
    LonghaulQuic,
    /// The kernel's TCP with CUBIC (RFC 9438).
    Cubic,
    /// The kernel's TCP with the kernel's version of BBR.
    Bbr,
    /// QUIC by the quinn library with its defaults, including CUBIC.
    Quinn,
    /// The same, configured for such links: windows of 16 MB, the link's round-trip time, an idle timeout of
    /// three minutes, keep-alives.
    #[serde(rename = "quinn-tuned")]
    QuinnTuned,
    /// As [`System::QuinnTuned`], with quinn's own BBR, which its authors consider experimental.
    #[serde(rename = "quinn-bbr")]
    QuinnBbr,
}

/// Configuration of quinn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuicSetting {
    /// Default configuration.
    Defaults,
    /// For slow and long links.
    LongLinks(QuicCongestion),
}

/// Quinn's congestion controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuicCongestion {
    /// The default controller.
    Cubic,
    /// The experimental controller.
    Bbr,
}

/// A name that is not a system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a transport; known are: longhaul, longhaul-tls, longhaul-quic, cubic, bbr, quinn, quinn-tuned, quinn-bbr"
)]
pub struct UnknownSystem(String);

impl System {
    /// All systems, Longhaul first.
    pub const ALL: [Self; 8] = [
        Self::Longhaul,
        Self::LonghaulTls,
        Self::LonghaulQuic,
        Self::Cubic,
        Self::Bbr,
        Self::Quinn,
        Self::QuinnTuned,
        Self::QuinnBbr,
    ];

    /// Returns the name in options and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Longhaul => "longhaul",
            Self::LonghaulTls => "longhaul-tls",
            Self::LonghaulQuic => "longhaul-quic",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Quinn => "quinn",
            Self::QuinnTuned => "quinn-tuned",
            Self::QuinnBbr => "quinn-bbr",
        }
    }

    /// Returns a description of transport and congestion control, for the results' environment.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Longhaul => {
                "Longhaul over UDP, congestion control by the receiver, link profile configured"
            }
            Self::LonghaulTls => {
                "Longhaul over TLS (kernel TCP, BBR if the kernel has it), link profile configured"
            }
            Self::LonghaulQuic => "Longhaul over QUIC datagrams, link profile configured",
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

    /// Returns the kernel's name of the congestion control; `None` if it is not the kernel's.
    pub(crate) const fn kernel_congestion(self) -> Option<&'static str> {
        match self {
            Self::Cubic => Some("cubic"),
            Self::Bbr => Some("bbr"),
            Self::Longhaul
            | Self::LonghaulTls
            | Self::LonghaulQuic
            | Self::Quinn
            | Self::QuinnTuned
            | Self::QuinnBbr => None,
        }
    }

    /// Returns the configuration of quinn; `None` for other systems.
    pub(crate) const fn quic(self) -> Option<QuicSetting> {
        match self {
            Self::Quinn => Some(QuicSetting::Defaults),
            Self::QuinnTuned => Some(QuicSetting::LongLinks(QuicCongestion::Cubic)),
            Self::QuinnBbr => Some(QuicSetting::LongLinks(QuicCongestion::Bbr)),
            Self::Longhaul | Self::LonghaulTls | Self::LonghaulQuic | Self::Cubic | Self::Bbr => None,
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
    fn system_names_survive_a_round_trip() {
        for system in System::ALL {
            assert_eq!(system.name().parse(), Ok(system));
        }
        assert!("reno".parse::<System>().is_err());
    }
}
