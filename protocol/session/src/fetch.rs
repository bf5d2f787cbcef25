//! Payload of `Fetch` (docs/protocol/session.md section 5): members that most requests lack form one optional
//! part.
use bincode::{Decode, Encode};
use longhaul_types::ClientId;

use super::{
    bundle::{ManifestId, ShortHash},
    headers::HeaderSet,
    message::{Delivery, Fetch, FetchKind, Method, Resume},
};

/// Payload of a `Fetch`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) struct FetchPayload {
    id: u64,
    method: Method,
    url_shared: u16,
    url: String,
    headers: HeaderSet,
    page: u64,
    seen: u64,
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
    connection: u64,
    client: u64,
    unpartitioned: bool,
    resume: Option<Resume>,
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

impl FetchPayload {
    pub(super) fn of(fetch: &Fetch) -> Self {
        let more = More {
            kind: fetch.kind,
            has_body: fetch.has_body,
            held: fetch.held,
            manifest: fetch.manifest,
            holding: fetch.holding.clone(),
            delivery: fetch.delivery,
            connection: fetch.connection,
            client: fetch.client.0,
            unpartitioned: fetch.unpartitioned,
            resume: fetch.resume.clone(),
        };
        Self {
            id: fetch.id,
            method: fetch.method.clone(),
            url_shared: fetch.url_shared,
            url: fetch.url.clone(),
            headers: fetch.headers.clone(),
            page: fetch.page,
            seen: fetch.seen,
            more: (more != More::NONE).then_some(more),
        }
    }

    pub(super) fn into_fetch(self) -> Fetch {
        let more = self.more.unwrap_or(More::NONE);
        Fetch {
            id: self.id,
            method: self.method,
            url_shared: self.url_shared,
            url: self.url,
            headers: self.headers,
            kind: more.kind,
            has_body: more.has_body,
            page: self.page,
            held: more.held,
            manifest: more.manifest,
            holding: more.holding,
            delivery: more.delivery,
            connection: more.connection,
            client: ClientId(more.client),
            unpartitioned: more.unpartitioned,
            seen: self.seen,
            resume: more.resume,
        }
    }
}
