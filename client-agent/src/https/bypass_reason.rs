//! Reasons of bypasses, and how long each of them lasts.
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Seconds of a minute.
pub(super) const MINUTE: u64 = 60;
/// Seconds of an hour.
pub(super) const HOUR: u64 = 60 * MINUTE;
/// Seconds of a day.
pub(super) const DAY: u64 = 24 * HOUR;

/// Bypass times after the first, second, and each later rejection by a program.
pub(super) const REFUSED: [Duration; 3] = [
    Duration::from_secs(5 * MINUTE),
    Duration::from_secs(HOUR),
    Duration::from_secs(DAY),
];
/// Reason why a host is bypassed although the settings would accelerate it (docs/https.md section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BypassReason {
    /// The host requests a client certificate.
    RequestsClientCertificate,
    /// A program did not accept the agent's certificate.
    RefusedByClient,
    /// A program closed the connection without an alert as soon as it had received the agent's certificate.
    LeftByClient,
    /// The user opened the host unaccelerated after its certificate had failed verification.
    UsersChoice,
    /// The program's bytes were not HTTP over TLS.
    NotHttp,
}

impl BypassReason {
    /// Explanation for users.
    pub const fn text(self) -> &'static str {
        match self {
            Self::RequestsClientCertificate => "it requests a client certificate",
            Self::LeftByClient => {
                "a program closes its connections when it receives this device's certificates"
            }
            Self::RefusedByClient => "a program does not accept this device's certificates",
            Self::UsersChoice => "you chose to open it without acceleration",
            Self::NotHttp => "its protocol is not HTTP",
        }
    }

    /// True if the reason lies in a program, so that other programs are not affected.
    pub(super) const fn is_of_program(self) -> bool {
        match self {
            Self::RefusedByClient | Self::LeftByClient | Self::NotHttp => true,
            Self::RequestsClientCertificate | Self::UsersChoice => false,
        }
    }

    /// True if the program does not accept the agent's certificates.
    pub(super) const fn is_rejection(self) -> bool {
        matches!(self, Self::RefusedByClient | Self::LeftByClient)
    }

    /// Duration of the bypass after so many events, from 1.
    pub(super) fn time(self, count: u32) -> Duration {
        match self {
            // The reason lies in the host's configuration.
            Self::RequestsClientCertificate => Duration::from_secs(7 * DAY),
            Self::RefusedByClient => {
                let at = usize::try_from(count.saturating_sub(1)).unwrap_or(usize::MAX);
                REFUSED.get(at).copied().unwrap_or(REFUSED[REFUSED.len() - 1])
            }
            // Less certain than an alert.
            Self::LeftByClient => REFUSED[usize::from(count > 1)],
            // Until the end of a working day, like certificate exceptions in browsers.
            Self::UsersChoice => Duration::from_secs(8 * HOUR),
            Self::NotHttp => Duration::from_secs(HOUR),
        }
    }
}
