//! Requests that are sent while the manifest of their page may still announce their response.
use std::{future::pending, sync::Arc};

use longhaul_session::{Delivery, EntryHead, FetchKind};
use longhaul_types::BitRate;
use tokio::sync::watch;

use super::{
    phase::{Promise, PromiseVisit},
    send::uplink_rate,
    task::RequestTask,
};
use crate::{
    gateway::GatewaySession,
    pageload::{HeadState, ManifestProgress, PageLoad},
};

/// Slowest uplink on which a request does not wait for the manifest: a request takes about 20 ms on it. On a slower one,
/// requests that the manifest makes unnecessary delay those that it does not.
const FAST_UPLINK: BitRate = BitRate::kbps(64);

/// A page load whose manifest may still announce the response of a request that was sent.
pub(super) struct OpenManifest {
    load: Arc<PageLoad>,
    changes: watch::Receiver<()>,
    by_style_sheet: bool,
}

impl OpenManifest {
    /// Waits until the head of the request's entry is known. Never completes if the manifest ends without it. Cancel
    /// safe.
    async fn announcement(&mut self, url: &str) -> (Promise, Arc<EntryHead>) {
        loop {
            self.changes.borrow_and_update();
            let Self { load, .. } = self;
            if let Some(entry) = load.find(url) {
                match load.head(entry) {
                    HeadState::Known(head) => {
                        let promise = Promise {
                            load: Arc::clone(load),
                            entry,
                            by_style_sheet: self.by_style_sheet,
                            visit: PromiseVisit::This,
                        };
                        return (promise, head);
                    }
                    HeadState::Pending => {}
                    HeadState::Withdrawn(_) | HeadState::Failed(_) | HeadState::Lost => pending().await,
                }
            } else if !matches!(
                load.manifest(),
                ManifestProgress::Awaited | ManifestProgress::Reading
            ) {
                pending().await
            }
            if load.is_over() || self.changes.changed().await.is_err() {
                pending().await
            }
        }
    }
}

impl RequestTask {
    /// True if an object's request is sent although the manifest of its page may still announce the response: to wait
    /// costs an unannounced request up to half a round trip.
    pub(super) fn is_sent_meanwhile(&self, load: &PageLoad) -> bool {
        self.request.fetch.kind == FetchKind::Object
            && self.is_repeatable_now()
            && !self.request.is_bound()
            && uplink_rate(&load.session).is_some_and(|rate| rate >= FAST_UPLINK)
    }

    /// The manifest that may announce the response of the request, which is sent in `session`.
    pub(super) fn open_manifest(&self, session: &GatewaySession) -> Option<OpenManifest> {
        let load = &self.page.as_ref()?.load;
        let is_own = load.session.serial() == session.serial() && !load.is_over();
        if !is_own || !self.is_sent_meanwhile(load) || self.request.fetch.context.delivery != Delivery::Any {
            return None;
        }
        Some(OpenManifest {
            changes: load.changes(),
            load: Arc::clone(load),
            by_style_sheet: !load.is_document_of(self.request.context.requester()),
        })
    }

    /// Waits until the manifest announces a response that answers the request. Never completes without one. Cancel
    /// safe.
    pub(super) async fn announced_meanwhile(&self, manifest: Option<&mut OpenManifest>) -> Promise {
        let Some(manifest) = manifest else {
            return pending().await;
        };
        let (promise, head) = manifest.announcement(&self.request.fetch.url).await;
        if self.check_announced(&promise, &head).is_ok() {
            promise
        } else {
            pending().await
        }
    }
}
