//! Serves fetches: checks a fetch, answers it with a promise or from the store, and sends the response
//! stream.
mod head;
mod held;
mod request;
mod respond;
mod resume;
mod upload;

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode, header};
use longhaul_delivery::{DeltaCandidates, DeltaKey};
use longhaul_driver::{EarlyData, End, OpenOptions};
use longhaul_http::policy::Reload;
use longhaul_origin::OriginClient;
use longhaul_session::{
    BodyPlace, Delivery, Failed, FailureReason, Fetch, FetchId, FetchKind, Message, Promised, class, encode,
};
use longhaul_types::ContentHash;
use longhaul_webcache::{
    Audience, BodyReader, CacheRequest, CacheStatus, Content, GatewayResponse, OriginRequest, Purpose,
    RequesterIdentity,
};
use tracing::debug;
use url::Url;

use self::{
    head::{class_of, encode_head},
    held::{HeldCheck, check_held},
    request::{Arrived, origin_request},
    respond::{Gone, Relayed, Responder, relay},
    upload::{UploadBody, UploadError},
};
use crate::{
    admin::metrics::{Metrics, Outcome},
    failure::Failure,
    origin_reports::{ResponseCount, replaced},
    pageload::{BodyEnd, PageTap, Promise, registry::PageHead},
    session::{
        context::SessionContext,
        incoming::{Incoming, IncomingError},
    },
};

/// Serves one fetch to its end.
pub(crate) async fn serve(context: Arc<SessionContext>, fetch: Fetch, incoming: Incoming) {
    let _open = context.gateway.metrics.fetch();
    context.gateway.cpu_pool.touch();
    let mut outcome = Counted {
        metrics: &context.gateway.metrics,
        outcome: Outcome::Cancelled,
    };
    let Some(mut registration) = context.register(fetch.id) else {
        let failure = Failure::new(FailureReason::Malformed, "the fetch's number is in use");
        outcome.outcome = fail(&context, fetch.id, failure).await;
        return;
    };
    let id = fetch.id;
    let answered = tokio::select! {
        biased;
        () = registration.cancelled() => Ok(Outcome::Cancelled),
        answered = answer(&context, fetch, incoming) => answered,
    };
    outcome.outcome = match answered {
        Ok(outcome) => outcome,
        Err(Unanswered::Gone) => Outcome::Cancelled,
        Err(Unanswered::Failed(failure)) => fail(&context, id, failure).await,
    };
}

/// Fails a fetch without serving it.
pub(crate) async fn refuse(context: &SessionContext, fetch: &Fetch, failure: Failure) {
    let outcome = fail(context, fetch.id, failure).await;
    context.gateway.metrics.outcome(outcome);
}

/// Counts the outcome even if the task is dropped with its session.
struct Counted<'a> {
    metrics: &'a Metrics,
    outcome: Outcome,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.metrics.outcome(self.outcome);
    }
}

/// Reasons for the lack of a response stream.
enum Unanswered {
    /// The failure is reported to the agent.
    Failed(Failure),
    /// The agent cancelled the fetch, or the session is lost.
    Gone,
}

impl From<Failure> for Unanswered {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Gone> for Unanswered {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

async fn answer(
    context: &Arc<SessionContext>,
    mut fetch: Fetch,
    mut incoming: Incoming,
) -> Result<Outcome, Unanswered> {
    let arrived = if incoming.was_early() {
        Arrived::Early
    } else {
        Arrived::Confirmed
    };
    let request = origin_request(context, &mut fetch, arrived)?;
    if fetch.has_body {
        let response = upload(context, request.clone(), incoming).await?;
        return respond(context, &fetch, &request, response).await;
    }
    tokio::select! {
        biased;
        _ = incoming.given_up() => Err(Unanswered::Gone),
        answered = download(context, &fetch, &request) => answered,
    }
}

/// Answers a request without body.
async fn download(
    context: &Arc<SessionContext>,
    fetch: &Fetch,
    request: &OriginRequest,
) -> Result<Outcome, Unanswered> {
    if may_be_promised(fetch, request)
        && let Some(promise) = context.page_loads.promised(fetch, request).await
    {
        return send_promise(context, fetch.id, promise).await;
    }
    let cache_request = CacheRequest {
        identity: request.identity.clone(),
        parts: request.parts.clone(),
        browser: request.browser.clone(),
        reload: Reload::None,
        purpose: Purpose::Requested,
    };
    let store = &context.gateway.store;
    let response = match &request.login {
        None => context.page_loads.context().fetch(cache_request).await?,
        Some(login) => store
            .fetch_bypassing_cache(cache_request, login)
            .await
            .map_err(Failure::from)?,
    };
    respond(context, fetch, request, response).await
}

fn may_be_promised(fetch: &Fetch, request: &OriginRequest) -> bool {
    fetch.kind == FetchKind::Object
        && fetch.page.is_some()
        && fetch.delivery == Delivery::Any
        && fetch.resume.is_none()
        && request.login.is_none()
        && request.parts.method == Method::GET
        && ![header::RANGE, header::AUTHORIZATION]
            .iter()
            .any(|name| request.parts.headers.contains_key(name))
}

async fn send_promise(
    context: &Arc<SessionContext>,
    fetch: FetchId,
    promise: Promise,
) -> Result<Outcome, Unanswered> {
    let Promise { page, entry } = promise;
    let mut wire = Vec::new();
    // Three numbers fit any envelope.
    let _fits = encode(&Message::Promised(Promised { fetch, page, entry }), &mut wire);
    Responder::new(Arc::clone(context), wire, class::PAGE, None, 0)
        .finish_without_body()
        .await?;
    Ok(Outcome::Complete)
}

/// Sends a request with the body that follows on its stream.
async fn upload(
    context: &SessionContext,
    request: OriginRequest,
    mut incoming: Incoming,
) -> Result<GatewayResponse, Unanswered> {
    let malformed = |detail: &str| Unanswered::Failed(Failure::new(FailureReason::Malformed, detail));
    let announced = match incoming.message().await {
        Ok(Some(Message::Body(body))) if body.offset == 0 => body,
        Ok(_) => return Err(malformed("the request's body is not announced as it should be")),
        Err(IncomingError::Malformed(error)) => return Err(malformed(&error.to_string())),
        Err(IncomingError::Broken(_)) => return Err(Unanswered::Gone),
    };
    let body = UploadBody::new(context.window_key, &announced, incoming);
    let cause = body.failure();
    let response = context.gateway.store.upload(request, body);
    response
        .await
        .map_err(Failure::from)
        .map_err(|failure| match cause.get() {
            // The request was checked before, so a malformed request means that its body was aborted.
            Some(UploadError::Stream(_)) if failure.reason == FailureReason::Malformed => Unanswered::Gone,
            Some(cause) if failure.reason == FailureReason::Malformed => malformed(&cause.to_string()),
            Some(_) | None => Unanswered::Failed(failure),
        })
}

async fn respond(
    context: &Arc<SessionContext>,
    fetch: &Fetch,
    request: &OriginRequest,
    response: GatewayResponse,
) -> Result<Outcome, Unanswered> {
    let GatewayResponse {
        status,
        headers,
        content,
        response_context,
    } = response;
    if let Some(resume) = &fetch.resume {
        resume::check(resume, status, &headers)?;
    }
    debug!(%status, cache = ?response_context.cache_status, "a request was answered");
    let tap = tap(context, fetch, request, status, &headers).await;
    let delta_key = Url::parse(&fetch.url)
        .ok()
        .filter(|_| request.login.is_none() && request.parts.method == Method::GET)
        .and_then(|url| DeltaKey::of(&url, &request.identity, &request.parts.headers, status, &headers));
    let replaced = replaced(&headers);
    let reports = &context.page_loads.context().origin_reports;
    let mut count = reports.response(response_context.origin_size, replaced);
    if let Some(resume) = &fetch.resume {
        count.resumed_at(resume.offset);
    }
    if matches!(content, Content::None) && response_context.cache_status == CacheStatus::Miss {
        // An image may have arrived that the browser already has.
        count.unchanged();
    }
    let head = ResponseHead {
        context,
        fetch,
        identity: &request.identity,
        delta_key,
        audience: response_context.audience,
        count,
        login: request.login.as_deref(),
        status,
        headers: &headers,
    };
    match content {
        Content::None => {
            if let Some(tap) = tap {
                tap.end(BodyEnd::Complete(ContentHash::of(&[]))).await;
            }
            head.send_alone(BodyPlace::None, None).await
        }
        Content::Body(body) => head.send_with(body, tap).await,
    }
}

/// Passes a page's response to the session's page loads; returns the tap for its body.
async fn tap(
    context: &SessionContext,
    fetch: &Fetch,
    request: &OriginRequest,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<PageTap> {
    if request.login.is_some() {
        return None;
    }
    let is_page =
        fetch.kind == FetchKind::Page && fetch.resume.is_none() && request.parts.method == Method::GET;
    if !is_page {
        if fetch.kind == FetchKind::Object && fetch.page.is_some() {
            context
                .page_loads
                .answered(fetch, request, PageHead { status, headers });
        }
        return None;
    }
    context
        .page_loads
        .page(fetch, request, PageHead { status, headers })
        .await
}

/// A response's status and fields, and the fetch that it answers.
struct ResponseHead<'a> {
    context: &'a Arc<SessionContext>,
    fetch: &'a Fetch,
    identity: &'a RequesterIdentity,
    /// For the choice of a base.
    delta_key: Option<DeltaKey>,
    audience: Audience,
    /// Count of the response's bytes.
    count: ResponseCount,
    /// See [`OriginRequest::login`].
    login: Option<&'a OriginClient>,
    status: StatusCode,
    headers: &'a HeaderMap,
}

impl ResponseHead<'_> {
    async fn send_alone(mut self, body: BodyPlace, hash: Option<ContentHash>) -> Result<Outcome, Unanswered> {
        let wire = encode_head(self.context, self.fetch, self.status, self.headers, body, hash)?;
        self.count.head(wire.len());
        if body == BodyPlace::Held {
            self.count.unchanged();
        }
        Responder::new(Arc::clone(self.context), wire, class::PAGE, None, 0)
            .finish_without_body()
            .await?;
        Ok(Outcome::Complete)
    }

    async fn send_with(self, body: BodyReader, tap: Option<PageTap>) -> Result<Outcome, Unanswered> {
        let Self {
            context,
            fetch,
            identity,
            ref delta_key,
            audience,
            login,
            status,
            headers,
            ..
        } = self;
        let body = match check_held(context, fetch, identity, body, tap).await {
            HeldCheck::Held(hash) => return self.send_alone(BodyPlace::Held, Some(hash)).await,
            HeldCheck::NotHeld(body) => body,
        };
        let (known, length) = (body.chk(), body.length());
        let wire = encode_head(context, fetch, status, headers, BodyPlace::Follows, known)?;
        self.count.head(wire.len());
        let offset = fetch.resume.as_ref().map_or(0, |resume| resume.offset);
        let encoding = context.gateway.encoding(context.device, context.window_key);
        let pipeline = if fetch.resume.is_some() {
            encoding
                .identity(None, offset)
                .map_err(|error| Failure::new(FailureReason::Internal, error))?
        } else {
            let content_type = headers
                .get(header::CONTENT_TYPE)
                .and_then(|value| value.to_str().ok());
            let traits = encoding.traits(content_type, length, context.page_loads.context().link_rate());
            let is_plain = fetch.delivery == Delivery::Plain;
            let candidates = if is_plain {
                DeltaCandidates::default()
            } else {
                let page_loads = context.page_loads.context();
                page_loads.bases_for(delta_key.as_ref(), length).await
            };
            // After damage the body is encoded again.
            let audience = if is_plain {
                Audience::RequestingDevice
            } else {
                audience
            };
            encoding.whole(known, audience, traits, candidates).await
        };
        let class = class_of(fetch.kind, length, headers);
        let mut responder =
            Responder::new(Arc::clone(context), wire, class, length, offset).counted_in(self.count);
        let relayed = relay(&mut responder, body, pipeline).await?;
        let decoded = responder.decoded();
        // The agent does not store responses of connection-bound logins.
        let stream = responder.into_stream().filter(|_| login.is_none());
        if let (Relayed::Complete(hash), Some(mut stream)) = (relayed, stream) {
            let (page_loads, headers) = (Arc::clone(&context.page_loads), headers.clone());
            let delta_key = delta_key.clone();
            let partition = identity.partition();
            // Outlives the fetch, and ends with the session at the latest.
            tokio::spawn(async move {
                if stream.delivered().await.is_ok() {
                    page_loads.delivered(partition, hash, status, &headers);
                    if let Some(delta_key) = delta_key {
                        page_loads.context().bases.learn(&delta_key, hash, decoded).await;
                    }
                }
            });
        }
        Ok(relayed.outcome())
    }
}

async fn fail(context: &SessionContext, fetch: FetchId, failure: Failure) -> Outcome {
    let Failure { reason, detail } = failure;
    debug!(?reason, "a request has no response");
    context.gateway.metrics.failure(reason);
    let mut wire = Vec::new();
    // The detail is at most 500 characters, which fits any envelope.
    let _fits = encode(
        &Message::Failed(Failed {
            fetch,
            reason,
            detail,
        }),
        &mut wire,
    );
    let total = Some(wire.len() as u64);
    let options = OpenOptions {
        class: class::PAGE,
        early: EarlyData::Allowed,
        total,
    };
    match context.session.open(options, wire.into(), End::Finish).await {
        Ok(_) => Outcome::Failed,
        Err(_) => Outcome::Cancelled,
    }
}
