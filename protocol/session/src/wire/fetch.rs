//! Payload of `Fetch` (docs/protocol/session.md section 5): members that most requests lack form one optional
//! part.
use bincode::{Decode, Encode};
use longhaul_types::{ClientId, ContentHash};

use super::OptionalFetchId;
use crate::{
    fetch::{Delivery, Fetch, FetchKind, Method, Resume, Validator},
    hash_prefix::{ManifestId, ShortHash},
    headers::HeaderSet,
    id::{BoundConnectionId, FetchId, PageId},
};

/// Payload of a `Fetch`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct FetchPayload {
    id: FetchId,
    method: Method,
    url_shared: u16,
    url: String,
    headers: HeaderSet,
    page: OptionalFetchId,
    seen: OptionalFetchId,
    more: Option<More>,
}

/// Members that have default values in most fetches of objects.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct More {
    kind: FetchKind,
    has_body: bool,
    held: Option<[u8; 32]>,
    manifest: Option<ManifestId>,
    holding: Vec<ShortHash>,
    delivery: Delivery,
    /// 0 for connections without bound logins.
    connection: u64,
    client: u64,
    unpartitioned: bool,
    resume: Option<ResumePayload>,
}

impl More {
    const NONE: Self = Self {
        kind: FetchKind::Object,
        has_body: false,
        held: None,
        manifest: None,
        holding: Vec::new(),
        delivery: Delivery::Any,
        connection: 0,
        client: 0,
        unpartitioned: false,
        resume: None,
    };
}

/// Payload of a [`Resume`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct ResumePayload {
    offset: u64,
    validator: ValidatorPayload,
}

/// Payload of a [`Validator`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
enum ValidatorPayload {
    EntityTag(String),
    LastModified(String),
    ContentHash([u8; 32]),
}

impl From<&Resume> for ResumePayload {
    fn from(resume: &Resume) -> Self {
        Self {
            offset: resume.offset,
            validator: match &resume.validator {
                Validator::EntityTag(tag) => ValidatorPayload::EntityTag(tag.clone()),
                Validator::LastModified(date) => ValidatorPayload::LastModified(date.clone()),
                Validator::ContentHash(hash) => ValidatorPayload::ContentHash(*hash.as_bytes()),
            },
        }
    }
}

impl From<ResumePayload> for Resume {
    fn from(payload: ResumePayload) -> Self {
        Self {
            offset: payload.offset,
            validator: match payload.validator {
                ValidatorPayload::EntityTag(tag) => Validator::EntityTag(tag),
                ValidatorPayload::LastModified(date) => Validator::LastModified(date),
                ValidatorPayload::ContentHash(hash) => Validator::ContentHash(ContentHash::from_bytes(hash)),
            },
        }
    }
}

impl From<&Fetch> for FetchPayload {
    fn from(fetch: &Fetch) -> Self {
        let more = More {
            kind: fetch.kind,
            has_body: fetch.has_body,
            held: fetch.held.map(|hash| *hash.as_bytes()),
            manifest: fetch.manifest,
            holding: fetch.holding.clone(),
            delivery: fetch.delivery,
            connection: fetch.connection.map_or(0, BoundConnectionId::number),
            client: fetch.client.0,
            unpartitioned: fetch.unpartitioned,
            resume: fetch.resume.as_ref().map(ResumePayload::from),
        };
        Self {
            id: fetch.id,
            method: fetch.method.clone(),
            url_shared: fetch.url_shared,
            url: fetch.url.clone(),
            headers: fetch.headers.clone(),
            page: fetch.page.map(PageId::fetch).into(),
            seen: fetch.seen.into(),
            more: (more != More::NONE).then_some(more),
        }
    }
}

impl From<FetchPayload> for Fetch {
    fn from(payload: FetchPayload) -> Self {
        let more = payload.more.unwrap_or(More::NONE);
        Self {
            id: payload.id,
            method: payload.method,
            url_shared: payload.url_shared,
            url: payload.url,
            headers: payload.headers,
            kind: more.kind,
            has_body: more.has_body,
            page: payload.page.get().map(PageId::of),
            held: more.held.map(ContentHash::from_bytes),
            manifest: more.manifest,
            holding: more.holding,
            delivery: more.delivery,
            connection: BoundConnectionId::new(more.connection),
            client: ClientId(more.client),
            unpartitioned: more.unpartitioned,
            seen: payload.seen.get(),
            resume: more.resume.map(Resume::from),
        }
    }
}
