//! The first messages of a session (docs/protocol/session.md section 2): versions, software, link and caches.
use bincode::{Decode, Encode};

use crate::{id::CacheStateId, preferences::Preferences};

/// Newest session version of this build.
pub const SESSION_VERSION: u16 = 3;

/// Oldest session version whose manifests may contain the records `Failed` and `Absent`.
pub const FAILURE_RECORDS: u16 = 3;

/// Range of session versions, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct VersionRange {
    /// Oldest version.
    pub oldest: u16,
    /// Newest version.
    pub newest: u16,
}

impl VersionRange {
    /// Versions that this build supports.
    pub const OURS: Self = Self {
        oldest: 2,
        newest: SESSION_VERSION,
    };

    /// The newest version that both ends support, if any.
    pub fn common(self, other: Self) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

/// First message of an agent in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Session versions that the agent supports.
    pub versions: VersionRange,
    /// Software of the agent, for the operator, such as `longhaul-agent/0.1.0`.
    pub software: String,
    /// Link profile in the agent's configuration.
    pub link: Option<LinkHint>,
    /// State of the agent's cache; `None` while the cache contains nothing of interest to the gateway.
    pub cache_state: Option<CacheStateId>,
    /// Settings of the user.
    pub preferences: Preferences,
}

/// A configured link profile, as in [`longhaul_types::LinkProfile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LinkHint {
    /// Rate towards the agent in bit/s.
    pub down_bps: u64,
    /// Rate towards the gateway in bit/s.
    pub up_bps: u64,
    /// Round-trip time of the idle hop in ms.
    pub rtt_ms: u32,
}

/// First message of a gateway in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Version of the session from now on; `None` if there is no common version, and the gateway closes the
    /// session.
    pub version: Option<u16>,
    /// Versions that the gateway supports.
    pub versions: VersionRange,
    /// Software of the gateway.
    pub software: String,
    /// States if the gateway has the mirror of the agent's cache state.
    pub mirror: MirrorState,
}

/// Availability of the mirror of the cache state that the agent's `Hello` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum MirrorState {
    /// The gateway has the mirror.
    Agreed,
    /// The gateway does not know this cache state.
    Unknown,
}
