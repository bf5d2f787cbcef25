//! Rules for the reuse of connections by requests of different owners.
//!
//! Only the order of the messages on an HTTP/1.1 connection associates responses with requests. An origin, or
//! a reverse proxy in front of it, that parses a part of one request as the start of the next answers the
//! next request with a response that an attacker chose (request smuggling); so does one that can be made to send
//! two responses to one request (response splitting). An HTTP/1.1 connection therefore serves one device, and a
//! scope of it after a request that could cause this; an HTTP/2 connection serves one device at a time, and no
//! other one after a request with private data.
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, Hasher, RandomState};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{
        ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CACHE_CONTROL, COOKIE, DNT,
        IF_MODIFIED_SINCE, IF_NONE_MATCH, ORIGIN, PRAGMA, RANGE, REFERER, UPGRADE_INSECURE_REQUESTS,
        USER_AGENT, VIA,
    },
    request::Parts,
};
use http_body::Body as _;
use longhaul_types::PublicKey;

use crate::{connection_use::ConnectionUse, target::Target, upload::Upload};

/// Maximum head of a request whose connection may serve other devices afterwards: the head that common
/// servers accept at least (Apache and nginx: 8 KiB), so that none of them loses synchronization in a head
/// that it rejects.
const MAX_SHAREABLE_HEAD: usize = 8 * 1024;

/// Fields that browsers send in a fixed form, and that carry no message length, connection option or user
/// data. A request with any other field is private to its device.
const CANONICAL_FIELDS: [HeaderName; 14] = [
    ACCEPT,
    ACCEPT_ENCODING,
    ACCEPT_LANGUAGE,
    CACHE_CONTROL,
    DNT,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    ORIGIN,
    PRAGMA,
    RANGE,
    REFERER,
    UPGRADE_INSECURE_REQUESTS,
    USER_AGENT,
    VIA,
];
/// Further canonical fields, for which the library has no constant.
const CANONICAL_NAMES: [&str; 5] = ["early-data", "priority", "save-data", "sec-gpc", "sec-purpose"];
/// Prefixes of further canonical fields: client hints and Fetch Metadata.
const CANONICAL_PREFIXES: [&str; 2] = ["sec-ch-", "sec-fetch-"];

/// Owner of a request. Each fetch and tunnel has an owner, which determines the connections that the request
/// may use and the share of the limits that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectionOwner {
    /// A device that the gateway serves.
    Device(PublicKey),
    /// One of the clients of a network: each has connections of its own, and all of them have the limits of one device.
    OfNetwork {
        /// The client.
        client: PublicKey,
        /// The network, which has the limits.
        network: PublicKey,
    },
    /// The user of this machine: an agent that fetches without a gateway.
    Local,
}

impl ConnectionOwner {
    /// The owner of the limits of which a request takes a share. It never decides which connections a request may use.
    #[must_use]
    pub const fn share(self) -> Self {
        match self {
            Self::OfNetwork { network, .. } => Self::Device(network),
            Self::Device(_) | Self::Local => self,
        }
    }
}

/// Effect of a request on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEffect {
    /// None: the connection may serve other devices afterwards.
    None,
    /// The request had credentials or other private fields of its device.
    Private,
    /// The request may have left bytes that the origin parses as the next request.
    Body,
}

/// Properties of a request that the pool uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestProperties {
    pub(crate) owner: ConnectionOwner,
    /// Hash of the requester's origin and the credentials. Browsers keep the connections of sites and
    /// profiles apart; after a request with a body, this value does the same.
    scope: u64,
    /// True if the requesting document is same-origin with the target.
    is_same_origin: bool,
    effect: ConnectionEffect,
    /// True if the request may be sent once more if it is lost with its connection.
    pub(crate) is_repeatable: bool,
    /// The required use of the connection.
    pub(crate) connection_use: ConnectionUse,
}

impl RequestProperties {
    /// Derives the properties of a request to `target` from its head and body. `secret` is the key of the credentials' hash.
    pub(crate) fn of(
        owner: ConnectionOwner,
        target: &Target,
        parts: &Parts,
        body: &Upload,
        secret: &RandomState,
    ) -> Self {
        Self {
            is_repeatable: parts.method.is_idempotent() && body.is_recordable(),
            owner,
            scope: scope(&parts.headers, secret),
            is_same_origin: requester(&parts.headers) == target.origin().as_bytes(),
            effect: effect(parts, !body.is_end_stream()),
            connection_use: ConnectionUse::Any,
        }
    }

    /// Requires a use of the connection.
    pub(crate) fn requiring(self, connection_use: ConnectionUse) -> Self {
        Self {
            connection_use,
            ..self
        }
    }
}

/// Ownership of a connection after the requests that it carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The connection carried nothing private.
    Unclaimed,
    /// The connection carried a device's credentials or private fields, or a request of it over HTTP/1.1.
    Device(ConnectionOwner),
    /// The connection carried a body from the origin's own document over HTTP/1.1: only requests of this
    /// device and scope.
    Scope(ConnectionOwner, u64),
    /// The connection carried a body from another origin's document over HTTP/1.1: that document may control
    /// the next response, so the connection is not reused.
    Nobody,
}

impl Ownership {
    /// Returns the device that owns the connection.
    pub(crate) fn owner(self) -> Option<ConnectionOwner> {
        match self {
            Self::Unclaimed | Self::Nobody => None,
            Self::Device(owner) | Self::Scope(owner, _) => Some(owner),
        }
    }

    /// Returns the suitability of a connection for a request, higher is better; `None` if the connection must
    /// not carry the request. A device's own connections are preferred, so that unowned ones stay available
    /// to others.
    pub(crate) fn preference(self, properties: &RequestProperties) -> Option<u8> {
        match self {
            Self::Unclaimed => Some(0),
            Self::Device(owner) => (owner == properties.owner).then_some(1),
            Self::Scope(owner, scope) => {
                (owner == properties.owner && scope == properties.scope).then_some(2)
            }
            Self::Nobody => None,
        }
    }

    /// Returns the ownership after the request.
    pub(crate) fn after(self, properties: &RequestProperties, protocol: Multiplexing) -> Self {
        match (properties.effect, self, protocol) {
            (ConnectionEffect::None, _, Multiplexing::Streams)
            | (ConnectionEffect::None | ConnectionEffect::Private, Self::Device(_) | Self::Scope(..), _)
            | (_, Self::Nobody, _) => self,
            (ConnectionEffect::Body, _, Multiplexing::No) if properties.is_same_origin => {
                Self::Scope(properties.owner, properties.scope)
            }
            (ConnectionEffect::Body, _, Multiplexing::No) => Self::Nobody,
            // Stream numbers separate HTTP/2 messages. Only a proxy between origin and application may
            // confuse them; for such a proxy the device's other streams are equivalent to those of another
            // connection of the device.
            (ConnectionEffect::Body, _, Multiplexing::Streams)
            | (ConnectionEffect::Private, Self::Unclaimed, _)
            | (ConnectionEffect::None, Self::Unclaimed, Multiplexing::No) => Self::Device(properties.owner),
        }
    }
}

/// Separation of the messages on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Multiplexing {
    /// HTTP/1.1: by order only.
    No,
    /// HTTP/2: by stream.
    Streams,
}

fn effect(parts: &Parts, has_body: bool) -> ConnectionEffect {
    if has_body {
        return ConnectionEffect::Body;
    }
    // An origin may answer HEAD with a body, and may treat other methods unexpectedly.
    if parts.method != Method::GET {
        return ConnectionEffect::Private;
    }
    let size: usize = parts
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len())
        .sum();
    let size = size + parts.uri.path_and_query().map_or(0, |path| path.as_str().len());
    let is_shareable = size <= MAX_SHAREABLE_HEAD
        && parts
            .headers
            .iter()
            .all(|(name, value)| is_canonical(name) && is_plain(value));
    if is_shareable {
        ConnectionEffect::None
    } else {
        ConnectionEffect::Private
    }
}

fn is_canonical(name: &HeaderName) -> bool {
    let text = name.as_str();
    CANONICAL_FIELDS.contains(name)
        || CANONICAL_NAMES.contains(&text)
        || CANONICAL_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

/// Returns true if a value has no bytes that servers interpret differently.
fn is_plain(value: &HeaderValue) -> bool {
    value.as_bytes().iter().all(|byte| matches!(byte, b' '..=b'~'))
}

fn scope(headers: &HeaderMap, secret: &RandomState) -> u64 {
    let mut hasher = secret.build_hasher();
    for name in [COOKIE, AUTHORIZATION] {
        for value in headers.get_all(&name) {
            hasher.write_usize(value.len());
            hasher.write(value.as_bytes());
        }
        hasher.write_u8(0xff);
    }
    hasher.write(requester(headers));
    hasher.finish()
}

/// Returns the origin of the requesting document from `Origin` or `Referer`; empty if the request has
/// neither.
fn requester(headers: &HeaderMap) -> &[u8] {
    if let Some(origin) = headers.get(ORIGIN) {
        return origin.as_bytes();
    }
    let referer = headers.get(REFERER).map_or(&[][..], HeaderValue::as_bytes);
    // Up to the third slash: the origin of `https://a.test/x` is `https://a.test`.
    let slashes = referer.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let end = slashes.map(|(at, _)| at).nth(2).unwrap_or(referer.len());
    &referer[..end]
}
