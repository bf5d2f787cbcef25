//! How things stand with the gateway, for requests, the status page and tools.
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use longhaul_driver::CloseReason;
use serde::Serialize;
use tokio::time::Instant;

use super::Hop;

/// The state of the session with the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatewayState {
    /// A session is being opened.
    Connecting,
    /// All is well.
    Open,
    /// Nothing has been heard for a while; everything is kept and goes on when the link is back.
    Stalled,
    /// No gateway answers, or it refuses. The agent goes on trying.
    Down,
}

/// A moment's view.
#[derive(Clone, Debug)]
pub struct View {
    /// The state.
    pub state: GatewayState,
    /// The session, unless there is none.
    pub hop: Option<Arc<Hop>>,
    /// Since when the gateway has been silent although something was expected from it; `None` while all is well.
    pub silent_since: Option<Instant>,
    /// Why the last attempt or session ended.
    pub why: Option<DownReason>,
    /// Whether the gateway has answered since the agent started.
    pub has_answered: bool,
}

impl View {
    pub(super) fn starting() -> Self {
        Self {
            state: GatewayState::Connecting,
            hop: None,
            silent_since: Some(Instant::now()),
            why: None,
            has_answered: false,
        }
    }
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DownReason {
    /// The name of the gateway could not be looked up.
    NameLookup(String),
    /// No address of it answered.
    NoAnswer,
    /// This machine could not send.
    Local(String),
    /// The gateway does not know the device, or has revoked it, or is full.
    Refused(CloseReason),
    /// The two speak no common version.
    Version,
    /// The session ended.
    Ended(CloseReason),
}

impl DownReason {
    /// Whether trying again soon is of no use.
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
                 host that is gone"
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

/// Bytes on the hop, headers of IP and UDP included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From the gateway.
    pub down: u64,
    /// To the gateway.
    pub up: u64,
    /// Sessions that reached the open state.
    pub sessions: u64,
}

/// The traffic of the sessions that are over.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Traffic>);

impl Ledger {
    /// Adds a session that is over.
    pub(super) fn settle(&self, hop: &Hop) {
        let of_hop = hop.traffic();
        let mut total = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        total.down += of_hop.down;
        total.up += of_hop.up;
        hop.mark_settled();
    }

    /// Notes that a session is open.
    pub(super) fn opened(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).sessions += 1;
    }

    /// All sessions, the one under way included.
    pub(super) fn traffic(&self, hop: Option<&Hop>) -> Traffic {
        let mut total = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hop) = hop
            && !hop.is_settled()
        {
            let of_hop = hop.traffic();
            total.down += of_hop.down;
            total.up += of_hop.up;
        }
        total
    }
}
