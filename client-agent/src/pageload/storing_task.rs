//! The task of one page load: stores complete responses in the cache, and ends the page load.
use std::{sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode, header::SET_COOKIE};
use longhaul_cache::StoredResponse;
use longhaul_session::{EntryBody, EntryId};
use longhaul_types::ContentHash;
use tokio::time::sleep_until;
use tracing::debug;

use super::{
    entry_state::{EntryBodyState, HeldBody},
    kept_manifest::KeptManifest,
    lifecycle::EndReason,
    page_load::{PageLoad, StorableResponse},
    page_loads::PageLoads,
};
use crate::store::{Store, response_of};

/// Runs until the page load ends.
pub(super) async fn run(load: Arc<PageLoad>, store: Store, loads: PageLoads, linger: Duration) {
    let mut changes = load.changes();
    let mut manifest_stored = false;
    loop {
        changes.borrow_and_update();
        while let Some((entry, storable)) = load.next_to_store() {
            if let Some(chk) = store_response(&load, &store, entry, storable).await {
                load.set_content_hash(entry, chk);
            }
        }
        let complete = load.is_complete();
        if (complete && !manifest_stored || load.is_over())
            && let Some(mut kept) = load.manifest_to_store()
        {
            if store.is_on() {
                let stored = store.manifest(&load.context, &load.url).await;
                if let Some(stored) = stored.and_then(KeptManifest::from_record) {
                    kept.replace(&stored);
                }
                store
                    .store_manifest(&load.context, &load.url, kept.to_record())
                    .await;
                load.counters.manifests_kept.increment();
            }
            manifest_stored = true;
        }
        if load.is_over() {
            break;
        }
        let idle = complete && !load.is_used();
        tokio::select! {
            // The sender is part of the page load.
            _ = changes.changed() => {}
            () = sleep_until(load.last_progress() + linger), if idle => load.end(EndReason::Complete),
        }
    }
    loads.remove(&load);
}

/// Stores the body of an entry, and its response for the contexts that used it; returns the CHK of the body.
async fn store_response(
    load: &PageLoad,
    store: &Store,
    entry: EntryId,
    storable: StorableResponse,
) -> Option<ContentHash> {
    let fields = longhaul_http::field_list::to_map(&storable.head.fields).ok()?;
    let status = StatusCode::from_u16(storable.head.status).ok()?;
    if !store.is_on() || !longhaul_http::policy::agent_stores_pushed(status, &fields) {
        return None;
    }
    let chk = match (&storable.body, storable.head.body) {
        (None, EntryBody::None) => None,
        (None, _) => Some(held(load, store, entry).await?),
        (Some(body), _) => {
            let chk = body.end()?.ok()?;
            let _busy = store.busy();
            if !store.has(chk).await {
                let mut writer = store.writer()?;
                let mut reader = body.reader();
                while let Ok(Some(chunk)) = reader.next().await {
                    writer.write(chunk).await;
                }
                if let Err(error) = writer.commit().await {
                    debug!(%error, "a pushed body cannot be stored");
                    store.report_missing(chk);
                    return None;
                }
            }
            Some(chk)
        }
    };
    if fields.contains_key(SET_COOKIE) {
        // A stored response with `Set-Cookie` would not set its cookies again, and the browser has not
        // received them yet.
        return chk;
    }
    let length = match (&storable.body, chk) {
        (Some(body), _) => body.length(),
        (None, Some(chk)) => store.length(chk).await,
        (None, None) => Some(0),
    };
    for storage_context in &storable.storage_contexts {
        let response = response_of(storage_context, &storable.url, &HeaderMap::new(), status, &fields);
        store
            .put(StoredResponse {
                vary: storable.head.vary.unwrap_or_default(),
                chk,
                length: length?,
                ..response
            })
            .await;
    }
    chk
}

/// Returns the CHK of a body that the cache should hold, if the cache has it.
async fn held(load: &PageLoad, store: &Store, entry: EntryId) -> Option<ContentHash> {
    match load.body(entry) {
        EntryBodyState::Held(_, HeldBody::Prefix(prefix)) => store.find_prefix(&prefix).await,
        EntryBodyState::Held(_, HeldBody::Whole(chk)) => store.has(chk).await.then_some(chk),
        EntryBodyState::Held(_, HeldBody::Unknown)
        | EntryBodyState::None
        | EntryBodyState::Pending
        | EntryBodyState::Arriving(..)
        | EntryBodyState::Failed
        | EntryBodyState::Lost => None,
    }
}
