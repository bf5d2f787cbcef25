//! A page load. One task owns its state ([`task`]); fetches, pushes, the page's parser and the agent's
//! messages reach it as [`Event`]s through [`PageLoad`].
mod event;
mod handle;
mod initiators;
mod manifest_stream;
mod navigation;
mod prediction;
mod requests;
mod search;
mod sheets;
mod state;
mod subresource;
mod tap;
mod task;

use std::sync::Arc;

use http::HeaderMap;
use longhaul_delivery::EvictionCount;
use longhaul_gateway_core::{
    page_parsers::{DocumentParser, PageParsers},
    wall_clock,
};
use longhaul_http::policy;
use longhaul_page::{Discovery, Initiator, LiteralUrls, Reference, Sandbox};
use longhaul_session::{EntryId, PageId, ShortHash, Used, Withdrawal};
use longhaul_types::ContentHash;
use longhaul_webcache::{BodyReader, RequesterIdentity};
use tokio::{
    runtime::Handle,
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
};
use url::Url;

pub(super) use self::event::LoadResult;
use self::event::{AgentEvent, BrowserRequest, Event, PushEvent, ResponseEvent};
pub use self::tap::{BodyEnd, PageTap};
pub(super) use self::{
    state::{LoadState, PageStart},
    subresource::{redirection, set_cookies},
    task::run,
};
use super::{
    context::PageLoadContext,
    learned::{LearnedPlan, LearnedPlanStart},
    memory::LoadNumber,
    plan::{DeliveredBody, PushProgress},
    publicity::Publicity,
    shared_lesson::Teacher,
    unplanned_answer::UnplannedAnswer,
};

/// Maximum number of events that wait for the task of a page load; then their senders wait. The task itself
/// never waits for a sender.
const MAX_EVENTS: usize = 256;

/// The entry of a page load that answers a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Number of the page load.
    pub page: PageId,
    /// Number of the entry in its manifest.
    pub entry: EntryId,
}

/// A page load, as all tasks but its own see it.
pub struct PageLoad {
    context: Arc<PageLoadContext>,
    id: PageId,
    number: LoadNumber,
    /// Requester of the page.
    identity: RequesterIdentity,
    events: mpsc::Sender<Event>,
    /// Of the page, its frames and style sheets.
    parsers: PageParsers,
    publicity: Publicity,
}

impl PageLoad {
    /// Creates the page load and the events' receiver, for [`run`].
    pub(super) fn new(
        context: Arc<PageLoadContext>,
        id: PageId,
        identity: RequesterIdentity,
        publicity: Publicity,
    ) -> (Self, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(MAX_EVENTS);
        let load = Self {
            parsers: context.gateway.parser_pool.page(context.device),
            context,
            id,
            number: LoadNumber::random(),
            identity,
            events,
            publicity,
        };
        (load, receiver)
    }

    pub(super) const fn id(&self) -> PageId {
        self.id
    }

    /// Requester of the page.
    pub(super) const fn identity(&self) -> &RequesterIdentity {
        &self.identity
    }

    pub(super) fn context(&self) -> &PageLoadContext {
        &self.context
    }

    /// Parser of a document of the page with this head.
    fn document_parser(
        &self,
        discovery: Discovery,
        literals: Option<LiteralUrls>,
        head: &HeaderMap,
    ) -> DocumentParser {
        let parser = DocumentParser::new(self.parsers.clone(), discovery, literals);
        // Other documents are read from the cache.
        if self.publicity.is_public() && policy::forbids_storage(head) {
            parser.collecting_words()
        } else {
            parser
        }
    }

    /// Sends an event, unless the page load has ended.
    async fn send(&self, event: Event) {
        let _ended = self.events.send(event).await;
    }

    /// Sends an event and waits for the reply; `None` without reply, or if the page load has ended.
    async fn ask<T>(&self, event: impl FnOnce(oneshot::Sender<T>) -> Event) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.events.send(event(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Sends an event from a function that cannot wait.
    fn post(&self, event: Event) {
        if let Err(TrySendError::Full(event)) = self.events.try_send(event)
            && let Ok(runtime) = Handle::try_current()
        {
            let events = self.events.clone();
            runtime.spawn(async move { events.send(event).await });
        }
    }

    async fn send_response(&self, entry: EntryId, event: ResponseEvent) {
        self.send(Event::Response { entry, event }).await;
    }

    async fn ask_response<T>(
        &self,
        entry: EntryId,
        event: impl FnOnce(oneshot::Sender<T>) -> ResponseEvent,
    ) -> Option<T> {
        let event = |reply| Event::Response {
            entry,
            event: event(reply),
        };
        self.ask(event).await
    }

    async fn send_agent(&self, event: AgentEvent) {
        self.send(Event::Agent(event)).await;
    }

    async fn ask_agent<T>(&self, event: impl FnOnce(oneshot::Sender<T>) -> AgentEvent) -> Option<T> {
        self.ask(|reply| Event::Agent(event(reply))).await
    }

    /// Returns once all records so far are on the manifest's stream.
    pub(super) async fn flush(&self) {
        let _ended = self.ask(|done| Event::Flush { done }).await;
    }

    /// Waits for the head of the entry that matches a browser request; returns the promise if the entry
    /// answers it.
    pub(super) async fn promise(&self, url: Url, headers: &HeaderMap) -> Option<Promise> {
        let headers = headers.clone();
        let request = |reply| AgentEvent::Request(Box::new(BrowserRequest { url, headers, reply }));
        let entry = self.ask_agent(request).await?;
        self.context.counters().promised();
        Some(Promise { page: self.id, entry })
    }

    /// Records that an unplanned request was answered.
    pub(super) fn unplanned_answered(&self, answer: UnplannedAnswer) {
        self.post(Event::Agent(AgentEvent::UnplannedAnswered(Box::new(answer))));
    }

    /// Records that the host of an unplanned request cannot be reached.
    pub(super) fn unplanned_failed(&self, url: Url) {
        self.post(Event::Agent(AgentEvent::UnplannedFailed { url }));
    }

    /// The learned plan of a page that this load displays.
    pub(super) async fn learned(&self, page: &Url, publicity: Publicity) -> LearnedPlan {
        let context = &self.context;
        LearnedPlan::load(LearnedPlanStart {
            cache: context.learned_plans(),
            identity: &self.identity,
            page,
            publicity,
            teacher: Teacher::new(&context.device, &context.gateway.credentials),
            refused: context.counters().refused().clone(),
            now: wall_clock::now(),
        })
        .await
    }

    /// Handles `Ask`: the browser waits for these entries.
    pub(super) async fn browser_waits(&self, entries: Vec<EntryId>) {
        self.send_agent(AgentEvent::BrowserWaits(entries)).await;
    }

    /// Handles `Want`: the agent does not have an entry's body.
    pub(super) async fn want(&self, entry: EntryId) {
        self.context.counters().wanted();
        let hash = self
            .ask_agent(|reply| AgentEvent::HashNeeded { entry, reply })
            .await;
        let Some(hash) = hash else {
            let failed = ResponseEvent::Withdrawn(Withdrawal::Failed);
            return self.send_response(entry, failed).await;
        };
        self.context.mirror.remove(&[ShortHash::of(&hash)]).await;
        let body = match self.context.cache() {
            Some(cache) => cache.body(hash).await,
            None => None,
        };
        self.send_agent(match body {
            Some(body) => AgentEvent::PushAgain {
                entry,
                body: BodyReader::of_stored(body),
            },
            None => AgentEvent::FetchAgain { entry },
        })
        .await;
    }

    /// The result of the page load, which ends, with the agent's report, if there is one.
    pub(super) async fn result(&self, used: Option<Used>) -> Option<LoadResult> {
        self.ask_agent(|reply| AgentEvent::Ended { used, reply }).await
    }

    /// The document that displays a URL in a frame, with the frame's sandbox.
    pub(super) async fn frame_at(&self, url: Url) -> Option<(Initiator, Sandbox)> {
        self.ask_agent(|reply| AgentEvent::FrameNeeded { url, reply })
            .await
    }

    // The following methods serve pushes.

    /// Plans the references of an entry's response that its document would fetch.
    pub(super) async fn found(&self, mut references: Vec<Reference>, referrer: EntryId) {
        self.plan_found(&mut references, referrer).await;
    }

    /// As [`Self::found`], and removes the references that are on their way. Cancel safe.
    pub(super) async fn plan_found(&self, references: &mut Vec<Reference>, referrer: EntryId) {
        self.take(references, referrer, ResponseEvent::Found).await;
    }

    /// Plans what scripts load of the URLs that stand in the page's document, which is the response of an entry.
    async fn literals(&self, mut urls: Vec<Url>, document: EntryId) {
        self.plan_literals(&mut urls, document).await;
    }

    /// As [`Self::literals`], and removes the URLs that are on their way. Cancel safe.
    pub(super) async fn plan_literals(&self, urls: &mut Vec<Url>, document: EntryId) {
        self.take(urls, document, ResponseEvent::Literals).await;
    }

    /// Sends what `found` contains, if anything, as an event of an entry. Cancel safe.
    async fn take<T>(&self, found: &mut Vec<T>, entry: EntryId, event: impl FnOnce(Vec<T>) -> ResponseEvent) {
        if found.is_empty() {
            return;
        }
        if let Ok(place) = self.events.reserve().await {
            let event = event(std::mem::take(found));
            place.send(Event::Response { entry, event });
        }
    }

    /// Records that an entry's response adds no further entry.
    pub(super) async fn entry_searched(&self, entry: EntryId) {
        self.send_response(entry, ResponseEvent::Searched).await;
    }

    /// Returns false if a body that has grown to `length` bytes exceeds its limits.
    pub(super) async fn grown(&self, entry: EntryId, length: u64, by: u64) -> bool {
        let grown = |reply| Event::Push {
            entry,
            event: PushEvent::Grown { length, by, reply },
        };
        self.ask(grown).await.unwrap_or(false)
    }

    /// Records that the push of an entry has read its whole body.
    pub(super) async fn completed(&self, entry: EntryId, hash: ContentHash, length: u64) {
        let event = PushEvent::Completed { hash, length };
        self.send(Event::Push { entry, event }).await;
    }

    /// Records that a push has sent `bytes` further bytes on the hop.
    pub(super) async fn pushed(&self, entry: EntryId, repeats: u8, bytes: u64, progress: PushProgress) {
        let event = PushEvent::Progress {
            repeats,
            bytes,
            progress,
        };
        self.send(Event::Push { entry, event }).await;
    }

    /// Records that the agent has acknowledged the whole body of an entry; `since` is the mirror's count when it was
    /// sent.
    pub(super) async fn delivered(&self, entry: EntryId, repeats: u8, since: EvictionCount) {
        let delivered = |reply| Event::Push {
            entry,
            event: PushEvent::Delivered { repeats, reply },
        };
        let Some(stored) = self.ask(delivered).await else {
            return;
        };
        let DeliveredBody {
            hash,
            length,
            partition,
            delta_key,
        } = stored;
        self.context
            .mirror
            .add(partition.as_ref(), vec![hash], since)
            .await;
        if let (Some(key), Some(length)) = (delta_key, length) {
            self.context.bases.learn(&key, hash, length).await;
        }
    }
}
