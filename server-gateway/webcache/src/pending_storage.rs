//! Storage of a response after its body is complete.
use std::sync::Arc;

use http::request::Parts;
use longhaul_cache::{Partition, StoredResponse};
use longhaul_types::ContentHash;

use super::{
    coalesced_fetch::FetchedResponse,
    requester_identity::RequesterIdentity,
    shared_state::SharedState,
    storage_rules::{self, StorageDecision},
    write_order::{Epoch, Storing},
};

/// State with which a feed stores the response once its body is complete.
pub(super) struct PendingStorage {
    pub(super) inner: Arc<SharedState>,
    pub(super) identity: RequesterIdentity,
    pub(super) parts: Parts,
    pub(super) epoch: Epoch,
    pub(super) response: Arc<FetchedResponse>,
}

impl PendingStorage {
    pub(super) async fn store(&self, chk: ContentHash, length: u64) {
        let body = Some((chk, length));
        store(
            &self.inner,
            &self.identity,
            &self.parts,
            self.epoch,
            &self.response,
            body,
        )
        .await;
    }

    /// Announces that the response will be stored in a moment.
    pub(super) fn announce(&self) -> Storing {
        self.inner.writes.begin(&self.parts.uri.to_string())
    }
}

/// Stores a response if its storage decision allows it and its URL was not invalidated since the request.
pub(super) async fn store(
    inner: &SharedState,
    identity: &RequesterIdentity,
    parts: &Parts,
    epoch: Epoch,
    fetched: &FetchedResponse,
    body: Option<(ContentHash, u64)>,
) {
    let (Some(cache), StorageDecision::In(partition) | StorageDecision::Uncertain(partition)) =
        (&inner.cache, &fetched.storage_decision)
    else {
        return;
    };
    if inner.writes.epoch(&parts.uri.to_string()) != epoch {
        return;
    }
    let stored = |partition| StoredResponse {
        origin_bytes: fetched.origin_size.to_stored(),
        ..storage_rules::to_store(
            partition,
            identity,
            parts,
            fetched.status,
            &fetched.headers,
            (fetched.requested_at, fetched.received_at),
            body,
        )
    };
    if let StorageDecision::Uncertain(_) = fetched.storage_decision {
        return cache
            .put(storage_rules::as_uncertain(stored(partition.clone())))
            .await;
    }
    cache.put(stored(partition.clone())).await;
    // The client that requested it may request it again from other pages, with another `Referer`.
    if *partition == Partition::Shared
        && let Some(own) = identity.partition()
    {
        cache.put(storage_rules::as_copy(stored(own))).await;
    }
}
