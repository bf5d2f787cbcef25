//! Responses as the cache keeps them: all but the body.
use longhaul_http::{
    request_context::{CredentialsKey, PartitionKey, RequestContext},
    site::SchemefulSite,
};
use longhaul_types::{ClientId, ContentHash, PublicKey, UnixTime};

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
    /// One client's, for one site.
    Private(PrivatePartition),
}

/// The partition of what is private: it answers the same client of the same device for the same site, and nobody else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrivatePartition {
    pub(crate) owner: Owner,
    /// As [`longhaul_http::request_context::PartitionKey`] displays itself.
    pub(crate) key: String,
}

/// Whose something private is: a client of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The device; the agent, which is one, leaves it zero.
    pub device: [u8; 32],
    /// Whom the device's agent serves.
    pub client: ClientId,
}

impl Owner {
    /// A client of the device that has the cache.
    pub const fn local(client: ClientId) -> Self {
        Self {
            device: [0; 32],
            client,
        }
    }

    /// A client of one of several devices.
    pub const fn of_device(device: &PublicKey, client: ClientId) -> Self {
        Self {
            device: *device.as_bytes(),
            client,
        }
    }
}

impl Partition {
    /// The partition of a site's own documents, and of what they load.
    pub fn of_site(owner: Owner, site: SchemefulSite) -> Self {
        let key = PartitionKey::of_site(site).to_string();
        Self::Private(PrivatePartition { owner, key })
    }

    /// The private partition for a request at the agent; none if nothing private may be looked up or kept for it.
    pub fn local(context: &RequestContext) -> Option<Self> {
        Self::private(Owner::local(context.client()), context)
    }

    /// The private partition for a request of a device at the gateway; none as for [`Partition::local`].
    pub fn of_device(device: &PublicKey, context: &RequestContext) -> Option<Self> {
        Self::private(Owner::of_device(device, context.client()), context)
    }

    fn private(owner: Owner, context: &RequestContext) -> Option<Self> {
        let key = context.partition()?.to_string();
        Some(Self::Private(PrivatePartition { owner, key }))
    }

    /// Whose it is; nobody's if it is everybody's.
    pub const fn owner(&self) -> Option<Owner> {
        match self {
            Self::Shared => None,
            Self::Private(partition) => Some(partition.owner),
        }
    }

    /// The registrable domains of the sites to which it belongs: who asks, and the document in a frame.
    pub(crate) fn domains(&self) -> impl Iterator<Item = String> {
        let key = match self {
            Self::Shared => "",
            Self::Private(partition) => &partition.key,
        };
        let sites = key.split(' ').filter_map(SchemefulSite::of_url);
        sites.map(|site| site.domain().to_owned())
    }
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
    /// The key of the credentials with which it was fetched, none if there were none: see
    /// [`RequestContext::may_reuse`]. Responses to different credentials are variants of their own.
    pub credentials: Option<CredentialsKey>,
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
