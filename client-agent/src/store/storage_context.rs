//! The context under which a response is stored, and its record.
use http::{HeaderMap, StatusCode};
use longhaul_cache::{Owner, Partition, StoredResponse};
use longhaul_http::{
    request_context::{CredentialsKey, RequestContext},
    site::SchemefulSite,
    vary,
};
use longhaul_types::ClientId;

use crate::wall_clock::now;

/// The cache context under which a response is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorageContext {
    partition: Partition,
    credentials: Option<CredentialsKey>,
}

impl StorageContext {
    /// Context of requests like this one, whose response was fetched with its credentials. `None`: nothing
    /// may be stored for it.
    pub(crate) fn of(context: &RequestContext) -> Option<Self> {
        Some(Self {
            partition: Partition::local(context)?,
            credentials: context.credentials(),
        })
    }

    /// Context of a site's own documents, for responses fetched without credentials.
    pub(crate) fn of_site(client: ClientId, site: SchemefulSite) -> Self {
        Self {
            partition: Partition::of_site(Owner::local(client), site),
            credentials: None,
        }
    }

    /// Returns the same context for a response that was fetched without credentials.
    pub(crate) fn anonymous(self) -> Self {
        Self {
            credentials: None,
            ..self
        }
    }
}

/// Builds the cache's record of a response, without its body. `request` needs only the fields that `Vary`
/// names.
pub(crate) fn response_of(
    storage_context: &StorageContext,
    url: &str,
    request: &HeaderMap,
    status: StatusCode,
    fields: &HeaderMap,
) -> StoredResponse {
    let now = now();
    StoredResponse {
        partition: storage_context.partition.clone(),
        url: url.to_owned(),
        vary: vary::key(fields, request).unwrap_or_default(),
        credentials: storage_context.credentials,
        request_fields: pairs(&vary::nominated(fields, request)),
        status: status.as_u16(),
        fields: pairs(fields),
        chk: None,
        length: 0,
        requested_at: now,
        received_at: now,
        // Only the gateway knows them.
        origin_bytes: None,
    }
}

pub(super) fn pairs(fields: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    fields
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect()
}
