//! The state of the gateway session, for requests, the status page and tools.
use std::{fmt, sync::Arc};

use longhaul_driver::CloseReason;
use serde::Serialize;
use tokio::time::Instant;

use super::gateway_session::GatewaySession;

/// State of the session with the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatewayState {
    /// A session is being opened.
    Connecting,
    /// The session is open.
    Open,
    /// The gateway has been silent for some time; all state is kept and transfers continue when the link is
    /// back.
    Stalled,
    /// No gateway answers, or the gateway refuses the session. The agent continues to dial.
    Down,
}

/// Snapshot of the session's state.
#[derive(Clone, Debug)]
pub struct SessionSnapshot {
    /// The state.
    pub state: GatewayState,
    /// The session, if there is one.
    pub session: Option<Arc<GatewaySession>>,
    /// Start of the gateway's silence, while an answer is expected; `None` if the session is open.
    pub silent_since: Option<Instant>,
    /// Reason for the end of the last attempt or session.
    pub why: Option<DownReason>,
    /// True if the gateway has answered since the agent started.
    pub has_answered: bool,
}

impl SessionSnapshot {
    pub(super) fn starting() -> Self {
        Self {
            state: GatewayState::Connecting,
            session: None,
            silent_since: Some(Instant::now()),
            why: None,
            has_answered: false,
        }
    }
}

/// Reason why there is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DownReason {
    /// The lookup of the gateway's name failed.
    NameLookup(String),
    /// None of the gateway's addresses answered.
    NoAnswer,
    /// This machine could not send.
    Local(String),
    /// The gateway does not know the device, has revoked it, or is full.
    Refused(CloseReason),
    /// Agent and gateway have no common version.
    Version,
    /// The session ended.
    Ended(CloseReason),
}

impl DownReason {
    /// True if another attempt soon is useless.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Version)
    }
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameLookup(detail) => write!(
                f,
                "the gateway's name cannot be looked up ({detail}): this computer may be offline, or the invite names a \
                 host that no longer exists"
            ),
            Self::NoAnswer => f.write_str(
                "no answer: the gateway is down, UDP is blocked on the way, or the invite's key is not this gateway's",
            ),
            Self::Local(detail) => write!(f, "this computer cannot send to the gateway: {detail}"),
            Self::Refused(reason) => {
                write!(f, "refused by the gateway ({reason}): ask its operator about this device's invite")
            }
            Self::Version => {
                f.write_str("agent and gateway speak no common version: update the older one of the two")
            }
            Self::Ended(reason) => write!(f, "the session ended: {reason}"),
        }
    }
}
