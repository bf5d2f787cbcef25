//! What one session knows of its fetches: numbers, header sets, and who waits for which answer.
use std::collections::{BTreeMap, VecDeque};

use longhaul_driver::CloseReason;
use longhaul_protocol::session::{
    Delivery, EnvelopeError, Fetch, FetchKind, Head, HeaderField, HeaderSetError, HeaderSets, ManifestId,
    Message, Method, Resume, ShortHash, decode_header_set, encode, encode_request,
};
use longhaul_types::ClientId;
use tokio::sync::oneshot;

use super::Arrival;

/// Answered fetches that may serve as bases: no base is older (docs/protocol/session.md section 5).
const MAX_BASES: usize = 128;

/// A request as it is to be sent, but for what depends on the session.
#[derive(Clone, Debug)]
pub struct FetchDraft {
    /// The method.
    pub method: Method,
    /// The absolute URL, without fragment.
    pub url: String,
    /// Scheme, host and port: requests to the same origin resemble each other.
    pub origin: String,
    /// The fields, hop-by-hop ones removed.
    pub fields: Vec<HeaderField>,
    /// Page or object.
    pub kind: FetchKind,
    /// Whether a body follows.
    pub has_body: bool,
    /// What else the gateway should know.
    pub context: FetchContext,
}

/// What a fetch tells besides the browser's request.
#[derive(Clone, Debug)]
pub struct FetchContext {
    /// For an object, the page load that it belongs to, in the same session; 0 for none.
    pub page: u64,
    /// The CHK of the version of the URL that the agent holds.
    pub held: Option<[u8; 32]>,
    /// For a page, the manifest of its last load that the agent keeps.
    pub manifest: Option<ManifestId>,
    /// For a page, what the agent holds of that manifest, while the gateway does not know.
    pub holding: Vec<ShortHash>,
    /// How the answer may come.
    pub delivery: Delivery,
    /// The browser's connection, where logins are bound to connections; 0 elsewhere.
    pub connection: u64,
    /// Whom the agent serves by it.
    pub client: ClientId,
    /// A frame of another site asks: the gateway must not look up or keep anything private.
    pub unpartitioned: bool,
}

impl Default for FetchContext {
    fn default() -> Self {
        Self {
            page: 0,
            held: None,
            manifest: None,
            holding: Vec::new(),
            delivery: Delivery::Any,
            connection: 0,
            client: ClientId::OWNER,
            unpartitioned: false,
        }
    }
}

/// Whether a header set may refer to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BasePolicy {
    /// The one that makes it smallest.
    Best,
    /// None: the gateway did not know one.
    None,
}

/// A fetch that cannot be coded.
#[derive(Debug, thiserror::Error)]
pub(super) enum CodeError {
    #[error(transparent)]
    Headers(#[from] HeaderSetError),
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
}

#[derive(Debug, Default)]
pub(super) struct Book {
    newest: u64,
    /// The newest fetch whose `Head` is here.
    seen: u64,
    requests: HeaderSets,
    responses: HeaderSets,
    /// Fetches whose `Head` is here, newest last, with their origins.
    answered: VecDeque<(u64, String)>,
    /// The fields of the newest response, as `requests` in flight may have named it.
    newest_response: Option<(u64, Vec<HeaderField>)>,
    waiting: BTreeMap<u64, Waiting>,
    over: Option<CloseReason>,
}

#[derive(Debug)]
struct Waiting {
    answer: oneshot::Sender<Arrival>,
    origin: String,
    /// The response that the gateway may use as base, kept here since the sets may have moved on when a slow answer
    /// comes.
    base: Option<(u64, Vec<HeaderField>)>,
}

impl Book {
    /// Takes a number for a tunnel, and waits for its answer.
    pub(super) fn register(&mut self, answer: oneshot::Sender<Arrival>) -> Result<u64, CloseReason> {
        self.open()?;
        self.newest += 1;
        self.waiting.insert(
            self.newest,
            Waiting {
                answer,
                origin: String::new(),
                base: None,
            },
        );
        Ok(self.newest)
    }

    /// Why the session is over, if it is.
    pub(super) fn open(&self) -> Result<(), CloseReason> {
        self.over.clone().map_or(Ok(()), Err)
    }

    /// Takes a number for a fetch, codes it, and waits for its answer. The session must be open still.
    pub(super) fn code(
        &mut self,
        draft: &FetchDraft,
        resume: Option<Resume>,
        policy: BasePolicy,
        answer: oneshot::Sender<Arrival>,
    ) -> Result<(u64, Vec<u8>), CodeError> {
        let id = self.newest + 1;
        let mut wire = self.coded(draft, &resume, id, 0)?;
        for base in self.candidates(&draft.origin, policy) {
            let other = self.coded(draft, &resume, id, base)?;
            if other.len() < wire.len() {
                wire = other;
            }
        }
        self.newest = id;
        self.requests
            .insert_request(id, draft.url.clone(), draft.fields.clone());
        let base = self.newest_response.clone();
        self.waiting.insert(
            id,
            Waiting {
                answer,
                origin: draft.origin.clone(),
                base,
            },
        );
        Ok((id, wire))
    }

    fn coded(
        &self,
        draft: &FetchDraft,
        resume: &Option<Resume>,
        id: u64,
        base: u64,
    ) -> Result<Vec<u8>, CodeError> {
        let request = encode_request(&draft.url, &draft.fields, id, base, &self.requests)?;
        let fetch = Fetch {
            id,
            method: draft.method.clone(),
            url_shared: request.url_shared,
            url: request.url,
            headers: request.headers,
            kind: draft.kind,
            has_body: draft.has_body,
            held: draft.context.held,
            page: draft.context.page,
            manifest: draft.context.manifest,
            holding: draft.context.holding.clone(),
            delivery: draft.context.delivery,
            connection: draft.context.connection,
            client: draft.context.client,
            unpartitioned: draft.context.unpartitioned,
            seen: self.seen,
            resume: resume.clone(),
        };
        let mut wire = Vec::with_capacity(256);
        encode(&Message::Fetch(fetch), &mut wire)?;
        Ok(wire)
    }

    /// The newest answered fetch of the same origin (cookies and referrer are alike), and the newest of all.
    fn candidates(&self, origin: &str, policy: BasePolicy) -> impl Iterator<Item = u64> + use<> {
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

    /// Notes the `Head` of a fetch; its fields, and who waits for it.
    pub(super) fn head(
        &mut self,
        head: &Head,
    ) -> Result<(Vec<HeaderField>, Option<oneshot::Sender<Arrival>>), HeaderSetError> {
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
        if head.fetch > self.seen {
            self.seen = head.fetch;
            self.newest_response = Some((head.fetch, fields.clone()));
        }
        let Some(waiting) = waiting else {
            return Ok((fields, None));
        };
        self.answered.push_back((head.fetch, waiting.origin));
        if self.answered.len() > MAX_BASES {
            self.answered.pop_front();
        }
        Ok((fields, Some(waiting.answer)))
    }

    /// Who waits for the answer to `id`; nobody does any more afterwards.
    pub(super) fn take(&mut self, id: u64) -> Option<oneshot::Sender<Arrival>> {
        self.waiting.remove(&id).map(|waiting| waiting.answer)
    }

    /// The session is over: whoever waits is told by the loss of its channel.
    pub(super) fn end(&mut self, reason: CloseReason) {
        self.over.get_or_insert(reason);
        self.waiting.clear();
    }
}
