//! What is wrong with the hop between this computer and the gateway, as one typed reason for log, status,
//! error pages and tools.
//!
//! The conclusions are pure ([`Diagnosis`]): events and the time are arguments. `gateway/` makes the
//! observations.
mod clock;
mod diagnosis;
mod login_page;
mod name_lookup;

use std::fmt;

use longhaul_driver::{CloseReason, Refusal};
use longhaul_proxy::ProxyError;

pub use clock::{ClockDifference, ClockDirection};
pub use diagnosis::{Diagnosis, KnownTrouble, SILENCE};
pub use login_page::LoginPage;

/// Carriers over which the gateway was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// UDP was tried.
    pub udp: bool,
    /// TCP port of TLS, if it was tried.
    pub tls: Option<u16>,
    /// UDP port of QUIC, if it was tried.
    pub quic: Option<u16>,
}

impl Tried {
    /// Only UDP.
    pub const UDP: Self = Self {
        udp: true,
        tls: None,
        quic: None,
    };

    /// Only TLS, on this TCP port.
    pub const fn tls(port: u16) -> Self {
        Self {
            udp: false,
            tls: Some(port),
            quic: None,
        }
    }

    /// Only QUIC, on this UDP port.
    pub const fn quic(port: u16) -> Self {
        Self {
            udp: false,
            tls: None,
            quic: Some(port),
        }
    }

    /// Name in the configuration; `auto` for several.
    pub const fn name(self) -> &'static str {
        match (self.udp, self.tls, self.quic) {
            (true, None, None) => "udp",
            (false, Some(_), None) => "tls",
            (false, None, Some(_)) => "quic",
            _ => "auto",
        }
    }

    /// The carriers beside UDP, with their ports.
    fn links(self) -> String {
        let tls = self.tls.map(|port| format!("over TLS on TCP port {port}"));
        let quic = self.quic.map(|port| format!("over QUIC on UDP port {port}"));
        match (tls, quic) {
            (Some(tls), Some(quic)) => format!("{tls} or {quic}"),
            (tls, quic) => tls.or(quic).unwrap_or_default(),
        }
    }

    /// Writes that nothing answers.
    fn write_silence(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let links = self.links();
        match (self.udp, self.tls, self.quic) {
            (true, None, None) => f.write_str(
                "no answer: the gateway is down, UDP is blocked on the way, or the invite's key is not this gateway's",
            ),
            (true, ..) => write!(
                f,
                "no answer: the gateway is down, or the invite's key is not this gateway's, or UDP is blocked on the way and the \
                 gateway does not answer {links}, either"
            ),
            (false, tls, quic) => {
                let setting = match (tls, quic) {
                    (Some(_), None) => "no `carriers.tls`",
                    (None, _) => "no `carriers.quic`",
                    (Some(_), Some(_)) => "neither `carriers.tls` nor `carriers.quic`",
                };
                write!(
                    f,
                    "no answer: no gateway with the invite's key answers {links}: the gateway is down or has {setting} on this \
                     port, another server uses the port, or the network blocks it"
                )
            }
        }
    }
}

/// What is wrong with the hop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// The network wants a login first: it answers in the place of other hosts.
    CaptivePortal(Box<LoginPage>),
    /// The clocks of this computer and of the gateway differ. The session works.
    ClockOff(ClockDifference),
    /// The gateway is about to end and opens no more sessions.
    GatewayDraining,
    /// The gateway has as many sessions as its operator permits.
    GatewayFull,
    /// Somebody on the way ends TLS to the gateway, and `carrier.pin` does not permit that.
    Intercepted,
    /// No agent used the invite before it expired.
    InviteExpired,
    /// This computer cannot open a socket; contains the system's error.
    LocalError(String),
    /// The name servers give no usable answer for the gateway's name; contains the system's error.
    NameLookupFailed(String),
    /// The gateway's name does not exist; contains the name.
    NameNotFound(String),
    /// The gateway does not know this device.
    NotEnrolled,
    /// This computer has no route to the gateway; contains the system's error.
    Offline(String),
    /// The gateway's computer reports that no program listens on the gateway's port.
    PortClosed(Tried),
    /// The HTTP proxy of this network opens no connection to the gateway.
    Proxy(ProxyError),
    /// The gateway's operator has revoked this device.
    Revoked,
    /// The session ended and another one is being opened.
    SessionEnded(CloseReason),
    /// Nothing answers. A gateway that is down, a network that blocks UDP and an invite with another gateway's
    /// key look the same, because a gateway does not answer whoever does not know its key.
    Silent(Tried),
    /// Another program or computer opened a session with this device's key.
    TakenOver,
    /// Agent and gateway have no common version; contains the versions.
    VersionMismatch(String),
}

impl Trouble {
    /// The kind, for tools. Kinds are only added, never removed.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::CaptivePortal(_) => "captive_portal",
            Self::ClockOff(_) => "clock_off",
            Self::GatewayDraining => "gateway_draining",
            Self::GatewayFull => "gateway_full",
            Self::Intercepted => "intercepted",
            Self::InviteExpired => "invite_expired",
            Self::LocalError(_) => "local_error",
            Self::NameLookupFailed(_) => "name_lookup_failed",
            Self::NameNotFound(_) => "name_not_found",
            Self::NotEnrolled => "not_enrolled",
            Self::Offline(_) => "offline",
            Self::PortClosed(_) => "port_closed",
            Self::Proxy(error) => error.kind(),
            Self::Revoked => "revoked",
            Self::SessionEnded(_) => "session_ended",
            Self::Silent(_) => "silent",
            Self::TakenOver => "taken_over",
            Self::VersionMismatch(_) => "version_mismatch",
        }
    }

    /// True if another attempt soon is useless: only a person can change the gateway's answer.
    pub const fn is_refusal(&self) -> bool {
        match self {
            Self::GatewayDraining
            | Self::GatewayFull
            | Self::InviteExpired
            | Self::NotEnrolled
            | Self::Revoked
            | Self::TakenOver
            | Self::VersionMismatch(_) => true,
            Self::CaptivePortal(_)
            | Self::ClockOff(_)
            | Self::Intercepted
            | Self::LocalError(_)
            | Self::NameLookupFailed(_)
            | Self::NameNotFound(_)
            | Self::Offline(_)
            | Self::PortClosed(_)
            | Self::Proxy(_)
            | Self::SessionEnded(_)
            | Self::Silent(_) => false,
        }
    }

    /// The carriers over which the gateway was tried, if this matters.
    pub const fn tried(&self) -> Option<Tried> {
        match self {
            Self::Silent(tried) | Self::PortClosed(tried) => Some(*tried),
            Self::CaptivePortal(_)
            | Self::ClockOff(_)
            | Self::GatewayDraining
            | Self::GatewayFull
            | Self::Intercepted
            | Self::InviteExpired
            | Self::LocalError(_)
            | Self::NameLookupFailed(_)
            | Self::NameNotFound(_)
            | Self::NotEnrolled
            | Self::Offline(_)
            | Self::Proxy(_)
            | Self::Revoked
            | Self::SessionEnded(_)
            | Self::TakenOver
            | Self::VersionMismatch(_) => None,
        }
    }

    /// True if the network of this computer lets nothing through to the gateway; a proxy may.
    pub(crate) const fn is_of_network(&self) -> bool {
        matches!(
            self,
            Self::Offline(_) | Self::NameNotFound(_) | Self::NameLookupFailed(_)
        )
    }

    /// The login page of a network that wants a login first.
    pub fn login_page(&self) -> Option<&LoginPage> {
        if let Self::CaptivePortal(page) = self {
            Some(page)
        } else {
            None
        }
    }

    /// True if a captive portal looks like this.
    pub(crate) const fn may_be_portal(&self) -> bool {
        matches!(
            self,
            Self::Silent(_) | Self::PortClosed(_) | Self::NameNotFound(_) | Self::NameLookupFailed(_)
        )
    }

    /// True if the gateway does not accept the key of this device.
    pub(crate) const fn is_refused_key(&self) -> bool {
        matches!(self, Self::NotEnrolled | Self::Revoked | Self::InviteExpired)
    }

    /// The trouble that the end of a session or of an attempt over these carriers shows.
    pub fn of_close(reason: CloseReason, tried: Tried) -> Self {
        /// docs/protocol/transport.md section 7.4.
        const DEVICE_REVOKED: u64 = 4;
        /// A newer session of the device replaces this one. An agent ends its own session before it opens
        /// another one.
        const REPLACED: u64 = 6;
        match reason {
            CloseReason::Refused(Refusal::UnknownDevice) => Self::NotEnrolled,
            CloseReason::Refused(Refusal::Revoked)
            | CloseReason::PeerClosed {
                error: DEVICE_REVOKED,
                ..
            } => Self::Revoked,
            CloseReason::Refused(Refusal::TooManySessions) => Self::GatewayFull,
            CloseReason::Refused(Refusal::Draining) => Self::GatewayDraining,
            CloseReason::Refused(Refusal::Expired) => Self::InviteExpired,
            CloseReason::VersionMismatch(_) => Self::VersionMismatch(reason.to_string()),
            CloseReason::TimedOut => Self::Silent(tried),
            CloseReason::Replaced | CloseReason::PeerClosed { error: REPLACED, .. } => Self::TakenOver,
            CloseReason::Reset
            | CloseReason::PeerClosed { .. }
            | CloseReason::Local { .. }
            | CloseReason::PeerViolation { .. } => Self::SessionEnded(reason),
        }
    }

    /// The trouble that a failed lookup of the gateway's name shows. `has_route`: this computer has a route to
    /// other networks.
    pub fn of_name_lookup(name: &str, error: &str, has_route: bool) -> Self {
        name_lookup::conclude(name, error, has_route)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CaptivePortal(page) => write!(
                f,
                "this network wants a login first: it answers in the place of other hosts; open {} in a browser",
                page.address()
            ),
            Self::Intercepted => f.write_str(
                "TLS to the gateway is intercepted: its certificate is not the gateway's, and `carrier.pin` is `require`; use \
                 another network, or permit the interception, which sees ciphertext only, by `carrier.pin = \"note\"`",
            ),
            Self::ClockOff(difference) => write!(
                f,
                "this computer's clock is {difference} the gateway's; certificates and early data need the right time: \
                 set the clock"
            ),
            Self::GatewayDraining => f.write_str(
                "refused by the gateway: it is about to end, for example for an update, and opens no more sessions; try \
                 again in some minutes",
            ),
            Self::GatewayFull => f.write_str(
                "refused by the gateway: it has as many sessions as its operator permits; try again later",
            ),
            Self::InviteExpired => f.write_str(
                "refused by the gateway: the invite expired before it was used; ask its operator for a new invite",
            ),
            Self::LocalError(detail) => {
                write!(
                    f,
                    "this computer does not let the agent send to the gateway: {detail}; a firewall of this computer \
                     refuses it, or the limit of open files is reached: permit it, then restart the agent"
                )
            }
            Self::NameLookupFailed(detail) => write!(
                f,
                "the gateway's name cannot be looked up: this computer's network is connected, but its name servers \
                 give no usable answer ({detail})"
            ),
            Self::NameNotFound(name) => write!(
                f,
                "the gateway's name {name} does not exist: the invite names a host that no longer exists, or the name \
                 servers of this network do not know it"
            ),
            Self::NotEnrolled => f.write_str(
                "refused by the gateway: it does not know this device; ask its operator for a new invite",
            ),
            Self::Offline(detail) => write!(
                f,
                "this computer is offline: it has no route to the gateway ({detail})"
            ),
            Self::PortClosed(Tried {
                udp: false,
                tls: Some(port),
                ..
            }) => write!(
                f,
                "the gateway's computer answers that its TCP port {port} is closed: the gateway program does not run there, \
                 it has no `carriers.tls`, or `carrier.tls-port` is another port"
            ),
            Self::PortClosed(_) => f.write_str(
                "the gateway's computer answers that its port is closed: the gateway program does not run there, or it \
                 listens on another port",
            ),
            Self::Proxy(error) => write!(f, "{error}"),
            Self::Revoked => f.write_str(
                "refused by the gateway: its operator revoked this device; ask the operator for a new invite",
            ),
            Self::SessionEnded(reason) => write!(f, "the session ended: {reason}"),
            Self::Silent(tried) => tried.write_silence(f),
            Self::TakenOver => f.write_str(
                "another agent uses this device's key and has taken over the session: the same invite is in use on another \
                 machine, or twice on this one; ask the gateway's operator for an invite for each machine, then run \
                 `longhaul enroll LINE` on one of them",
            ),
            Self::VersionMismatch(detail) => write!(
                f,
                "agent and gateway speak no common version: update the older one of the two ({detail})"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
