//! Responses: their heads, and the announcements of their bodies (docs/protocol/session.md section 2).
use bincode::{Decode, Encode};
use longhaul_types::ContentHash;

use crate::{hash_prefix::ShortHash, headers::HeaderSet, id::FetchId};

/// Status and fields of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the fetch.
    pub fetch: FetchId,
    /// Status code, 200 to 599.
    pub status: u16,
    /// Fields of the response, without hop-by-hop fields.
    pub headers: HeaderSet,
    /// Location of the body.
    pub body: BodyPlace,
    /// CHK of the decoded body, if known in advance.
    pub content_hash: Option<ContentHash>,
}

/// Location of a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum BodyPlace {
    /// The response has no body.
    None,
    /// `Body` and windows follow on this stream.
    Follows,
    /// The agent holds the body with the head's content hash.
    Held,
}

/// Announces the windows of a body (docs/protocol/body.md).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Body {
    /// Coding of the windows.
    pub coding: BodyCoding,
    /// Decoded length, if known.
    pub length: Option<u64>,
    /// Decoded offset at which the windows start; 0 unless the body is resumed.
    pub offset: u64,
    /// Body that the agent holds and against which the windows are encoded; only towards the agent.
    pub base: Option<ShortHash>,
}

/// Coding of a body's windows on the hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum BodyCoding {
    /// Identity.
    Identity,
    /// Zstandard (RFC 8878).
    Zstd,
    /// Brotli (RFC 7932).
    Brotli,
    /// Context mixing (mix.md).
    Mix,
}
