//! The task of a request: its phases, the wait for a session, and the direct fallback.
use std::{future::Future, pin::Pin, sync::Arc};

use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header, uri::Scheme};
use http_body_util::Either;
use hyper::body::Incoming;
use longhaul_driver::CloseReason;
use longhaul_http::{
    captive_portal,
    coding::set_accept_encoding,
    conditional::{RangeAnswer, range_answer},
    method::Repeatability,
};
use longhaul_origin::{ConnectionOwner, FetchError, OriginBody};
use longhaul_session::{FetchKind, ImageLevel, ShortHash};
use longhaul_types::{BitRate, ContentHash, Pii};
use tokio::sync::OwnedSemaphorePermit;
use tracing::debug;

use super::{
    body_relay::RelayHandles,
    local_host::LocalWay,
    outcome::RequestOutcome,
    page_membership::{PageUse, Role},
    phase::Phase,
    response::{self, ResponseBody, ResponseDraft},
    upload::SharedUpload,
    upstream_request::UpstreamRequest,
};
use crate::{
    acceleration::Acceleration,
    connection::ConnectionScope,
    counters::{Counters, PhaseExit},
    gateway::{BasePolicy, SendError},
    handles::Handles,
    holdout::PageRequest,
    journal::{NewRequest, Recording},
    pageload::{KeptManifest, PageLoad},
    pages::{BadRequest, Failure, Lost},
    store::{Query, Storage},
    upstream::{FallbackClock, PlainRequest, Upstream, direct},
};

/// Maximum number of repetitions after a request was sent in an open session. More repetitions would fail as
/// well if sessions end this often.
pub(super) const MAX_REPEATS: u8 = 3;

/// The task of one request.
pub(super) struct RequestTask {
    pub(super) upstream: Arc<Upstream>,
    pub(super) storage: Arc<Storage>,
    pub(super) acceleration: Arc<Acceleration>,
    pub(super) counters: Arc<Counters>,
    /// The request's record in the journal.
    pub(super) recording: Recording,
    pub(super) scope: Arc<ConnectionScope>,
    /// Turn of a request whose browser has the page that says that the hop is away.
    pub(super) turn: Option<OwnedSemaphorePermit>,
    pub(super) request: UpstreamRequest,
    /// Image level of the page that displays the response.
    pub(super) images: ImageLevel,
    /// True if the user has paused that page's site: the response is the origin's own.
    pub(super) is_paused: bool,
    /// True if the page goes direct, so that its time is compared with others.
    pub(super) is_held_out: bool,
    /// The request in the visit of its page, until the response has ended.
    pub(super) page_request: Option<Arc<PageRequest>>,
    pub(super) upload: Option<SharedUpload>,
    pub(super) policy: BasePolicy,
    pub(super) repeats: u8,
    pub(super) fallback: FallbackClock,
    /// The way to a host of the local network.
    pub(super) local: LocalWay,
    /// The page load that the request belongs to.
    pub(super) page: Option<PageUse>,
    /// For a document: the page that navigated to it, while that page is still loading.
    pub(super) previous_page: Option<Arc<PageLoad>>,
    /// Content hash of the version of the URL that the agent holds.
    pub(super) held_version: Option<ContentHash>,
    /// For a page: the manifest of its previous load, and which of its bodies the agent holds.
    pub(super) kept_manifest: Option<Arc<KeptManifest>>,
    pub(super) held_bodies: Vec<ShortHash>,
}

pub(super) type DirectFetch = Pin<Box<dyn Future<Output = Result<Response<OriginBody>, FetchError>> + Send>>;

impl RequestTask {
    /// Creates the task of a browser's request.
    pub(super) fn new(
        handles: &Handles,
        scope: &Arc<ConnectionScope>,
        request: Request<Incoming>,
    ) -> Result<Self, BadRequest> {
        let (parts, incoming) = request.into_parts();
        let Handles {
            upstream,
            storage,
            acceleration,
            counters,
            journal,
        } = handles.clone();
        let mut request = UpstreamRequest::of(
            parts,
            &incoming,
            scope.client().id(),
            &storage.credentials_secret,
            upstream.rules.load().allows_early_cookies,
            upstream.gateway.view().silent_since.is_some(),
        )?;
        let judged = storage
            .framed_sites
            .context_of(request.context.clone(), &request.fetch.url);
        request.fetch.context.unpartitioned =
            judged.partition().is_none() && request.context.partition().is_some();
        request.context = judged;
        let local = LocalWay::of(scope, &request);
        if let Some(connection) = scope.bound_number() {
            request.bind(connection);
        }
        let page_host = request.context.page_host(&request.fetch.url);
        let images = acceleration.images.level_for(page_host);
        let is_paused = page_host.is_some_and(|host| upstream.site_rules.is_paused(host));
        let is_measured = !is_paused && !local.is_open();
        let page_request = page_host.filter(|_| is_measured).and_then(|host| {
            let may_go_direct = request.may_be_held_out() && upstream.permits_hold_out(host);
            let client = request.context.client();
            upstream
                .hold_out
                .begin_request(client, host, request.is_navigation, may_go_direct)
                .map(Arc::new)
        });
        let is_held_out =
            request.may_be_held_out() && page_request.as_ref().is_some_and(|page| page.is_direct());
        if let Some(page) = page_request
            .as_ref()
            .filter(|page| page.is_direct() && !is_held_out)
        {
            page.spoil();
        }
        if is_paused || is_held_out {
            request.refuse_transformation();
        }
        if is_paused || is_held_out || !acceleration.push.load().enabled || !request.may_be_answered_locally()
        {
            // The gateway plans nothing for a fetch of kind object.
            request.fetch.kind = FetchKind::Object;
        }
        let measured = upstream.gateway.view().session.map(|session| session.stats());
        let referrer = request.headers.get(header::REFERER);
        let recording = journal.begin(NewRequest {
            client: request.context.client(),
            method: &request.method,
            url: &request.fetch.url,
            is_page: request.is_navigation,
            referrer: referrer.and_then(|referrer| referrer.to_str().ok()),
            rate: Some(BitRate::bps(counters.link_rate.get())).filter(|rate| *rate != BitRate::default()),
            rtt: measured.as_ref().and_then(|stats| stats.measured_srtt),
        });
        let upload = request.fetch.has_body.then(|| SharedUpload::new(incoming));
        let fallback = match plain_host(&request.uri) {
            Some(host) => upstream.fallback_clock().of_plain_http(PlainRequest {
                host: host.to_owned(),
                is_bare: is_bare(&request),
            }),
            None => upstream.fallback_clock(),
        };
        Ok(Self {
            upstream,
            storage,
            acceleration,
            counters,
            recording,
            scope: Arc::clone(scope),
            turn: None,
            request,
            images,
            is_paused,
            is_held_out,
            page_request,
            upload,
            policy: BasePolicy::Best,
            repeats: 0,
            fallback,
            local,
            page: None,
            previous_page: None,
            held_version: None,
            kept_manifest: None,
            held_bodies: Vec::new(),
        })
    }

    /// Runs the request through its phases to its end.
    pub(super) async fn run(mut self) -> RequestOutcome {
        let gateway = self.upstream.gateway.clone();
        let _waiting = gateway.demand();
        // What detects a captive portal has to see the network: the gateway and the cache see none.
        let goes_direct = self.is_paused || self.is_held_out;
        let local = if self.is_portal_detection() {
            Some(Phase::Direct)
        } else {
            self.begin_locally()
        };
        let mut phase = match local {
            Some(phase) => phase,
            None if goes_direct && self.fallback.permits_direct() => Phase::Direct,
            None => Phase::Lookup,
        };
        // A browser that cancels the request may have written as well.
        self.record_write();
        loop {
            phase = match phase {
                Phase::Lookup => self.look_up_locally().await,
                Phase::WaitingForManifest(load) => self.wait_for_manifest(load).await,
                Phase::Promised(promise) => self.wait_for_head(promise).await,
                Phase::Arriving(promise, head) => self.wait_for_body(promise, head).await,
                Phase::Waiting => self.wait().await,
                Phase::Sent(session, send_phase) => self.send(session, send_phase).await,
                Phase::Direct => self.fetch_directly().await,
                Phase::Over(outcome) => {
                    let next = self.instead_of_gateway(outcome);
                    if let Phase::Over(exit) = next {
                        self.record_write();
                        return exit;
                    }
                    next
                }
            };
        }
    }

    /// Records an unsafe request in the client's page loads: when it begins, and when its answer or failure is known, of
    /// which neither says that nothing was written.
    fn record_write(&self) {
        if !self.request.method.is_safe() {
            let (client, url) = (self.request.context.client(), &self.request.fetch.url);
            self.acceleration.page_loads.record_write(client, url);
        }
    }

    /// Makes the request independent of the connection on which it arrived.
    pub(super) fn detach_from(&mut self, scope: &ConnectionScope) {
        self.scope = Arc::new(scope.detached());
    }

    async fn wait(&mut self) -> Phase {
        let phase = self.wait_for_way().await;
        let is_patient = self.fallback.patience().is_unlimited();
        if is_patient && self.turn.is_none() && matches!(phase, Phase::Sent(..)) {
            self.turn = self.upstream.waiting_pages.turn().await;
            // Another session may be in use by now.
            return self.wait_for_way().await;
        }
        phase
    }

    async fn wait_for_way(&self) -> Phase {
        tokio::select! {
            biased;
            (session, send_phase) = self.upstream.gateway.wait_for_session(self.request.required_state) => Phase::Sent(session, send_phase),
            () = self.fallback.until_due() => Phase::Direct,
            failure = self.fallback.until_unavailable() => Phase::Over(RequestOutcome::of_failure(failure)),
        }
    }

    /// Counts the exit of a phase and returns the next phase.
    pub(super) fn change_phase(&self, exit: PhaseExit, next: Phase) -> Phase {
        self.counters.exits.count(exit);
        self.recording.left(exit);
        next
    }

    /// Joins a page load until the browser has the response.
    pub(super) fn join(&mut self, load: Arc<PageLoad>) {
        if self
            .page
            .as_ref()
            .is_none_or(|page| !Arc::ptr_eq(&page.load, &load))
        {
            self.page = Some(PageUse::of(load, Role::Object));
        }
    }

    /// Query for the cache, for lookup and for storing.
    pub(super) fn query(&self) -> Query<'_> {
        Query {
            context: &self.request.context,
            url: &self.request.fetch.url,
            method: &self.request.method,
            request: &self.request.request_headers,
            images: self.images,
        }
    }

    /// True if the agent's cache or a push may answer the request.
    pub(super) fn may_be_answered_locally(&self) -> bool {
        !self.is_paused && !self.is_held_out && self.request.may_be_answered_locally()
    }

    /// Builds the response for the browser, with the body from `source`.
    pub(super) fn response_draft(
        &mut self,
        status: StatusCode,
        fields: HeaderMap,
        source: ResponseBody,
    ) -> ResponseDraft<'_> {
        ResponseDraft {
            relay: RelayHandles {
                gateway: self.upstream.gateway.clone(),
                store: self.storage.store.clone(),
                counters: Arc::clone(&self.counters),
                recording: self.recording.clone(),
                stall_timeout: self.acceleration.push.load().stall_timeout,
            },
            request: &self.request,
            status,
            fields,
            source,
            content_hash: None,
            cache_writer: None,
            page: self.page.take(),
        }
    }

    /// True if a request that is already sent in a session may also be sent directly.
    pub(super) fn is_repeatable_now(&self) -> bool {
        self.request.repeatability == Repeatability::Safe && self.upload.is_none()
    }

    /// Next phase if nothing of the request was sent.
    pub(super) fn not_sent(&self, error: &SendError) -> Phase {
        let bad = match error {
            SendError::Lost(_) if self.rewind() => return Phase::Waiting,
            SendError::Lost(_) => {
                return Phase::Over(RequestOutcome::of_failure(Failure::Lost(Lost::BodyGone)));
            }
            SendError::HeaderTooLarge => BadRequest::HeaderTooLarge,
            SendError::Busy => BadRequest::Overloaded,
        };
        Phase::Over(RequestOutcome::of_failure(Failure::Request(bad)))
    }

    pub(super) fn rewind(&self) -> bool {
        self.upload.as_ref().is_none_or(|upload| upload.rewind().is_ok())
    }

    /// Next phase if the session ended before the answer arrived.
    pub(super) fn handle_lost_session(&mut self, reason: &CloseReason) -> Phase {
        self.counters.exits.count(PhaseExit::SentLost);
        self.recording.left(PhaseExit::SentLost);
        let failure = if self.request.repeatability != Repeatability::Safe {
            Lost::PerhapsSent
        } else if !self.rewind() {
            Lost::BodyGone
        } else if self.repeats >= MAX_REPEATS {
            Lost::TooOften
        } else {
            // Sessions that the agent itself ends, such as attempts to reach a gateway, are not counted.
            if !matches!(reason, CloseReason::Local { .. }) {
                self.repeats += 1;
                self.counters.repeated.increment();
            }
            return Phase::Waiting;
        };
        Phase::Over(RequestOutcome::of_failure(Failure::Lost(failure)))
    }

    async fn fetch_directly(&mut self) -> Phase {
        debug!(url = ?Pii(&self.request.uri), "sending the request directly");
        match self.direct_fetch().await {
            Ok(answer) => {
                self.forget_written(answer.status(), answer.headers()).await;
                self.clear_site_data(answer.headers()).await;
                let response = response::of_origin(answer, &self.request.method);
                self.change_phase(PhaseExit::Direct, Phase::Over(RequestOutcome::Direct(response)))
            }
            Err(error) if self.local.is_open() => self.not_reached_locally(error),
            Err(error) if self.is_held_out && self.is_repeatable_now() => {
                if let Some(page) = &self.page_request {
                    page.spoil();
                }
                self.fallback.failed(error);
                Phase::Waiting
            }
            // The machine may be offline; the gateway may be reachable again first.
            Err(error) if direct::is_offline(&error) && !self.is_portal_detection() && self.rewind() => {
                self.fallback.failed(error);
                Phase::Waiting
            }
            Err(error) => Phase::Over(RequestOutcome::of_failure(self.fallback.direct_failure(error))),
        }
    }

    /// True if the request detects a captive portal.
    fn is_portal_detection(&self) -> bool {
        let uri = &self.request.uri;
        plain_host(uri).is_some_and(|host| captive_portal::is_detection(host, uri.path()))
    }

    pub(super) fn direct_fetch(&self) -> DirectFetch {
        let body = self
            .upload
            .clone()
            .map_or_else(|| Either::Left(http_body_util::Empty::new()), Either::Right);
        let headers = direct_headers(&self.request);
        let whole = headers.contains_key(header::IF_RANGE).then(|| {
            let mut whole = headers.clone();
            whole.remove(header::RANGE);
            whole.remove(header::IF_RANGE);
            self.direct_request(
                whole,
                Either::<_, SharedUpload>::Left(http_body_util::Empty::new()),
            )
        });
        let request = self.direct_request(headers, body);
        let (browser, path) = (self.request.headers.clone(), self.request.uri.path().to_owned());
        let client = if self.is_portal_detection() || self.fallback.is_at_login_page() {
            self.scope.at_portal(&self.upstream.at_portal)
        } else if self.local.permits_local_addresses() {
            self.scope.local(&self.upstream.local)
        } else {
            self.scope.direct(&self.upstream.direct)
        };
        Box::pin(async move {
            let response = client.fetch(request, ConnectionOwner::Local).await?;
            let answer = range_answer(&browser, &path, response.status(), response.headers());
            match whole.filter(|_| answer == RangeAnswer::FetchWhole) {
                // The part counts coded bytes, but the browser may hold decoded ones of the gateway.
                Some(whole) => client.fetch(whole, ConnectionOwner::Local).await,
                None => Ok(response),
            }
        })
    }

    fn direct_request<B>(&self, headers: HeaderMap, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = self.request.method.clone();
        *request.uri_mut() = self.request.uri.clone();
        *request.headers_mut() = headers;
        request
    }
}

/// Host of a request of plain http.
fn plain_host(uri: &Uri) -> Option<&str> {
    uri.host().filter(|_| uri.scheme() == Some(&Scheme::HTTP))
}

/// True for a GET or HEAD without credentials and without a body.
fn is_bare(request: &UpstreamRequest) -> bool {
    let has_credentials = [header::COOKIE, header::AUTHORIZATION]
        .iter()
        .any(|name| request.headers.contains_key(name));
    matches!(request.method, Method::GET | Method::HEAD) && !has_credentials && !request.fetch.has_body
}

/// Fields of the direct request. The body gives its length itself.
fn direct_headers(upstream: &UpstreamRequest) -> HeaderMap {
    let mut headers = upstream.headers.clone();
    if upstream.length.is_none() || !upstream.fetch.has_body {
        headers.remove(header::CONTENT_LENGTH);
    }
    if headers.contains_key(header::RANGE) {
        // As the gateway does: the browser may hold the bytes before as decoded ones.
        set_accept_encoding(&mut headers, upstream.uri.path());
    }
    headers
}
