//! Identifiers of a session's requests, page loads and manifest entries, each with its own type.
//!
//! An identifier is encoded as the integer that it contains.
use std::fmt;

use bincode::{Decode, Encode};

/// Number of a `Fetch` or `TunnelOpen` of one session, assigned by the agent in ascending order from
/// [`FetchId::FIRST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct FetchId(u64);

impl FetchId {
    /// The first fetch of a session.
    pub const FIRST: Self = Self(1);

    /// The fetch with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The fetch that follows this one. A session ends long before the numbers do.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The fetch `distance` numbers before this one; the lowest number if there is none.
    #[must_use]
    pub(crate) const fn before(self, distance: u64) -> Self {
        Self(self.0.saturating_sub(distance))
    }

    /// Number of fetches from `earlier` to this one; 0 if `earlier` is not earlier.
    pub(crate) const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for FetchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A page load of one session, identified by the number of the page's fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct PageId(FetchId);

impl PageId {
    /// The page load of this fetch.
    pub const fn of(fetch: FetchId) -> Self {
        Self(fetch)
    }

    /// The page's fetch.
    pub const fn fetch(self) -> FetchId {
        self.0
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of an entry in the manifest of one page load. Entries are numbered from [`EntryId::FIRST`] in the
/// order of their records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct EntryId(u32);

impl EntryId {
    /// The first entry of a manifest.
    pub const FIRST: Self = Self(0);

    /// The entry with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The entry at this position of a list of all entries; `None` if the number does not fit an identifier.
    pub fn at(position: usize) -> Option<Self> {
        u32::try_from(position).ok().map(Self)
    }

    /// The number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Position of the entry in a list of all entries.
    pub fn position(self) -> usize {
        // Every platform with an allocator for a manifest has pointers of at least 32 bits.
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// All entries in ascending order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u32::MAX).map(Self)
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a connection of the browser whose requests use connection-bound logins (NTLM, Negotiate:
/// RFC 4559).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoundConnectionId(u64);

impl BoundConnectionId {
    /// The connection with this number; `None` for 0, which numbers no connection.
    pub const fn new(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// The number, never 0.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for BoundConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a `Forget` of one session, assigned by the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct ForgetId(u64);

impl ForgetId {
    /// The deletion with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ForgetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies the contents of an agent's cache (docs/protocol/session.md section 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheStateId(u64);

impl CacheStateId {
    /// The state with this number; `None` for 0, which numbers no state.
    pub const fn new(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// The number, never 0.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for CacheStateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
