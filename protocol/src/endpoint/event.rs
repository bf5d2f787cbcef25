//! What an endpoint tells its user.
use std::fmt;

use longhaul_types::{LinkProfile, PublicKey};

use crate::{
    streams::StreamEvent,
    wire::{EarlyOutcome, Refusal, init::TOKEN_LEN},
};

/// Something that happened to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Agent: the gateway accepted the session.
    Connected {
        /// What became of the early data; rejected data is sent again without the user's doing.
        early: EarlyOutcome,
    },
    /// Gateway: a device opened a session. Until its first packet under the full keys, an attacker may be repeating an old INIT.
    Accepted {
        /// The device.
        device: PublicKey,
        /// What its agent knows of the hop.
        profile: Option<LinkProfile>,
    },
    /// Something happened to a stream.
    Stream(StreamEvent),
    /// Nothing is heard of the peer although something is outstanding. Nothing is lost yet.
    Stalled,
    /// The peer is heard again.
    Resumed,
    /// Agent: a token for the next session with this gateway. Keep it on disk.
    Token([u8; TOKEN_LEN]),
    /// The peer's address changed.
    Moved,
    /// The session is over, and with it all its streams. No event follows.
    Closed(CloseReason),
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The gateway refused it.
    Refused(Refusal),
    /// The gateway does not speak this version; these it speaks.
    VersionMismatch(Vec<u8>),
    /// The gateway lost the session, by a restart or because it was silent for long. A new one may be opened at once.
    Reset,
    /// The peer closed it (transport.md section 7.4).
    PeerClosed {
        /// The peer's error.
        error: u64,
        /// For a person who reads logs.
        reason: String,
    },
    /// This side's user closed it.
    Local {
        /// The user's error.
        error: u64,
    },
    /// This side closed it because the peer broke the protocol.
    PeerViolation {
        /// The error that was sent to the peer: 2 or 3.
        error: u64,
        /// What the peer did.
        reason: String,
    },
    /// Nothing was heard of the peer for as long as a session is kept.
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

/// What an endpoint counted since it was made. A datagram that is dropped counts once, under its cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Datagrams that arrived.
    pub received: u64,
    /// Dropped: of no known kind, of a kind that this role does not get, or malformed.
    pub malformed: u64,
    /// Dropped: an INIT with a wrong mac1.
    pub bad_mac1: u64,
    /// Dropped: a rate limit.
    pub rate_limited: u64,
    /// Dropped: a handshake message that does not authenticate, or a RESET with a wrong tag.
    pub bad_handshake: u64,
    /// Dropped: a packet for a session that is not known.
    pub unknown_session: u64,
    /// Dropped: a datagram for a session that is in no state for it, such as a second RESP.
    pub unexpected: u64,
    /// Gateway: INITs whose early data was not accepted although they carried a token.
    pub early_rejected: u64,
    /// Gateway: sessions accepted.
    pub accepted: u64,
    /// Gateway: sessions refused.
    pub refused: u64,
    /// Gateway: the same INIT came again and got its RESP again.
    pub repeated: u64,
    /// Gateway: half-open sessions given up.
    pub half_open_dropped: u64,
    /// Gateway: RESETs sent.
    pub resets: u64,
    /// Gateway: VERSIONS sent.
    pub versions: u64,
    /// Agent: INITs sent, repetitions included.
    pub inits: u64,
}
