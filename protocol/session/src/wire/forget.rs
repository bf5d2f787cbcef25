//! Payload of `Forget`.
use bincode::{Decode, Encode};
use longhaul_types::ClientId;

use crate::{bundle::Forget, id::ForgetId};

/// Payload of a `Forget`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct ForgetPayload {
    id: ForgetId,
    client: Option<u64>,
    site: Option<String>,
}

impl From<&Forget> for ForgetPayload {
    fn from(forget: &Forget) -> Self {
        Self {
            id: forget.id,
            client: forget.client.map(|client| client.0),
            site: forget.site.clone(),
        }
    }
}

impl From<ForgetPayload> for Forget {
    fn from(payload: ForgetPayload) -> Self {
        Self {
            id: payload.id,
            client: payload.client.map(ClientId),
            site: payload.site,
        }
    }
}
