//! What a request finds at the agent: a fresh response, a page load that promises its answer, or nothing.
use std::{sync::Arc, time::Duration};

use http::header;
use longhaul_protocol::session::{FetchKind, MirrorState, ShortHash};
use longhaul_types::ContentHash;
use tokio::time::{Instant, sleep_until};

use super::{
    Exit,
    life::Life,
    phase::{Phase, PhaseExit, Promise},
    response::{self, Source},
};
use crate::{
    bundle::{Document, KeptManifest, PageLoad, Progress},
    session::{Hop, Need, short},
    store::Lookup,
};

/// The longest wait for an entry of a manifest that is still being written.
const MANIFEST_TIME: Duration = Duration::from_millis(200);
/// Hashes that are told of a page's last manifest: 3 KiB.
const MAX_HOLDING: usize = 512;

/// A page load in whose name a request is made.
struct Owner {
    load: Arc<PageLoad>,
    /// Whether a style sheet of the page asks, and not its document.
    by_sheet: bool,
}

impl Life {
    pub(super) async fn look(&mut self) -> Phase {
        if !self.draft.is_lookable() {
            return self.leave(PhaseExit::LookingUnfit, Phase::Waiting);
        }
        let (pictures, draft) = (&self.context.pictures, &self.draft);
        if let Some(instead) = pictures.instead_of(&draft.fetch.url, &draft.headers) {
            return self.leave(PhaseExit::LookingHidden, Phase::Over(Exit::Cached(instead)));
        }
        let loads = self.context.loads.of_client(self.draft.context.client());
        let is_page = self.draft.fetch.kind == FetchKind::Page;
        let owners = self.owners(&loads);
        let found = if is_page {
            // On plain http a frame's document looks like a page: the page that has the frame may have announced it.
            self.redirected_promise(&loads)
                .or_else(|| self.promise_of(&owners))
        } else {
            self.promise_of(&owners)
        };
        let owner = owners.first().map(|owner| Arc::clone(&owner.load));
        self.came_from = owner
            .clone()
            .filter(|load| is_page && !load.is_over() && !load.is_complete());
        let url = &self.draft.fetch.url;
        let redirected = loads
            .iter()
            .find(|load| is_page && found.is_none() && leads_elsewhere(load) && load.redirects_to(url))
            .cloned();
        if is_page && found.is_none() && redirected.is_none() {
            let client = self.draft.context.client();
            self.context
                .loads
                .supersede_others(client, self.came_from.as_ref());
        }
        if let Some(phase) = self.look_up().await {
            if let Some(Promise { load, entry, .. }) = &found {
                // What was pushed may be in the cache already; the browser takes it all the same.
                load.take(*entry, load.body_entry(*entry), None);
            }
            return phase;
        }
        if let Some(promise) = found {
            return self.leave(PhaseExit::LookingAnnounced, Phase::Promised(promise));
        }
        match (is_page, redirected, owner) {
            (true, Some(load), _) => {
                self.leave(PhaseExit::LookingRedirected, Phase::WaitingForManifest(load))
            }
            (true, None, _) => {
                self.prepare_page().await;
                self.leave(PhaseExit::LookingPage, Phase::Waiting)
            }
            (false, _, Some(load)) if !load.is_over() => {
                let next = Phase::WaitingForManifest(Arc::clone(&load));
                self.join(load);
                self.leave(PhaseExit::LookingOwned, next)
            }
            (false, _, Some(_) | None) => self.leave(PhaseExit::LookingAlone, Phase::Waiting),
        }
    }

    /// The page loads in whose name the request is made, the one of its referrer's very page first.
    fn owners(&self, loads: &[Arc<PageLoad>]) -> Vec<Owner> {
        let requester = self.draft.context.requester();
        let referrer = self.draft.headers.get(header::REFERER);
        let referrer = referrer.and_then(|referrer| referrer.to_str().ok());
        let mut owners: Vec<Owner> = loads
            .iter()
            .filter_map(|load| {
                let by_sheet = if load.is_document_of(requester) {
                    false
                } else if referrer.is_some_and(|referrer| load.has_sheet(referrer)) {
                    true
                } else {
                    return None;
                };
                let load = Arc::clone(load);
                Some(Owner { load, by_sheet })
            })
            .collect();
        // Stable: the newest come first otherwise.
        owners.sort_by_key(|owner| (owner.by_sheet, referrer != Some(owner.load.url.as_str())));
        owners
    }

    /// What a page load of the requester promises.
    fn promise_of(&self, owners: &[Owner]) -> Option<Promise> {
        let url = &self.draft.fetch.url;
        owners.iter().find_map(|owner| {
            Some(Promise {
                entry: owner.load.find(url)?,
                load: Arc::clone(&owner.load),
                by_sheet: owner.by_sheet,
            })
        })
    }

    /// What a page load promises that was redirected to this page.
    fn redirected_promise(&self, loads: &[Arc<PageLoad>]) -> Option<Promise> {
        let url = &self.draft.fetch.url;
        let load = loads.iter().find(|load| load.redirects_to(url))?;
        Some(Promise {
            entry: load.find(url)?,
            load: Arc::clone(load),
            by_sheet: false,
        })
    }

    /// Looks in the agent's own cache.
    async fn look_up(&mut self) -> Option<Phase> {
        let store = self.context.store.clone();
        match store.look_up(self.query()).await {
            Lookup::Fresh(status, fields, body) => {
                let source = body.map_or(Source::Empty, Source::Stored);
                let response = response::begin(self.outgoing(status, fields, source));
                Some(self.leave(PhaseExit::LookingFresh, Phase::Over(Exit::Cached(response))))
            }
            Lookup::NotModified(fields) => {
                let response = response::not_modified(fields);
                Some(self.leave(PhaseExit::LookingNotModified, Phase::Over(Exit::Cached(response))))
            }
            Lookup::Held(held) => {
                self.held = held;
                None
            }
        }
    }

    /// Finds what a page's fetch tells of its last load.
    async fn prepare_page(&mut self) {
        if !self.context.push.enabled {
            return;
        }
        let store = &self.context.store;
        let record = store.manifest(&self.draft.context, &self.draft.fetch.url).await;
        let kept = record.and_then(KeptManifest::from_record);
        let agreed = self
            .context
            .gateway
            .usable_now(Need::Early)
            .and_then(|(hop, _)| hop.mirror());
        if let Some(kept) = &kept
            && agreed != Some(MirrorState::Agreed)
        {
            self.holding = held_of(store, kept).await;
        }
        self.kept = kept.map(Arc::new);
    }

    pub(super) async fn wait_for_manifest(&mut self, load: Arc<PageLoad>) -> Phase {
        let entered = Instant::now();
        let time = manifest_time(&load.hop, self.context.push.reordering);
        let mut changes = load.changes();
        let is_page = self.draft.fetch.kind == FetchKind::Page;
        loop {
            changes.borrow_and_update();
            if let Some(entry) = load.find(&self.draft.fetch.url) {
                let by_sheet = !is_page && !load.is_document_of(self.draft.context.requester());
                let promise = Promise {
                    load,
                    entry,
                    by_sheet,
                };
                return self.leave(PhaseExit::ManifestAnnounced, Phase::Promised(promise));
            }
            let mut until = entered + time;
            match load.manifest() {
                Progress::Planned | Progress::Complete(_) | Progress::Broken => {
                    return self.not_promised(PhaseExit::ManifestNotFound).await;
                }
                // The manifest's stream begins before the page's: what is not here shortly after that, is none.
                Progress::Awaited => {
                    if let Document::Answered(at, _) = load.document() {
                        until = until.min(at + time);
                    }
                }
                Progress::Reading => {}
            }
            if load.is_over() || load.is_withdrawn(&self.draft.fetch.url) {
                return self.not_promised(PhaseExit::ManifestNotFound).await;
            }
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                () = sleep_until(until) => return self.not_promised(PhaseExit::ManifestTime).await,
            }
        }
    }

    /// No manifest has it: it goes its own way, a page's with all that belongs to a page.
    async fn not_promised(&mut self, exit: PhaseExit) -> Phase {
        if self.draft.fetch.kind == FetchKind::Page {
            let client = self.draft.context.client();
            self.context
                .loads
                .supersede_others(client, self.came_from.as_ref());
            self.prepare_page().await;
        }
        self.leave(exit, Phase::Waiting)
    }
}

/// Whether the load's page was a redirection, of whose target the manifest may still tell.
fn leads_elsewhere(load: &PageLoad) -> bool {
    matches!(load.document(), Document::Answered(_, false))
        && matches!(load.manifest(), Progress::Awaited | Progress::Reading)
        && !load.is_over()
}

fn manifest_time(hop: &Hop, reordering: Duration) -> Duration {
    (hop.stats().srtt / 2 + reordering).min(MANIFEST_TIME.max(reordering))
}

async fn held_of(store: &crate::store::Store, kept: &KeptManifest) -> Vec<ShortHash> {
    let mut holding = Vec::new();
    let mut hashes: Vec<ContentHash> = kept.hashes().collect();
    hashes.sort_unstable();
    hashes.dedup();
    for chk in hashes {
        if holding.len() < MAX_HOLDING && store.has(chk).await {
            holding.push(short(&chk));
        }
    }
    holding
}
