//! Events of an endpoint.
use std::{fmt, time::Duration};

use longhaul_types::{LinkProfile, PublicKey};

use crate::{
    path::Path,
    streams::StreamEvent,
    wire::{EarlyOutcome, Refusal, init::TOKEN_LEN},
};

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Agent: the gateway accepted the session.
    Connected {
        /// Outcome of the early data; rejected data is retransmitted automatically.
        early: EarlyOutcome,
    },
    /// Gateway: a device opened a session. Until the first packet under the full keys, the INIT may be a
    /// replay by an attacker.
    Accepted {
        /// The device.
        device: PublicKey,
        /// Link profile of the agent.
        profile: Option<LinkProfile>,
    },
    /// An event of a stream.
    Stream(StreamEvent),
    /// Datagrams have arrived, which [`Connection::take_datagram`](crate::connection::Connection::take_datagram)
    /// returns.
    Datagrams,
    /// The session is stalled: nothing is received although packets are outstanding. No data is lost.
    Stalled,
    /// The stall has ended.
    Resumed,
    /// Agent: a token for the next session with this gateway, to be stored on disk.
    Token([u8; TOKEN_LEN]),
    /// The peer's address changed.
    Moved,
    /// Agent: the result of [`Endpoint::probe_path`](super::Endpoint::probe_path).
    PathProbed {
        /// The probed path.
        path: Path,
        /// Median time from a challenge to its answer; `None` if one was not answered.
        rtt: Option<Duration>,
    },
    /// The session and all its streams have ended. No event follows.
    Closed(CloseReason),
}

/// Reason for the end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The gateway refused the session.
    Refused(Refusal),
    /// The gateway does not support this version; the list contains the versions that it supports.
    VersionMismatch(Vec<u8>),
    /// The gateway lost the session by a restart or after a long silence. A new session may be opened at
    /// once.
    Reset,
    /// The peer closed the session (transport.md section 7.4).
    PeerClosed {
        /// Error code of the peer.
        error: u64,
        /// Reason for log readers.
        reason: String,
    },
    /// This side's user closed the session.
    Local {
        /// Error code of the user.
        error: u64,
    },
    /// This side closed the session because the peer violated the protocol.
    PeerViolation {
        /// Error code sent to the peer: 2 or 3.
        error: u64,
        /// Description of the violation.
        reason: String,
    },
    /// Nothing was received for the maximum silence of a session.
    TimedOut,
    /// Gateway: the device opened a newer session.
    Replaced,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(Refusal::UnknownDevice) => {
                f.write_str("the gateway does not know this device; it needs a new invite")
            }
            Self::Refused(Refusal::Revoked) => f.write_str("the gateway's operator revoked this device"),
            Self::Refused(Refusal::TooManySessions) => {
                f.write_str("the gateway has too many sessions; try again later")
            }
            Self::Refused(Refusal::Expired) => {
                f.write_str("the invite was not used in time and has expired; this device needs a new invite")
            }
            Self::Refused(Refusal::Draining) => f.write_str(
                "the gateway is about to end and opens no more sessions; try again in some minutes",
            ),
            Self::VersionMismatch(versions) => write!(
                f,
                "the gateway speaks transport versions {versions:?}, this program version {}; update the older one",
                crate::wire::VERSION
            ),
            Self::Reset => f.write_str("the gateway lost the session"),
            Self::PeerClosed { error, reason } => {
                write!(f, "the peer closed the session: error {error} {reason}")
            }
            Self::Local { error } => write!(f, "the session was closed here: error {error}"),
            Self::PeerViolation { error, reason } => {
                write!(f, "the peer broke the protocol: error {error}, {reason}")
            }
            Self::TimedOut => f.write_str("nothing was heard of the peer for too long"),
            Self::Replaced => f.write_str("the device opened a newer session"),
        }
    }
}

/// Counters of an endpoint since its creation. A dropped datagram counts once, under its cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Datagrams received.
    pub received: u64,
    /// Dropped: of unknown kind, of a kind that this role does not receive, or malformed.
    pub malformed: u64,
    /// Dropped: INITs with a wrong mac1.
    pub bad_mac1: u64,
    /// Dropped because of a rate limit.
    pub rate_limited: u64,
    /// Dropped: handshake messages that do not authenticate, or RESETs with a wrong tag.
    pub bad_handshake: u64,
    /// Dropped: packets of unknown sessions.
    pub unknown_session: u64,
    /// Dropped: datagrams that the state of the session does not permit, such as a second RESP.
    pub unexpected: u64,
    /// Gateway: INITs with a token whose early data was not accepted.
    pub early_rejected: u64,
    /// Gateway: sessions accepted.
    pub accepted: u64,
    /// Gateway: sessions refused.
    pub refused: u64,
    /// Gateway: repeated INITs that got the same RESP again.
    pub repeated: u64,
    /// Gateway: half-open sessions dropped.
    pub half_open_dropped: u64,
    /// Gateway: RESETs sent.
    pub resets: u64,
    /// Gateway: VERSIONS sent.
    pub versions: u64,
    /// Agent: INITs sent, including repetitions.
    pub inits: u64,
}
