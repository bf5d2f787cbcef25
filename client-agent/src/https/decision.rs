//! The decision whether a host is accelerated, with what decided.
use std::fmt;

use super::bypass_reason::BypassReason;
use crate::rules::HttpsRule;

/// Decision for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpsDecision {
    /// The setting `https.accelerate` is off.
    Off,
    /// The setting `https.except` lists the host.
    Excepted,
    /// This name is paused; `None`: everything is.
    Paused(Option<String>),
    /// A rule of the user for this name.
    Rule(String, HttpsRule),
    /// The host is bypassed for all programs.
    Bypassed(BypassReason),
    /// The setting `https.accelerate` lists the host.
    Listed,
    /// The setting `https.accelerate` lists other hosts.
    NotListed,
    /// The setting `https.accelerate` is `all`.
    All,
    /// The host is one of the built-in exclusions.
    Excluded,
    /// The certificate authority was removed.
    NoAuthority,
}

impl HttpsDecision {
    /// True if the host is accelerated.
    pub const fn accelerates(&self) -> bool {
        match self {
            Self::Listed | Self::All | Self::Rule(_, HttpsRule::Accelerate) => true,
            Self::Off
            | Self::Excepted
            | Self::Paused(_)
            | Self::Rule(_, HttpsRule::Tunnel)
            | Self::Bypassed(_)
            | Self::NotListed
            | Self::Excluded
            | Self::NoAuthority => false,
        }
    }
}

impl fmt::Display for HttpsDecision {
    /// A sentence part for the user: what happens, and what decided.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.accelerates() {
            "accelerated, so that the gateway can read it"
        } else {
            "passes through unread"
        };
        write!(f, "{verdict}: ")?;
        match self {
            Self::Off => f.write_str("the setting https.accelerate is off"),
            Self::Excepted => f.write_str("the setting https.except lists it"),
            Self::Paused(Some(name)) => write!(f, "{name} is paused"),
            Self::Paused(None) => f.write_str("everything is paused"),
            Self::Rule(name, _) => write!(f, "your rule for {name}"),
            Self::Bypassed(why) => f.write_str(why.text()),
            Self::Listed => f.write_str("the setting https.accelerate lists it"),
            Self::NotListed => f.write_str("the setting https.accelerate does not list it"),
            Self::All => f.write_str("the setting https.accelerate is all"),
            Self::Excluded => f.write_str("it is one of the built-in exclusions"),
            Self::NoAuthority => f.write_str("this device\u{2019}s certificate authority was removed"),
        }
    }
}
