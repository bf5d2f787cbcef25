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
/// Bypass times at all hosts after the first, second, and each later rejection of a browser, whose user may import
/// the authority at any time.
pub(super) const REFUSED_EVERYWHERE: [Duration; 3] = [
    Duration::from_secs(HOUR),
    Duration::from_secs(DAY),
    Duration::from_secs(7 * DAY),
];
/// Bypass times at all hosts after the first, second, and each later connection that a browser closed: browsers
/// close connections for other reasons, too.
const LEFT_EVERYWHERE: [Duration; 3] = [
    Duration::from_secs(5 * MINUTE),
    Duration::from_secs(DAY),
    Duration::from_secs(7 * DAY),
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
    /// The program's ClientHello offers no version, algorithm or protocol that the agent has.
    IncompatibleClient,
    /// The gateway did not verify the host's certificate, or failed in TLS or HTTP with the host.
    IncompatibleHost,
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
            Self::IncompatibleClient => {
                "a program's TLS has nothing in common with this device's certificates"
            }
            Self::IncompatibleHost => {
                "the gateway cannot verify its certificate, or does not get along with its TLS or HTTP"
            }
        }
    }

    /// True if the reason lies in a program, so that other programs are not affected.
    pub(super) const fn is_of_program(self) -> bool {
        match self {
            Self::RefusedByClient | Self::LeftByClient | Self::NotHttp | Self::IncompatibleClient => true,
            Self::RequestsClientCertificate | Self::UsersChoice | Self::IncompatibleHost => false,
        }
    }

    /// True if the program does not accept the agent's certificates.
    pub(super) const fn is_rejection(self) -> bool {
        matches!(self, Self::RefusedByClient | Self::LeftByClient)
    }

    /// True if repeated events make the bypass longer.
    pub(super) const fn is_counted(self) -> bool {
        self.is_rejection() || matches!(self, Self::IncompatibleHost)
    }

    /// Duration of the bypass after so many events, from 1.
    pub(super) fn time(self, count: u32) -> Duration {
        match self {
            // The reason lies in the host's configuration.
            Self::RequestsClientCertificate => Duration::from_secs(7 * DAY),
            Self::RefusedByClient => nth(REFUSED, count),
            // Less certain than an alert. A host may have had a defect of the moment, and the next attempt to
            // accelerate it costs a round trip: browsers repeat the request in a tunnel by themselves.
            Self::LeftByClient | Self::IncompatibleHost => REFUSED[usize::from(count > 1)],
            // Until the end of a working day, like certificate exceptions in browsers.
            Self::UsersChoice => Duration::from_secs(8 * HOUR),
            Self::NotHttp | Self::IncompatibleClient => Duration::from_secs(HOUR),
        }
    }

    /// Duration of the bypass at all hosts, for a program that has accepted no certificate. The user of a browser
    /// (`User-Agent: Mozilla/...`) may import the authority; other programs keep their authorities for years.
    pub(super) fn time_everywhere(self, count: u32, program_name: Option<&str>) -> Duration {
        let is_browser = program_name.is_some_and(|name| name.starts_with("Mozilla/"));
        let count = if is_browser { count } else { u32::MAX };
        match self {
            Self::LeftByClient => nth(LEFT_EVERYWHERE, count),
            Self::RefusedByClient => nth(REFUSED_EVERYWHERE, count),
            Self::RequestsClientCertificate
            | Self::UsersChoice
            | Self::NotHttp
            | Self::IncompatibleClient
            | Self::IncompatibleHost => self.time(1),
        }
    }
}

fn nth(times: [Duration; 3], count: u32) -> Duration {
    let [.., last] = times;
    let at = usize::try_from(count.saturating_sub(1)).unwrap_or(usize::MAX);
    times.get(at).copied().unwrap_or(last)
}
