//! The request table of one session: fetch numbers, header sets, and the receivers of answers.
use std::{
    collections::{BTreeMap, VecDeque},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use parking_lot::{Mutex, MutexGuard};

use longhaul_driver::CloseReason;
use longhaul_session::{
    BoundConnectionId, Delivery, EnvelopeError, Fetch, FetchId, FetchKind, FieldCoding, ForgetId, Head,
    HeaderField, HeaderSetError, HeaderSets, ManifestId, Message, Method, PageId, Resume, ShortHash,
    decode_header_set, encode, encode_request,
};
use longhaul_types::{ClientId, ContentHash, Technique, Techniques};
use tokio::sync::{oneshot, watch};

use super::{answer::GatewayAnswer, associations::Associations};

/// Maximum number of answered fetches that may serve as bases; no base is older (docs/protocol/session.md
/// section 5).
const MAX_BASES: usize = 128;

/// A request without the members that depend on the session.
#[derive(Clone, Debug)]
pub struct FetchDraft {
    /// The method.
    pub method: Method,
    /// The absolute URL, without fragment.
    pub url: String,
    /// Scheme, host and port: requests to the same origin are similar.
    pub origin: String,
    /// The fields without hop-by-hop fields.
    pub fields: Vec<HeaderField>,
    /// Page or object.
    pub kind: FetchKind,
    /// True if a body follows.
    pub has_body: bool,
    /// The other members of the fetch.
    pub context: FetchContext,
}

/// Members of a fetch besides the browser's request.
#[derive(Clone, Debug)]
pub struct FetchContext {
    /// For an object, its page load in the same session.
    pub page: Option<PageId>,
    /// The CHK of the version of the URL that the agent holds.
    pub held: Option<ContentHash>,
    /// For a page, the id of the kept manifest of its previous load.
    pub manifest: Option<ManifestId>,
    /// For a page, the held bodies of that manifest, if the gateway does not have the mirror.
    pub holding: Vec<ShortHash>,
    /// Allowed ways of the answer.
    pub delivery: Delivery,
    /// The browser's connection, if it is bound (docs/protocol/session.md section 8).
    pub connection: Option<BoundConnectionId>,
    /// The client that the agent serves.
    pub client: ClientId,
    /// True for requests of a site that is framed by another site: the gateway must not look up or store
    /// anything private.
    pub unpartitioned: bool,
}

impl Default for FetchContext {
    fn default() -> Self {
        Self {
            page: None,
            held: None,
            manifest: None,
            holding: Vec::new(),
            delivery: Delivery::Any,
            connection: None,
            client: ClientId::OWNER,
            unpartitioned: false,
        }
    }
}

/// Use of bases for header sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BasePolicy {
    /// The base with the smallest encoding.
    Best,
    /// No base: the gateway did not hold one.
    None,
}

/// Errors of encoding a fetch.
#[derive(Debug, thiserror::Error)]
pub(super) enum EncodeFetchError {
    #[error(transparent)]
    Headers(#[from] HeaderSetError),
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
}

/// State that the stream reader and the requests share.
#[derive(Debug, Default)]
pub(super) struct SharedRequests {
    table: Mutex<RequestTable>,
    /// The last `Forget` that the gateway confirmed.
    forgotten: watch::Sender<Option<ForgetId>>,
    /// True once the gateway has sent an `OriginReport`.
    has_origin_reports: AtomicBool,
    pub(super) associations: Associations,
}

impl SharedRequests {
    pub(super) fn new(without: Techniques) -> Self {
        Self {
            table: Mutex::new(RequestTable::new(without)),
            ..Self::default()
        }
    }

    pub(super) fn table(&self) -> MutexGuard<'_, RequestTable> {
        self.table.lock()
    }

    /// Records that the gateway confirmed a `Forget`.
    pub(super) fn record_forgotten(&self, id: ForgetId) {
        self.forgotten.send_replace(Some(id));
    }

    /// Records that the gateway reports what origins sent.
    pub(super) fn record_origin_report(&self) {
        self.has_origin_reports.store(true, Relaxed);
    }

    /// True if the gateway reports what origins sent.
    pub(super) fn has_origin_reports(&self) -> bool {
        self.has_origin_reports.load(Relaxed)
    }

    /// Returns a receiver of the numbers of confirmed `Forget` messages.
    pub(super) fn forgotten(&self) -> watch::Receiver<Option<ForgetId>> {
        self.forgotten.subscribe()
    }
}

/// The requests of one session.
#[derive(Debug, Default)]
pub(super) struct RequestTable {
    /// The newest fetch or tunnel.
    newest: Option<FetchId>,
    /// The newest fetch whose `Head` has been received.
    seen: Option<FetchId>,
    requests: HeaderSets,
    responses: HeaderSets,
    /// Fetches whose `Head` has been received, newest last, with their origins.
    answered: VecDeque<(FetchId, String)>,
    /// The fields of the newest response, which requests in flight may have named in `seen`.
    newest_response: Option<(FetchId, Vec<HeaderField>)>,
    waiting: BTreeMap<FetchId, Waiting>,
    over: Option<CloseReason>,
    /// Techniques that are switched off for measurements.
    without: Techniques,
}

#[derive(Debug)]
struct Waiting {
    receiver: oneshot::Sender<GatewayAnswer>,
    origin: String,
    /// The response that the gateway may use as base. A copy is kept here, because the header sets may have
    /// dropped it when a slow answer arrives.
    base: Option<(FetchId, Vec<HeaderField>)>,
    /// Receiver of `Continue`.
    continuation: Option<oneshot::Sender<()>>,
}

impl RequestTable {
    fn new(without: Techniques) -> Self {
        let coding = if without.contains(Technique::Headers) {
            FieldCoding::Literal
        } else {
            FieldCoding::Shared
        };
        Self {
            requests: HeaderSets::with_coding(coding),
            without,
            ..Self::default()
        }
    }

    /// Assigns a number to a tunnel and registers the receiver of its answer.
    pub(super) fn register(
        &mut self,
        receiver: oneshot::Sender<GatewayAnswer>,
    ) -> Result<FetchId, CloseReason> {
        self.check_open()?;
        let id = self.next_id();
        self.newest = Some(id);
        self.waiting.insert(
            id,
            Waiting {
                receiver,
                origin: String::new(),
                base: None,
                continuation: None,
            },
        );
        Ok(id)
    }

    /// The number of the next fetch or tunnel.
    fn next_id(&self) -> FetchId {
        self.newest.map_or(FetchId::FIRST, FetchId::next)
    }

    /// Returns the reason for the session's end, if it has ended, as an error.
    pub(super) fn check_open(&self) -> Result<(), CloseReason> {
        self.over.clone().map_or(Ok(()), Err)
    }

    /// Assigns a number to a fetch, encodes it, and registers the receiver of its answer. The session must
    /// still be open.
    pub(super) fn encode_fetch(
        &mut self,
        upstream: &FetchDraft,
        resume: Option<Resume>,
        policy: BasePolicy,
        receiver: oneshot::Sender<GatewayAnswer>,
    ) -> Result<(FetchId, Vec<u8>), EncodeFetchError> {
        let id = self.next_id();
        let mut wire = self.encode_with_base(upstream, &resume, id, None)?;
        for base in self.candidates(&upstream.origin, policy) {
            let other = self.encode_with_base(upstream, &resume, id, Some(base))?;
            if other.len() < wire.len() {
                wire = other;
            }
        }
        self.newest = Some(id);
        self.requests
            .insert_request(id, upstream.url.clone(), upstream.fields.clone());
        let base = self.newest_response.clone();
        self.waiting.insert(
            id,
            Waiting {
                receiver,
                origin: upstream.origin.clone(),
                base,
                continuation: None,
            },
        );
        Ok((id, wire))
    }

    /// Registers a receiver of the gateway's `Continue` for a fetch.
    pub(super) fn expect_continue(&mut self, id: FetchId) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.continuation = Some(sender);
        }
        receiver
    }

    /// Reports `Continue` for a fetch; further ones, and those of other fetches, mean nothing.
    pub(super) fn ask_for_body(&mut self, id: FetchId) {
        let sender = self
            .waiting
            .get_mut(&id)
            .and_then(|waiting| waiting.continuation.take());
        if let Some(sender) = sender {
            let _gone = sender.send(());
        }
    }

    fn encode_with_base(
        &self,
        upstream: &FetchDraft,
        resume: &Option<Resume>,
        id: FetchId,
        base: Option<FetchId>,
    ) -> Result<Vec<u8>, EncodeFetchError> {
        let request = encode_request(&upstream.url, &upstream.fields, id, base, &self.requests)?;
        let names_held = !self.without.contains(Technique::Chk);
        let fetch = Fetch {
            id,
            method: upstream.method.clone(),
            url_shared: request.url_shared,
            url: request.url,
            headers: request.headers,
            kind: upstream.kind,
            has_body: upstream.has_body,
            held: upstream.context.held.filter(|_| names_held),
            page: upstream.context.page,
            manifest: upstream.context.manifest,
            holding: if names_held {
                upstream.context.holding.clone()
            } else {
                Vec::new()
            },
            delivery: upstream.context.delivery,
            connection: upstream.context.connection,
            client: upstream.context.client,
            unpartitioned: upstream.context.unpartitioned,
            seen: self.seen,
            resume: resume.clone(),
        };
        let mut wire = Vec::with_capacity(256);
        encode(&Message::Fetch(fetch), &mut wire)?;
        Ok(wire)
    }

    /// Returns the newest answered fetch of the same origin (with similar cookies and referrer), and the
    /// newest of all.
    fn candidates(&self, origin: &str, policy: BasePolicy) -> impl Iterator<Item = FetchId> + use<> {
        let bases = match policy {
            BasePolicy::None => [None, None],
            BasePolicy::Best => {
                let same = self
                    .answered
                    .iter()
                    .rev()
                    .find(|(_, of)| of == origin)
                    .map(|(id, _)| *id);
                let newest = self
                    .answered
                    .back()
                    .map(|(id, _)| *id)
                    .filter(|id| Some(*id) != same);
                [same, newest]
            }
        };
        bases.into_iter().flatten()
    }

    /// Handles the `Head` of a fetch; returns its fields and the receiver of the answer.
    pub(super) fn accept_head(
        &mut self,
        head: &Head,
    ) -> Result<(Vec<HeaderField>, Option<oneshot::Sender<GatewayAnswer>>), HeaderSetError> {
        let waiting = self.waiting.remove(&head.fetch);
        let decoded = match decode_header_set(&head.headers, head.fetch, &self.responses) {
            Err(HeaderSetError::UnknownBase) => {
                let mut kept = HeaderSets::new();
                if let Some((base, fields)) = waiting.as_ref().and_then(|waiting| waiting.base.clone()) {
                    kept.insert(base, fields);
                }
                decode_header_set(&head.headers, head.fetch, &kept)
            }
            other => other,
        };
        let fields = decoded?;
        self.responses.insert(head.fetch, fields.clone());
        if self.seen.is_none_or(|seen| head.fetch > seen) {
            self.seen = Some(head.fetch);
            self.newest_response = Some((head.fetch, fields.clone()));
        }
        let Some(waiting) = waiting else {
            return Ok((fields, None));
        };
        self.answered.push_back((head.fetch, waiting.origin));
        if self.answered.len() > MAX_BASES {
            self.answered.pop_front();
        }
        Ok((fields, Some(waiting.receiver)))
    }

    /// Removes and returns the receiver of the answer to `id`.
    pub(super) fn take_receiver(&mut self, id: FetchId) -> Option<oneshot::Sender<GatewayAnswer>> {
        self.waiting.remove(&id).map(|waiting| waiting.receiver)
    }

    /// Ends the session's table: receivers detect the end by the closed channel.
    pub(super) fn close(&mut self, reason: CloseReason) {
        self.over.get_or_insert(reason);
        self.waiting.clear();
    }
}
