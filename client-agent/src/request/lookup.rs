//! Lookup of a request at the agent: a fresh response, a page load whose manifest announces it, or neither.
use std::{sync::Arc, time::Duration};

use http::header;
use longhaul_session::{FetchKind, MirrorState, ShortHash};
use longhaul_types::ContentHash;
use tokio::time::{Instant, sleep_until};

use super::{
    outcome::RequestOutcome,
    phase::{Phase, Promise, PromiseVisit},
    response::{self, ResponseBody},
    task::RequestTask,
};
use crate::{
    counters::PhaseExit,
    gateway::{GatewaySession, RequiredSessionState},
    pageload::{DocumentProgress, EntryBodyState, KeptManifest, ManifestProgress, PageLoad},
    store::Lookup,
};

/// Maximum wait for an entry of an incomplete manifest.
const MANIFEST_TIME: Duration = Duration::from_millis(200);
/// Maximum number of hashes in `Fetch.holding`: 3 KiB.
const MAX_HOLDING: usize = 512;

/// A page load that a request belongs to.
struct OwningLoad {
    load: Arc<PageLoad>,
    /// True if the requester is a style sheet of the page and not its document.
    by_style_sheet: bool,
}

impl OwningLoad {
    /// Tells whether the request can be of this visit to the page. `better` are the loads before this one in the order
    /// of [`RequestTask::owners`].
    fn visit(&self, better: &[Self], referrer: Option<&str>) -> PromiseVisit {
        let is_earlier = better.iter().any(|other| {
            other.load.url == self.load.url
                || referrer == Some(other.load.url.as_str()) && referrer != Some(self.load.url.as_str())
        });
        if is_earlier || self.load.is_over() {
            PromiseVisit::Earlier
        } else {
            PromiseVisit::This
        }
    }
}

impl RequestTask {
    pub(super) async fn look_up_locally(&mut self) -> Phase {
        if !self.may_be_answered_locally() {
            return self.change_phase(PhaseExit::LookupIneligible, Phase::Waiting);
        }
        let (pictures, upstream) = (&self.acceleration.images, &self.request);
        let replacement = pictures.replacement(self.images, &upstream.fetch.url, &upstream.headers);
        if let Some(replacement) = replacement {
            return self.change_phase(
                PhaseExit::LookupImageReplaced,
                Phase::Over(RequestOutcome::Cached(replacement)),
            );
        }
        let loads = self
            .acceleration
            .page_loads
            .of_client(self.request.context.client());
        let is_page = self.request.fetch.kind == FetchKind::Page;
        let owners = self.owners(&loads);
        let found = if is_page {
            // On plain http a frame's document looks like a page; the page with the frame may have announced
            // it.
            self.redirected_promise(&loads)
                .or_else(|| self.promise_of(&owners))
        } else {
            self.promise_of(&owners)
        };
        let owner = owners.first().map(|owner| Arc::clone(&owner.load));
        self.previous_page = owner
            .clone()
            .filter(|load| is_page && !load.is_over() && !load.is_complete());
        let url = &self.request.fetch.url;
        let redirected = loads
            .iter()
            .find(|load| {
                is_page && found.is_none() && awaits_redirection_target(load) && load.redirects_to(url)
            })
            .cloned();
        if is_page && found.is_none() && redirected.is_none() {
            let client = self.request.context.client();
            self.acceleration
                .page_loads
                .leave_others(client, self.previous_page.as_ref());
        }
        if let Some(phase) = self.look_up_cache(found.as_ref()).await {
            if let Some(Promise { load, entry, .. }) = &found {
                // A pushed response may already be in the cache; the entry counts as used.
                load.mark_used(*entry, load.body_entry(*entry), None);
            } else if is_page && redirected.is_none() {
                self.begin_load_of_cached_page();
            }
            return phase;
        }
        if let Some(promise) = found {
            return self.change_phase(PhaseExit::LookupAnnounced, Phase::Promised(promise));
        }
        match (is_page, redirected, owner) {
            (true, Some(load), _) => {
                self.change_phase(PhaseExit::LookupRedirected, Phase::WaitingForManifest(load))
            }
            (true, None, _) => {
                self.prepare_page().await;
                self.change_phase(PhaseExit::LookupNavigation, Phase::Waiting)
            }
            (false, _, Some(load)) if !load.is_over() => {
                self.join(Arc::clone(&load));
                match self.known_host_failure() {
                    Some(failure) => self.change_phase(
                        PhaseExit::LookupUnreachable,
                        Phase::Over(RequestOutcome::of_failure(failure)),
                    ),
                    None => self.change_phase(PhaseExit::LookupPageLoad, Phase::WaitingForManifest(load)),
                }
            }
            (false, _, Some(_) | None) => self.change_phase(PhaseExit::LookupNoPageLoad, Phase::Waiting),
        }
    }

    /// Returns the page loads that the request belongs to, the load of its referrer's URL first.
    fn owners(&self, loads: &[Arc<PageLoad>]) -> Vec<OwningLoad> {
        let requester = self.request.context.requester();
        let referrer = self.referrer();
        let mut owners: Vec<OwningLoad> = loads
            .iter()
            .filter_map(|load| {
                let by_style_sheet = if load.is_document_of(requester) {
                    false
                } else if referrer.is_some_and(|referrer| load.has_style_sheet(referrer)) {
                    true
                } else {
                    return None;
                };
                let load = Arc::clone(load);
                Some(OwningLoad { load, by_style_sheet })
            })
            .collect();
        // The sort is stable: otherwise the newest load is first.
        owners.sort_by_key(|owner| (owner.by_style_sheet, referrer != Some(owner.load.url.as_str())));
        owners
    }

    fn referrer(&self) -> Option<&str> {
        let referrer = self.request.headers.get(header::REFERER)?;
        referrer.to_str().ok()
    }

    /// Finds the request's entry in a page load of the requester.
    fn promise_of(&self, owners: &[OwningLoad]) -> Option<Promise> {
        let (url, referrer) = (&self.request.fetch.url, self.referrer());
        owners.iter().enumerate().find_map(|(at, owner)| {
            Some(Promise {
                entry: owner.load.find(url)?,
                load: Arc::clone(&owner.load),
                by_style_sheet: owner.by_style_sheet,
                visit: owner.visit(&owners[..at], referrer),
            })
        })
    }

    /// Finds the entry in a page load that was redirected to this page.
    fn redirected_promise(&self, loads: &[Arc<PageLoad>]) -> Option<Promise> {
        let url = &self.request.fetch.url;
        let load = loads.iter().find(|load| load.redirects_to(url))?;
        Some(Promise {
            entry: load.find(url)?,
            load: Arc::clone(load),
            by_style_sheet: false,
            visit: PromiseVisit::This,
        })
    }

    /// Looks up the agent's cache. `found` is the entry that announces the request's response.
    async fn look_up_cache(&mut self, found: Option<&Promise>) -> Option<Phase> {
        let store = self.storage.store.clone();
        match store.look_up(self.query()).await {
            Lookup::Fresh(status, fields, body) => {
                if let Some(body) = &body {
                    self.held_version = Some(body.chk());
                    self.count_cache_answer(&body.chk(), found);
                }
                let source = body.map_or(ResponseBody::Empty, ResponseBody::Stored);
                let response = response::start(self.response_draft(status, fields, source));
                Some(self.change_phase(
                    PhaseExit::LookupFresh,
                    Phase::Over(RequestOutcome::Cached(response)),
                ))
            }
            Lookup::NotModified(fields) => {
                let response = response::not_modified(fields);
                Some(self.change_phase(
                    PhaseExit::LookupNotModified,
                    Phase::Over(RequestOutcome::Cached(response)),
                ))
            }
            Lookup::Held(held) => {
                self.held_version = held;
                None
            }
        }
    }

    /// Counts what the cache's answer saved.
    fn count_cache_answer(&self, body: &ContentHash, found: Option<&Promise>) {
        let savings = &self.counters.savings;
        let Some(Promise { load, entry, .. }) = found else {
            return savings.answered(body);
        };
        match load.body(*entry) {
            // The body has crossed the hop for its first use.
            EntryBodyState::Arriving(of, _) if !load.is_body_used(of) => {}
            EntryBodyState::Arriving(..) => savings.answered(body),
            EntryBodyState::Held(..) => savings.used(load.session.serial(), load.key_of(*entry), body),
            EntryBodyState::None
            | EntryBodyState::Pending
            | EntryBodyState::Failed
            | EntryBodyState::Lost => {
                savings.answered(body);
            }
        }
    }

    /// Finds the data of the page's previous load for its fetch.
    pub(super) async fn prepare_page(&mut self) {
        if !self.acceleration.push.load().enabled {
            return;
        }
        let store = &self.storage.store;
        let record = store
            .manifest(&self.request.context, &self.request.fetch.url)
            .await;
        let kept = record.and_then(KeptManifest::from_record);
        let agreed = self
            .upstream
            .gateway
            .usable_session(RequiredSessionState::EarlyData)
            .and_then(|(session, _)| session.mirror());
        if let Some(kept) = &kept
            && agreed != Some(MirrorState::Agreed)
        {
            self.held_bodies = held_bodies_of(store, kept).await;
        }
        self.kept_manifest = kept.map(Arc::new);
    }

    pub(super) async fn wait_for_manifest(&mut self, load: Arc<PageLoad>) -> Phase {
        let entered = Instant::now();
        let time = manifest_time(&load.session, self.acceleration.push.load().reordering);
        let mut changes = load.changes();
        let is_page = self.request.fetch.kind == FetchKind::Page;
        loop {
            changes.borrow_and_update();
            if let Some(entry) = load.find(&self.request.fetch.url) {
                let by_style_sheet = !is_page && !load.is_document_of(self.request.context.requester());
                let promise = Promise {
                    load,
                    entry,
                    by_style_sheet,
                    visit: PromiseVisit::This,
                };
                return self.change_phase(PhaseExit::ManifestAnnounced, Phase::Promised(promise));
            }
            let mut until = entered + time;
            match load.manifest() {
                ManifestProgress::Planned | ManifestProgress::Complete(_) | ManifestProgress::Broken => {
                    return self.handle_unannounced(PhaseExit::ManifestNotFound).await;
                }
                // The manifest's stream begins before the first window of the page, shortly after its head: a manifest
                // that does not arrive shortly after the head does not exist.
                ManifestProgress::Awaited => {
                    if let Some(at) = load.document().answered_at() {
                        until = until.min(at + time);
                    }
                }
                ManifestProgress::Reading => {}
            }
            if load.is_over() || load.is_withdrawn(&self.request.fetch.url) {
                return self.handle_unannounced(PhaseExit::ManifestNotFound).await;
            }
            if self.is_sent_meanwhile(&load) {
                return self.change_phase(PhaseExit::ManifestOpen, Phase::Waiting);
            }
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                () = sleep_until(until) => return self.handle_unannounced(PhaseExit::ManifestTime).await,
            }
        }
    }

    /// Not in any manifest: sends an ordinary fetch; a navigation also starts its own page load.
    async fn handle_unannounced(&mut self, exit: PhaseExit) -> Phase {
        if self.request.fetch.kind == FetchKind::Page {
            let client = self.request.context.client();
            self.acceleration
                .page_loads
                .leave_others(client, self.previous_page.as_ref());
            self.prepare_page().await;
        }
        self.change_phase(exit, Phase::Waiting)
    }
}

/// True if the page's response was a redirection whose target may still appear in the manifest.
fn awaits_redirection_target(load: &PageLoad) -> bool {
    matches!(load.document(), DocumentProgress::Redirection(_))
        && matches!(
            load.manifest(),
            ManifestProgress::Awaited | ManifestProgress::Reading
        )
        && !load.is_over()
}

fn manifest_time(session: &GatewaySession, reordering: Duration) -> Duration {
    (session.stats().srtt / 2 + reordering).min(MANIFEST_TIME.max(reordering))
}

async fn held_bodies_of(store: &crate::store::Store, kept: &KeptManifest) -> Vec<ShortHash> {
    let mut holding = Vec::new();
    let mut hashes: Vec<ContentHash> = kept.hashes().collect();
    hashes.sort_unstable();
    hashes.dedup();
    for chk in hashes {
        if holding.len() < MAX_HOLDING && store.has(chk).await {
            holding.push(ShortHash::of(&chk));
        }
    }
    holding
}
