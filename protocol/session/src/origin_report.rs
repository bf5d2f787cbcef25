//! The gateway's report of what origins sent and what crossed the hop for it (docs/protocol/session.md
//! section 12).
use bincode::{Decode, Encode};

use crate::id::{EntryId, PageId};

/// Bytes since the previous report of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct OriginReport {
    /// Heads of responses.
    pub heads: Flow,
    /// Bodies that were compressed, or sent as they are.
    pub coding: Flow,
    /// Bodies that were encoded against a body that the agent holds.
    pub base: Flow,
    /// Images that the gateway replaced by smaller ones.
    pub pictures: Flow,
    /// Bodies from origins that were not sent, because the agent holds them.
    pub unchanged: u64,
    /// Bytes of tunnels towards the agent, which the origins and the hop carry alike.
    pub tunnels: u64,
    /// Entries whose bodies `unchanged` contains.
    pub unchanged_entries: Vec<UnchangedEntry>,
}

/// Bytes of the same responses on both sides of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Flow {
    /// Bytes from origins.
    pub origin: u64,
    /// Bytes towards the agent, without headers of the transport.
    pub hop: u64,
}

/// An entry of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct UnchangedEntry {
    /// Page load.
    pub page: PageId,
    /// Entry of its manifest.
    pub entry: EntryId,
}

impl OriginReport {
    /// Maximum number of entries in one report, so that it fits any envelope.
    pub const MAX_ENTRIES: usize = 1024;

    /// Returns true if the report contains nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
