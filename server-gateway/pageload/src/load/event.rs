//! Events of a page load.
use http::HeaderMap;
use longhaul_cache::{Cache, Partition};
use longhaul_gateway_core::failure::Failure;
use longhaul_page::{Initiator, Markup, PendingReferences, Reference, ReferrerPolicy, RequestChain, Sandbox};
use longhaul_session::{EntryId, Used, Withdrawal};
use longhaul_types::ContentHash;
use longhaul_webcache::BodyReader;
use tokio::sync::oneshot;
use url::Url;

use crate::{
    learned::{LearnedPlan, VisitResult},
    memory::ManifestMemory,
    plan::{Answer, DeliveredBody, PredictedCookies, PushProgress},
    unplanned_answer::UnplannedAnswer,
};

/// An event of a page load. Events of one sender are handled in their order. A reply that is dropped means
/// that there is none.
pub(crate) enum Event {
    /// More of the page's own document has arrived, with these references.
    PageGrew {
        references: Vec<Reference>,
    },
    /// These URLs stand in the part of the page's own document that has arrived.
    Literals(Vec<Url>),
    /// The page's own document is complete and has this CHK.
    PageComplete(ContentHash),
    /// The page's own document adds no further entry.
    PageSearched,
    Response {
        entry: EntryId,
        event: ResponseEvent,
    },
    Push {
        entry: EntryId,
        event: PushEvent,
    },
    Agent(AgentEvent),
    /// Requests a write of all records so far to the manifest.
    Flush {
        done: oneshot::Sender<()>,
    },
}

/// An event of the response of an entry.
pub(crate) enum ResponseEvent {
    /// The origin has answered the predicted request.
    Arrived {
        /// The response's `Set-Cookie` fields.
        cookies: HeaderMap,
        reply: oneshot::Sender<EntryRequest>,
    },
    /// The response redirects to `target`.
    Redirects {
        target: Box<Reference>,
        policy: Option<ReferrerPolicy>,
    },
    /// The response is a document whose references are planned.
    Document(Initiator),
    /// The document is the page to which the page redirected, with this learned plan.
    Redirected(Box<LearnedPlan>),
    /// The response is a style sheet whose references are planned, with the referrer policy that it declares.
    StyleSheet(Option<ReferrerPolicy>),
    /// The response has these references.
    Found(Vec<Reference>),
    /// These URLs stand in the response, which is the page to which the page redirected.
    Literals(Vec<Url>),
    /// Requests the markup of the page, if the response is a style sheet of the page's own document.
    MarkupNeeded { reply: oneshot::Sender<Markup> },
    /// The style sheet has these images and fonts that nothing displays so far.
    ReferencesPending(PendingReferences),
    /// The body is complete and has this CHK, which was awaited.
    BodyComplete(ContentHash),
    /// The response adds no further entry.
    Searched,
    /// The head is complete.
    Answered(Box<Answer>),
    /// The fetch failed.
    Failed(Failure),
    /// There is no response.
    Withdrawn(Withdrawal),
}

/// An event of the push of an entry.
pub(crate) enum PushEvent {
    /// The push has read `by` further bytes of the body, `length` in total. The reply is false if they exceed
    /// a limit.
    Grown {
        length: u64,
        by: u64,
        reply: oneshot::Sender<bool>,
    },
    /// The push has read the whole body.
    Completed { hash: ContentHash, length: u64 },
    /// The push has sent `bytes` further bytes on the hop.
    Progress {
        repeats: u8,
        bytes: u64,
        progress: PushProgress,
    },
    /// The agent has acknowledged the whole body. The reply is the body, if the agent stores it.
    Delivered {
        repeats: u8,
        reply: oneshot::Sender<DeliveredBody>,
    },
}

/// An event of the agent's messages.
pub(crate) enum AgentEvent {
    /// The browser requests an object.
    Request(Box<BrowserRequest>),
    /// A request that no entry answers has a response.
    UnplannedAnswered(Box<UnplannedAnswer>),
    /// The host of a request that no entry answers cannot be reached.
    UnplannedFailed { url: Url },
    /// The browser waits for these entries.
    BrowserWaits(Vec<EntryId>),
    /// Requests the CHK of an answered entry's body.
    HashNeeded {
        entry: EntryId,
        reply: oneshot::Sender<ContentHash>,
    },
    /// The agent wants an entry's body, which is pushed again from `body`.
    PushAgain { entry: EntryId, body: BodyReader },
    /// The agent wants an entry's body, which the cache no longer has.
    FetchAgain { entry: EntryId },
    /// The page load ends, with the agent's report which entries the browser used, if the session did not end before.
    Ended {
        used: Option<Used>,
        reply: oneshot::Sender<LoadResult>,
    },
    /// Requests the document that displays a URL in a frame, with the frame's sandbox.
    FrameNeeded {
        url: Url,
        reply: oneshot::Sender<(Initiator, Sandbox)>,
    },
}

/// The browser's request for an object.
pub(crate) struct BrowserRequest {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    /// Receives the entry that answers the request.
    pub(super) reply: oneshot::Sender<EntryId>,
}

/// The request of an entry, as far as it decides on the use of the response.
pub(crate) struct EntryRequest {
    pub(super) reference: Reference,
    /// `None` if no known document makes the request.
    pub(super) chain: Option<RequestChain>,
    pub(super) cookies: PredictedCookies,
    /// CHK of the entry with the same URL in the base manifest.
    pub(super) previous_hash: Option<ContentHash>,
    /// True if the body may lead to further objects, once it is complete.
    pub(super) awaits_body: bool,
}

/// The result of a page load, to be stored.
pub(crate) struct LoadResult {
    pub(super) manifest: Option<FinishedManifest>,
    pub(super) visit: VisitResult,
}

impl LoadResult {
    pub(crate) async fn store(self, cache: Cache) {
        if let Some(manifest) = self.manifest {
            manifest.store(&cache).await;
        }
        self.visit.store(&cache).await;
    }
}

/// A manifest, to be stored as base of the page's next manifest.
pub(crate) struct FinishedManifest {
    pub(super) memory: ManifestMemory,
    pub(super) partition: Partition,
    pub(super) page: Url,
}

impl FinishedManifest {
    pub(super) async fn store(self, cache: &Cache) {
        self.memory.store(cache, &self.partition, &self.page).await;
    }
}
