//! A request led from phase to phase; here the waiting, and the way around the gateway.
use std::{future::Future, pin::Pin, sync::Arc};

use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::Either;
use hyper::body::Incoming;
use longhaul_driver::CloseReason;
use longhaul_http::method::Repeatability;
use longhaul_origin::{ConnectionOwner, FetchError, OriginBody};
use longhaul_protocol::session::{FetchKind, ShortHash};
use longhaul_types::{ContentHash, Pii};
use tracing::debug;

use super::{
    Context, Exit,
    draft::Draft,
    page_use::{PageUse, Role},
    phase::{Phase, PhaseExit},
    response::{self, Outgoing, Source},
    upload::SharedUpload,
};
use crate::{
    bundle::{KeptManifest, PageLoad},
    direct,
    fallback::FallbackClock,
    listener::ConnectionScope,
    pages::{BadRequest, Failure, Lost},
    session::{BasePolicy, HopError},
    store::Query,
};

/// How often a request is repeated after it was in an open session. Sessions that end so often will not carry it.
pub(super) const MAX_REPEATS: u8 = 3;

/// A request on its way.
pub(super) struct Life {
    pub(super) context: Arc<Context>,
    scope: Arc<ConnectionScope>,
    pub(super) draft: Draft,
    pub(super) upload: Option<SharedUpload>,
    pub(super) policy: BasePolicy,
    pub(super) repeats: u8,
    pub(super) fallback: FallbackClock,
    /// The page load that it uses.
    pub(super) page: Option<PageUse>,
    /// For a document, the page that led to it, as long as that is loading.
    pub(super) came_from: Option<Arc<PageLoad>>,
    /// The version of its URL that the agent holds.
    pub(super) held: Option<ContentHash>,
    /// For a page, the manifest of its last load, and what the agent holds of that.
    pub(super) kept: Option<Arc<KeptManifest>>,
    pub(super) holding: Vec<ShortHash>,
}

pub(super) type DirectFetch = Pin<Box<dyn Future<Output = Result<Response<OriginBody>, FetchError>> + Send>>;

impl Life {
    /// A request from the browser.
    pub(super) fn new(
        context: &Arc<Context>,
        scope: &Arc<ConnectionScope>,
        request: Request<Incoming>,
    ) -> Result<Self, BadRequest> {
        let (parts, incoming) = request.into_parts();
        let mut draft = Draft::of(parts, &incoming, scope.client().id(), &context.secret)?;
        let judged = context.framed.judge(draft.context.clone(), &draft.fetch.url);
        draft.fetch.context.unpartitioned =
            judged.partition().is_none() && draft.context.partition().is_some();
        draft.context = judged;
        if let Some(connection) = scope.bound() {
            draft.bind(connection);
        }
        if !context.push.enabled || !draft.is_lookable() {
            // The gateway plans nothing for an object.
            draft.fetch.kind = FetchKind::Object;
        }
        let upload = draft.fetch.has_body.then(|| SharedUpload::new(incoming));
        Ok(Self {
            context: Arc::clone(context),
            scope: Arc::clone(scope),
            draft,
            upload,
            policy: BasePolicy::Best,
            repeats: 0,
            fallback: FallbackClock::start(context.gateway.clone(), context.fallback),
            page: None,
            came_from: None,
            held: None,
            kept: None,
            holding: Vec::new(),
        })
    }

    /// Leads it to its end.
    pub(super) async fn run(mut self) -> Exit {
        let gateway = self.context.gateway.clone();
        let _demand = gateway.demand();
        let mut phase = Phase::Looking;
        loop {
            phase = match phase {
                Phase::Looking => self.look().await,
                Phase::WaitingForManifest(load) => self.wait_for_manifest(load).await,
                Phase::Promised(promise) => self.wait_for_head(promise).await,
                Phase::Arriving(promise, head) => self.wait_for_body(promise, head).await,
                Phase::Waiting => self.wait().await,
                Phase::Sent(hop, timing) => self.send(hop, timing).await,
                Phase::Direct => self.go_direct().await,
                Phase::Over(exit) => return exit,
            };
        }
    }

    async fn wait(&self) -> Phase {
        tokio::select! {
            biased;
            (hop, timing) = self.context.gateway.usable(self.draft.need) => Phase::Sent(hop, timing),
            () = self.fallback.due() => Phase::Direct,
            failure = self.fallback.hopeless() => Phase::Over(Exit::without_response(failure)),
        }
    }

    /// Leaves a phase.
    pub(super) fn leave(&self, exit: PhaseExit, next: Phase) -> Phase {
        self.context.counters.exits.one(exit);
        next
    }

    /// Uses a page load, until the answer is with the browser.
    pub(super) fn join(&mut self, load: Arc<PageLoad>) {
        if self
            .page
            .as_ref()
            .is_none_or(|page| !Arc::ptr_eq(&page.load, &load))
        {
            self.page = Some(PageUse::of(load, Role::Object));
        }
    }

    /// What is looked for in the cache, and kept there.
    pub(super) fn query(&self) -> Query<'_> {
        Query {
            context: &self.draft.context,
            url: &self.draft.fetch.url,
            method: &self.draft.method,
            request: &self.draft.asked,
        }
    }

    /// A response for the browser, whose body comes from `source`.
    pub(super) fn outgoing(&mut self, status: StatusCode, fields: HeaderMap, source: Source) -> Outgoing<'_> {
        Outgoing {
            context: &self.context,
            draft: &self.draft,
            status,
            fields,
            source,
            content_hash: None,
            tee: None,
            page: self.page.take(),
        }
    }

    /// Whether a request that is in a session already may go another way as well.
    pub(super) fn is_repeatable_now(&self) -> bool {
        self.draft.repeatability == Repeatability::Safe && self.upload.is_none()
    }

    /// Nothing of the request was sent.
    pub(super) fn not_sent(&self, error: &HopError) -> Phase {
        let bad = match error {
            HopError::Lost(_) if self.rewind() => return Phase::Waiting,
            HopError::Lost(_) => return Phase::Over(Exit::without_response(Failure::Lost(Lost::BodyGone))),
            HopError::HeaderTooLarge => BadRequest::HeaderTooLarge,
            HopError::Busy => BadRequest::Overloaded,
        };
        Phase::Over(Exit::without_response(Failure::Request(bad)))
    }

    pub(super) fn rewind(&self) -> bool {
        self.upload.as_ref().is_none_or(|upload| upload.rewind().is_ok())
    }

    /// The session ended before the answer came.
    pub(super) fn lost(&mut self, reason: &CloseReason) -> Phase {
        self.context.counters.exits.one(PhaseExit::SentLost);
        let failure = if self.draft.repeatability != Repeatability::Safe {
            Lost::PerhapsSent
        } else if !self.rewind() {
            Lost::BodyGone
        } else if self.repeats >= MAX_REPEATS {
            Lost::TooOften
        } else {
            // Attempts to reach a gateway, which the agent itself ends, are not counted.
            if !matches!(reason, CloseReason::Local { .. }) {
                self.repeats += 1;
                self.context.counters.repeated.one();
            }
            return Phase::Waiting;
        };
        Phase::Over(Exit::without_response(Failure::Lost(failure)))
    }

    async fn go_direct(&mut self) -> Phase {
        debug!(url = ?Pii(&self.draft.uri), "no gateway answers; going around it");
        match self.direct_fetch().await {
            Ok(answer) => {
                self.clear_site_data(answer.headers()).await;
                let response = response::of_origin(answer, &self.draft.method);
                self.leave(PhaseExit::Direct, Phase::Over(Exit::Direct(response)))
            }
            // It looks as if this machine were offline: the gateway may be back first.
            Err(error) if direct::is_offline(&error) && self.rewind() => {
                self.fallback.failed(error);
                Phase::Waiting
            }
            Err(error) => Phase::Over(Exit::without_response(Failure::Direct(error))),
        }
    }

    pub(super) fn direct_fetch(&self) -> DirectFetch {
        let body = self
            .upload
            .clone()
            .map_or_else(|| Either::Left(http_body_util::Empty::new()), Either::Right);
        let mut request = Request::new(body);
        *request.method_mut() = self.draft.method.clone();
        *request.uri_mut() = self.draft.uri.clone();
        *request.headers_mut() = direct_headers(&self.draft);
        let client = self.scope.direct(&self.context.direct);
        Box::pin(async move { client.fetch(request, ConnectionOwner::Local).await })
    }
}

/// The length is the body's to tell.
fn direct_headers(draft: &Draft) -> HeaderMap {
    let mut headers = draft.headers.clone();
    if draft.length.is_none() || !draft.fetch.has_body {
        headers.remove(header::CONTENT_LENGTH);
    }
    headers
}
