//! Responses as the cache keeps them: all but the body.
use longhaul_types::{ContentHash, UnixTime};

/// The most variants of one URL in one partition; the oldest gives way. Pages that vary on more are rarely met twice.
pub const MAX_VARIANTS: usize = 16;
/// The most that URL, fields and partition of a response may take in bytes; a larger one is not kept. Servers and
/// browsers refuse header sections far below this.
pub const MAX_RESPONSE: usize = 256 * 1024;

/// Whose requests a stored response may answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Partition {
    /// Everybody's: what RFC 9111 lets a shared cache store.
    Shared,
    /// One device's, by its public key.
    Device([u8; 32]),
    /// Those made on behalf of one site, by its host, so that another site cannot find out what was visited.
    Site(String),
}

/// A stored response (RFC 9111 section 2), its body named by hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// Whose requests it may answer.
    pub partition: Partition,
    /// The effective request URI.
    pub url: String,
    /// The secondary cache key (RFC 9111 section 4.1): a hash of the request fields that `Vary` names, or zero.
    pub vary: [u8; 8],
    /// The request fields that `Vary` names.
    pub request_fields: Vec<(String, Vec<u8>)>,
    /// The status code.
    pub status: u16,
    /// The response's fields.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The body; none if the response has none.
    pub chk: Option<ContentHash>,
    /// The length of the body in bytes.
    pub length: u64,
    /// When the request was sent (RFC 9111 section 4.2.3, `request_time`).
    pub requested_at: UnixTime,
    /// When the response came (`response_time`).
    pub received_at: UnixTime,
}
