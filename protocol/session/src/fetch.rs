//! Requests of the agent (docs/protocol/session.md sections 2, 5 and 6).
use bincode::{Decode, Encode};
use longhaul_types::{ClientId, ContentHash};

use crate::{
    hash_prefix::{ManifestId, ShortHash},
    headers::HeaderSet,
    id::{BoundConnectionId, FetchId, PageId},
};

/// A request method.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// OPTIONS
    Options,
    /// PATCH
    Patch,
    /// Any other token.
    Other(String),
}

/// Kind of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum FetchKind {
    /// Navigation: a document that the browser displays.
    Page,
    /// An object of a page, or a request of unknown purpose.
    Object,
}

/// A request (RFC 9110) that the gateway is to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Number of the fetch.
    pub id: FetchId,
    /// Method.
    pub method: Method,
    /// Number of first bytes of the URL that equal those of the URL of the fetch that is the base of
    /// `headers`; 0 without base.
    pub url_shared: u16,
    /// Absolute URL without fragment, after the shared bytes.
    pub url: String,
    /// Fields of the request, without hop-by-hop fields.
    pub headers: HeaderSet,
    /// Page or object.
    pub kind: FetchKind,
    /// True if `Body` and windows follow on this stream.
    pub has_body: bool,
    /// For an object, the page load that it belongs to.
    pub page: Option<PageId>,
    /// CHK of the version of this URL that the agent holds.
    pub held: Option<ContentHash>,
    /// For a page, the id of the kept manifest of its previous load.
    pub manifest: Option<ManifestId>,
    /// For a page, if the gateway has no mirror: the bodies of that manifest that the agent holds.
    pub holding: Vec<ShortHash>,
    /// Permitted ways of the answer.
    pub delivery: Delivery,
    /// The browser's connection, if it uses connection-bound logins.
    pub connection: Option<BoundConnectionId>,
    /// Client that the agent serves: data stored for one client answers no other client.
    pub client: ClientId,
    /// Removes the partition: nothing private is looked up or stored, because a frame of another site may be
    /// the requester.
    pub unpartitioned: bool,
    /// Newest fetch whose `Head` the agent has received (section 5).
    pub seen: Option<FetchId>,
    /// Present if the fetch repeats an earlier request from an offset (section 6).
    pub resume: Option<Resume>,
}

impl Fetch {
    /// A fetch of an object, without body, that belongs to no page load and may be answered in any way. `url` is
    /// absolute.
    pub const fn new(id: FetchId, method: Method, url: String, headers: HeaderSet) -> Self {
        Self {
            id,
            method,
            url_shared: 0,
            url,
            headers,
            kind: FetchKind::Object,
            has_body: false,
            page: None,
            held: None,
            manifest: None,
            holding: Vec::new(),
            delivery: Delivery::Any,
            connection: None,
            client: ClientId::OWNER,
            unpartitioned: false,
            seen: None,
            resume: None,
        }
    }
}

/// Permitted ways of the answer to a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Delivery {
    /// `Promised` is permitted if an entry of a manifest matches.
    Any,
    /// On a response stream of its own.
    Own,
    /// On a response stream of its own and encoded without base, because the agent lacks the named base.
    Plain,
}

/// Position at which an interrupted body resumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Decoded bytes that the agent has delivered.
    pub offset: u64,
    /// Validator of the first response.
    pub validator: Validator,
}

/// A validator of a response (RFC 9110 section 8.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validator {
    /// A strong entity tag, with its quotes.
    EntityTag(String),
    /// Value of a Last-Modified field.
    LastModified(String),
    /// The CHK, known if the body was complete at the gateway.
    ContentHash(ContentHash),
}

/// Asks for the body of a fetch whose client waits for that (`Expect: 100-continue`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Continue {
    /// The fetch.
    pub fetch: FetchId,
}

/// Cancels a fetch or tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Cancel {
    /// Number of the fetch or tunnel.
    pub fetch: FetchId,
}
