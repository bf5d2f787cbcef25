//! Payload of `Head`.
use bincode::{Decode, Encode};
use longhaul_types::ContentHash;

use crate::{
    headers::HeaderSet,
    id::FetchId,
    response::{BodyPlace, Head},
};

/// Payload of a `Head`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct HeadPayload {
    fetch: FetchId,
    status: u16,
    headers: HeaderSet,
    body: BodyPlace,
    content_hash: Option<[u8; 32]>,
}

impl From<&Head> for HeadPayload {
    fn from(head: &Head) -> Self {
        Self {
            fetch: head.fetch,
            status: head.status,
            headers: head.headers.clone(),
            body: head.body,
            content_hash: head.content_hash.map(|hash| *hash.as_bytes()),
        }
    }
}

impl From<HeadPayload> for Head {
    fn from(payload: HeadPayload) -> Self {
        Self {
            fetch: payload.fetch,
            status: payload.status,
            headers: payload.headers,
            body: payload.body,
            content_hash: payload.content_hash.map(ContentHash::from_bytes),
        }
    }
}
