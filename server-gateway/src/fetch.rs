//! Serves fetches: checks a fetch, answers it with a promise or from the store, and sends the response
//! stream.
mod head;
mod held;
mod request;
mod respond;
mod response_head;
mod resume;
mod upload;

use std::{sync::Arc, time::Instant};

use http::{Method, header};
use longhaul_gateway_core::{
    admin::metrics::{Metrics, Outcome},
    failure::Failure,
};
use longhaul_http::{framing, policy::Reload};
use longhaul_pageload::Promise;
use longhaul_session::{
    Delivery, Failed, FailureReason, Fetch, FetchId, FetchKind, Message, Promised, class, encode,
};
use longhaul_webcache::{CacheRequest, GatewayResponse, OriginRequest, Purpose};
use tracing::debug;

use self::{
    request::{Arrived, origin_request},
    respond::{Gone, Responder},
    response_head::respond,
    upload::{UploadBody, UploadError, announcement},
};
use crate::session::{context::SessionContext, incoming::Incoming};

/// Serves one fetch to its end.
pub(crate) async fn serve(context: Arc<SessionContext>, fetch: Fetch, incoming: Incoming) {
    let _open = context.gateway.metrics.fetch();
    let began = Instant::now();
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
        Ok(outcome) => {
            if outcome == Outcome::Complete {
                context.gateway.metrics.observed.fetched(began.elapsed());
            }
            outcome
        }
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
        let response = upload(context, fetch.id, request.clone(), incoming).await?;
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
    let began = Instant::now();
    let response = match &request.login {
        None => {
            let answered = context.page_loads.context().fetch(cache_request).await;
            answered.inspect_err(|failure| context.page_loads.failed(fetch, request, failure.reason))?
        }
        Some(login) => store
            .fetch_bypassing_cache(cache_request, login)
            .await
            .map_err(Failure::from)?,
    };
    context.gateway.metrics.observed.first_byte(began.elapsed());
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
    context: &Arc<SessionContext>,
    fetch: FetchId,
    request: OriginRequest,
    mut incoming: Incoming,
) -> Result<GatewayResponse, Unanswered> {
    let malformed = |detail: &str| Unanswered::Failed(Failure::new(FailureReason::Malformed, detail));
    let body = if request.parts.headers.contains_key(header::EXPECT) {
        let length = framing::content_length(&request.browser);
        let length = length.map_err(|error| malformed(&error.to_string()))?;
        UploadBody::asked_for(Arc::clone(context), fetch, length, incoming)
    } else {
        match announcement(&mut incoming).await {
            Ok(announced) => UploadBody::new(context.window_key, &announced, incoming),
            Err(UploadError::Stream(_)) => return Err(Unanswered::Gone),
            Err(error) => return Err(malformed(&error.to_string())),
        }
    };
    let cause = body.failure();
    let response = context.gateway.store.upload(request, body);
    let response = tokio::select! {
        biased;
        reached = context.quota.until_reached() => return Err(Unanswered::Failed(reached.failure())),
        response = response => response,
    };
    response
        .map_err(Failure::from)
        .map_err(|failure| match cause.get() {
            // The request was checked before, so a malformed request means that its body was aborted.
            Some(UploadError::Stream(_)) if failure.reason == FailureReason::Malformed => Unanswered::Gone,
            Some(cause) if failure.reason == FailureReason::Malformed => malformed(&cause.to_string()),
            Some(_) | None => Unanswered::Failed(failure),
        })
}

async fn fail(context: &SessionContext, fetch: FetchId, failure: Failure) -> Outcome {
    let Failure { reason, detail } = failure;
    debug!(?reason, "a request has no response");
    context.gateway.metrics.failure(reason);
    let failed = Message::Failed(Failed {
        fetch,
        reason,
        detail,
    });
    match context.send_alone(&failed).await {
        Ok(()) => Outcome::Failed,
        Err(_) => Outcome::Cancelled,
    }
}
