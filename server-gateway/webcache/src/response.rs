//! Responses of the cache.
use http::{HeaderMap, StatusCode};

use super::{body_reader::BodyReader, origin_size::OriginSize, requester_identity::RequesterIdentity};

/// A response.
#[derive(Debug)]
pub struct GatewayResponse {
    /// Status code.
    pub status: StatusCode,
    /// Fields as sent to the agent: content codings removed, hop-by-hop fields removed, with `Via` and, if
    /// required, `Age`.
    pub headers: HeaderMap,
    /// The body.
    pub content: Content,
    /// Properties outside the message.
    pub response_context: ResponseContext,
}

/// The body of a response.
#[derive(Debug)]
pub enum Content {
    /// No body, or an empty one.
    None,
    /// A body of at least one byte, or of unknown length.
    Body(BodyReader),
}

/// Properties of a response outside the message.
#[derive(Clone, Debug)]
pub struct ResponseContext {
    /// The request's fields as the origin received them, without conditions of the gateway, for the keys of
    /// `Vary` and `Cookie`. For a stored response these are the fields of the request that it now answers.
    pub request: HeaderMap,
    /// The requester.
    pub identity: RequesterIdentity,
    /// Use of the cache.
    pub cache_status: CacheStatus,
    /// Other devices that may get the response.
    pub audience: Audience,
    /// Bytes that the origin sent for the response, now or when it was stored.
    pub origin_size: OriginSize,
}

/// Use of the cache for a response; compare RFC 9211.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStatus {
    /// The origin sent the response.
    Miss,
    /// A stored response was fresh.
    Hit,
    /// The response is that of another request in progress (collapsed).
    Coalesced,
    /// A stored response is stale and the origin failed (stale-if-error).
    Stale,
    /// The origin confirmed a stored response (304).
    Revalidated,
}

impl CacheStatus {
    pub(crate) const ALL: [Self; 5] = [
        Self::Hit,
        Self::Revalidated,
        Self::Miss,
        Self::Coalesced,
        Self::Stale,
    ];
}

/// Devices that may get a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Any device that requests the body.
    Everybody,
    /// Only the device that requested the body.
    RequestingDevice,
    /// The same, for a body that may contain secrets of the user beside what others put into the request, and that its origin
    /// did not code: the coded size must not show what these have in common.
    RequestingUser,
}

impl Audience {
    /// Returns the audience without other devices.
    #[must_use]
    pub const fn only_requesting(self) -> Self {
        match self {
            Self::Everybody => Self::RequestingDevice,
            Self::RequestingDevice | Self::RequestingUser => self,
        }
    }
}
