//! The task of one page load: hands what is complete to the cache, and ends the load.
use std::{sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode, header::SET_COOKIE};
use longhaul_cache::StoredResponse;
use longhaul_protocol::session::EntryBody;
use longhaul_types::ContentHash;
use tokio::time::sleep_until;
use tracing::debug;

use super::{
    Loads,
    ending::End,
    load::{Keep, PageLoad, header_map},
    outlook::{BodyOutlook, HeldBody},
};
use crate::store::{Store, response_of};

/// Follows a page load to its end.
pub(super) async fn keep(load: Arc<PageLoad>, store: Store, loads: Loads, linger: Duration) {
    let mut changes = load.changes();
    let mut manifest_kept = false;
    loop {
        changes.borrow_and_update();
        while let Some((entry, keep)) = load.next_to_keep() {
            if let Some(chk) = keep_response(&load, &store, entry, keep).await {
                load.settle_chk(entry, chk);
            }
        }
        let complete = load.is_complete();
        if (complete && !manifest_kept || load.is_over())
            && let Some(kept) = load.to_keep()
        {
            if store.is_on() {
                store
                    .keep_manifest(&load.context, &load.url, kept.to_record())
                    .await;
                load.counters.manifests_kept.one();
            }
            manifest_kept = true;
        }
        if load.is_over() {
            break;
        }
        let idle = complete && !load.is_used();
        tokio::select! {
            // The sender lives in the load.
            _ = changes.changed() => {}
            () = sleep_until(load.progress() + linger), if idle => load.end(End::Complete),
        }
    }
    loads.forget(&load);
}

/// Keeps the body of an entry, and its response for those who took it; the CHK of the body.
async fn keep_response(load: &PageLoad, store: &Store, entry: u32, keep: Keep) -> Option<ContentHash> {
    let fields = header_map(&keep.head.fields)?;
    let status = StatusCode::from_u16(keep.head.status).ok()?;
    if !store.is_on() || !longhaul_http::policy::agent_stores(status, &fields) {
        return None;
    }
    let chk = match (&keep.body, keep.head.body) {
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
                    debug!(%error, "a pushed body is not kept");
                    store.report_missing(chk);
                    return None;
                }
            }
            Some(chk)
        }
    };
    if fields.contains_key(SET_COOKIE) {
        // Reused, it would not set its cookies, and the browser has not had them yet.
        return chk;
    }
    let length = match (&keep.body, chk) {
        (Some(body), _) => body.length(),
        (None, Some(chk)) => store.length(chk).await,
        (None, None) => Some(0),
    };
    for taker in &keep.takers {
        let response = response_of(taker, &keep.url, &HeaderMap::new(), status, &fields);
        store
            .put(StoredResponse {
                vary: keep.head.vary.unwrap_or_default(),
                chk,
                length: length?,
                ..response
            })
            .await;
    }
    chk
}

/// The CHK of a body that the cache should have, if it has it.
async fn held(load: &PageLoad, store: &Store, entry: u32) -> Option<ContentHash> {
    match load.body(entry) {
        BodyOutlook::Held(_, HeldBody::Prefix(prefix)) => store.find_prefix(&prefix).await,
        BodyOutlook::Held(_, HeldBody::Whole(chk)) => store.has(chk).await.then_some(chk),
        BodyOutlook::Held(_, HeldBody::Unknown)
        | BodyOutlook::None
        | BodyOutlook::Pending
        | BodyOutlook::Arriving(..)
        | BodyOutlook::Failed
        | BodyOutlook::Lost => None,
    }
}
