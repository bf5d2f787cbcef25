//! Stored responses, without their bodies.
use longhaul_http::{
    request_context::{CredentialsKey, PartitionKey, RequestContext},
    site::SchemefulSite,
};
use longhaul_types::{ClientId, ContentHash, PublicKey, UnixTime};

/// Maximum number of variants of one URL in one partition; the oldest is replaced. Responses that vary more
/// are rarely reused.
pub const MAX_VARIANTS: usize = 16;
/// Maximum size of URL, fields and partition of a response in bytes; larger responses are not stored. Servers
/// and browsers reject header sections far below this.
pub const MAX_RESPONSE: usize = 256 * 1024;

/// The requests that a stored response may answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Partition {
    /// All requests: responses that RFC 9111 permits a shared cache to store.
    Shared,
    /// Requests of one client for one site.
    Private(PrivatePartition),
}

/// The partition of private data: these answer only requests of the same client of the same device for the
/// same site.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrivatePartition {
    pub(crate) owner: Owner,
    /// In the format in which [`longhaul_http::request_context::PartitionKey`] is displayed.
    pub(crate) key: String,
}

/// The owner of private data: a client of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The device; zero at the agent, which is the only device of its cache.
    pub device: [u8; 32],
    /// The client that the device's agent serves.
    pub client: ClientId,
}

impl Owner {
    /// A client of the local device.
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
    /// Returns the partition of a site's own documents and their subresources.
    pub fn of_site(owner: Owner, site: SchemefulSite) -> Self {
        let key = PartitionKey::of_site(site).to_string();
        Self::Private(PrivatePartition { owner, key })
    }

    /// Returns the private partition of a request at the agent; none if nothing private may be looked up or
    /// stored for the request.
    pub fn local(context: &RequestContext) -> Option<Self> {
        Self::private(Owner::local(context.client()), context)
    }

    /// Returns the private partition of a device's request at the gateway; none as for [`Partition::local`].
    pub fn of_device(device: &PublicKey, context: &RequestContext) -> Option<Self> {
        Self::private(Owner::of_device(device, context.client()), context)
    }

    fn private(owner: Owner, context: &RequestContext) -> Option<Self> {
        let key = context.partition()?.to_string();
        Some(Self::Private(PrivatePartition { owner, key }))
    }

    /// The owner; none for the shared partition.
    pub const fn owner(&self) -> Option<Owner> {
        match self {
            Self::Shared => None,
            Self::Private(partition) => Some(partition.owner),
        }
    }

    /// Registrable domains of the partition's sites: the requester's, and that of the document in a frame.
    pub(crate) fn domains(&self) -> impl Iterator<Item = String> {
        let key = match self {
            Self::Shared => "",
            Self::Private(partition) => &partition.key,
        };
        let sites = key.split(' ').filter_map(SchemefulSite::of_url);
        sites.map(|site| site.domain().to_owned())
    }
}

/// A stored response (RFC 9111 section 2), whose body is identified by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// The requests that the response may answer.
    pub partition: Partition,
    /// The effective request URI.
    pub url: String,
    /// The secondary cache key (RFC 9111 section 4.1): a hash of the request fields that `Vary` names, or
    /// zero.
    pub vary: [u8; 8],
    /// Key of the credentials with which the response was fetched, if any: see [`RequestContext::may_reuse`].
    /// Responses for different credentials are separate variants.
    pub credentials: Option<CredentialsKey>,
    /// The request fields that `Vary` names.
    pub request_fields: Vec<(String, Vec<u8>)>,
    /// Status code.
    pub status: u16,
    /// Response fields.
    pub fields: Vec<(String, Vec<u8>)>,
    /// Content hash of the body; none if the response has no body.
    pub chk: Option<ContentHash>,
    /// Length of the body in bytes.
    pub length: u64,
    /// Time at which the request was sent (RFC 9111 section 4.2.3, `request_time`).
    pub requested_at: UnixTime,
    /// Time at which the response was received (`response_time`).
    pub received_at: UnixTime,
    /// Bytes that the origin sent; none if they are unknown.
    pub origin_bytes: Option<OriginBytes>,
}

/// Bytes that an origin sent for a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OriginBytes {
    /// The head.
    pub head: u64,
    /// The body, with its content codings.
    pub body: u64,
}
