//! The life of a fetch: checked, sent to the origin, answered on a response stream.
mod failure;
mod head;
mod request;
mod respond;
mod resume;

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, header, request::Parts};
use http_body::Body as _;
use http_body_util::Empty;
use longhaul_codec::BodyTraits;
use longhaul_driver::{EarlyData, End, OpenOptions};
use longhaul_http::conditional::{RangeAnswer, range_answer};
use longhaul_origin::{FetchError, OriginBody};
use longhaul_protocol::session::{Failed, FailureReason, Fetch, Message, encode};
use longhaul_types::{BitRate, ByteCount};
use tracing::debug;

pub(crate) use self::failure::Failure;
use self::{
    head::{Content, HEAD_CLASS, ResponseHead, encode_head, response_head},
    request::{Arrived, Outgoing, outgoing},
    respond::{Gone, Responder, relay},
};
use crate::{
    body::BodyCoder,
    incoming::{Incoming, IncomingError},
    metrics::{Metrics, Outcome},
    session::SessionContext,
    upload::{UploadBody, UploadError},
};

/// Serves one fetch to its end.
pub(crate) async fn serve(context: Arc<SessionContext>, fetch: Fetch, incoming: Incoming) {
    let _open = context.gateway.metrics.fetch();
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

/// Counts the outcome also when the task is dropped with its session.
struct Counted<'a> {
    metrics: &'a Metrics,
    outcome: Outcome,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.metrics.outcome(self.outcome);
    }
}

/// Why there is no response stream.
enum Unanswered {
    /// The agent is told.
    Failed(Failure),
    /// The agent does not want to know.
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
    fetch: Fetch,
    mut incoming: Incoming,
) -> Result<Outcome, Unanswered> {
    let arrived = if incoming.was_early() {
        Arrived::Early
    } else {
        Arrived::Confirmed
    };
    let outgoing = outgoing(context, &fetch, arrived)?;
    if fetch.has_body {
        let response = upload(context, &outgoing, incoming).await?;
        return respond(context, &fetch, &outgoing, response).await;
    }
    tokio::select! {
        biased;
        _ = incoming.given_up() => Err(Unanswered::Gone),
        answered = async {
            let response = download(context, &outgoing).await?;
            respond(context, &fetch, &outgoing, response).await
        } => answered,
    }
}

/// Sends a request without body.
async fn download(context: &SessionContext, outgoing: &Outgoing) -> Result<Response<OriginBody>, Failure> {
    let send = |parts: Parts| {
        context
            .gateway
            .origin
            .fetch(http::Request::from_parts(parts, Empty::<Bytes>::new()))
    };
    let response = send(outgoing.parts.clone()).await?;
    if range_answer(&outgoing.browser, response.status(), response.headers()) == RangeAnswer::Forward {
        return Ok(response);
    }
    // The part counts coded bytes, the browser holds decoded ones: it gets the whole.
    drop(response);
    let mut parts = outgoing.parts.clone();
    parts.headers.remove(header::RANGE);
    parts.headers.remove(header::IF_RANGE);
    longhaul_http::coding::set_accept_encoding(&mut parts.headers);
    Ok(send(parts).await?)
}

/// Sends a request with the body that follows on its stream.
async fn upload(
    context: &SessionContext,
    outgoing: &Outgoing,
    mut incoming: Incoming,
) -> Result<Response<OriginBody>, Unanswered> {
    let malformed = |detail: &str| Unanswered::Failed(Failure::new(FailureReason::Malformed, detail));
    let announced = match incoming.message().await {
        Ok(Some(Message::Body(body))) if body.offset == 0 => body,
        Ok(_) => return Err(malformed("the request's body is not announced as it should be")),
        Err(IncomingError::Malformed(error)) => return Err(malformed(&error.to_string())),
        Err(IncomingError::Broken(_)) => return Err(Unanswered::Gone),
    };
    let body = UploadBody::new(context.window_key, &announced, incoming);
    let cause = body.failure();
    let request = http::Request::from_parts(outgoing.parts.clone(), body);
    context
        .gateway
        .origin
        .fetch(request)
        .await
        .map_err(|error| match (error, cause.get()) {
            (FetchError::Upload, Some(UploadError::Stream(_))) => Unanswered::Gone,
            (FetchError::Upload, Some(cause)) => malformed(&cause.to_string()),
            (error, _) => Unanswered::Failed(error.into()),
        })
}

async fn respond(
    context: &Arc<SessionContext>,
    fetch: &Fetch,
    outgoing: &Outgoing,
    response: Response<OriginBody>,
) -> Result<Outcome, Unanswered> {
    let (parts, body) = response.into_parts();
    let head = response_head(
        fetch,
        &outgoing.parts.method,
        &outgoing.browser,
        parts,
        body.is_end_stream(),
    )?;
    if let Some(resume) = &fetch.resume {
        resume::check(resume, head.status, &head.headers)?;
    }
    let wire = encode_head(context, fetch, &head)?;
    let offset = fetch.resume.as_ref().map_or(0, |resume| resume.offset);
    let ResponseHead {
        headers,
        content,
        undo,
        class,
        ..
    } = head;
    let Content::Some(length) = content else {
        Responder::new(Arc::clone(context), wire, HEAD_CLASS, None, 0)
            .finish_without_body()
            .await?;
        return Ok(Outcome::Complete);
    };
    let coder = if fetch.resume.is_some() {
        let coder = BodyCoder::rest(context.window_key, undo, offset);
        coder.map_err(|error| Failure::new(FailureReason::Internal, error))?
    } else {
        let traits = BodyTraits {
            content_type: headers
                .get(header::CONTENT_TYPE)
                .and_then(|value| value.to_str().ok()),
            length: length.map(ByteCount::new),
            link: link_rate(context),
        };
        BodyCoder::whole(context.window_key, undo, traits)
    };
    let responder = Responder::new(Arc::clone(context), wire, class, length, offset);
    Ok(relay(responder, body, coder).await?)
}

/// The rate towards the agent, measured or else as the agent's user configured it.
fn link_rate(context: &SessionContext) -> Option<BitRate> {
    let granted = context.session.stats().send_rate;
    if granted.as_bps() > 0 {
        Some(granted)
    } else {
        context.profile.map(|profile| profile.down)
    }
}

async fn fail(context: &SessionContext, fetch: u64, failure: Failure) -> Outcome {
    let Failure { reason, detail } = failure;
    debug!(?reason, "no response");
    context.gateway.metrics.failure(reason);
    let mut wire = Vec::new();
    // 500 characters fit any envelope.
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
        class: HEAD_CLASS,
        early: EarlyData::Allowed,
        total,
    };
    match context.session.open(options, wire.into(), End::Finish).await {
        Ok(_) => Outcome::Failed,
        Err(_) => Outcome::Cancelled,
    }
}
