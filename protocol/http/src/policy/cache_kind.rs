//! Private and shared caches.

/// The kind of cache (RFC 9111 section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// The cache of one user: the agent's, and a device's partition at the gateway.
    Private,
    /// The cache of all users.
    Shared,
}
