//! Sends the response of the store or of the origin as the answer to a fetch.
use std::{sync::Arc, time::Duration};

use http::{HeaderMap, Method, StatusCode, header};
use longhaul_delivery::{DeltaCandidates, DeltaKey};
use longhaul_driver::SendStream;
use longhaul_gateway_core::{
    admin::metrics::Outcome,
    failure::Failure,
    origin_reports::{ResponseCount, replaced},
    response_class::class_of,
};
use longhaul_http::policy::{agent_stores, only_if_cached};
use longhaul_pageload::{BodyEnd, PageTap, registry::PageHead};
use longhaul_session::{BodyPlace, Delivery, FailureReason, Fetch, FetchKind, class};
use longhaul_types::ContentHash;
use longhaul_webcache::{
    Audience, BodyReader, CacheStatus, Content, GatewayResponse, OriginRequest, OriginSize,
};
use tokio::time::timeout;
use tracing::debug;
use url::Url;

use super::{
    Unanswered,
    head::encode_head,
    held::{HeldCheck, check_held},
    respond::{Relayed, Responder, relay},
    resume,
};
use crate::session::context::SessionContext;

/// Time after which a short response no longer waits for the turn of its class. Programs give up after a minute without a
/// head; on a slow hop, all short responses at once would delay what the page needs first.
const OVERDUE: Duration = Duration::from_secs(25);

/// Sends the response to a fetch.
pub(super) async fn respond(
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
    // No origin would have sent a response that may only come from a cache. An agent asks for it beside its own answer
    // with the page, and counts that answer.
    let origin_size = if only_if_cached(&request.parts.headers) {
        OriginSize::none()
    } else {
        response_context.origin_size
    };
    let mut count = reports.response(origin_size, replaced);
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
        request,
        delta_key,
        audience: response_context.audience,
        count,
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
    request: &'a OriginRequest,
    /// For the choice of a base.
    delta_key: Option<DeltaKey>,
    audience: Audience,
    /// Count of the response's bytes.
    count: ResponseCount,
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
            request,
            ref delta_key,
            audience,
            status,
            headers,
            ..
        } = self;
        let body = match check_held(context, fetch, &request.identity, body, tap).await {
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
                audience.only_requesting()
            } else {
                audience
            };
            encoding.whole(known, audience, traits, candidates).await
        };
        let class = class_of(fetch.kind, length, headers);
        let mut responder =
            Responder::new(Arc::clone(context), wire, class, length, offset).counted_in(self.count);
        let evictions = context.page_loads.evictions();
        let relayed = relay(&mut responder, body, pipeline).await?;
        let decoded = responder.decoded();
        let is_one_piece = responder.is_one_piece();
        // The agent does not store responses of connection-bound logins.
        let is_stored =
            request.login.is_none() && agent_stores(&request.parts.method, &request.browser, status, headers);
        let stream = responder.into_stream().filter(|_| is_stored);
        if let (Relayed::Complete(hash), Some(mut stream)) = (relayed, stream) {
            let page_loads = Arc::clone(&context.page_loads);
            let delta_key = delta_key.clone();
            let partition = request.identity.partition();
            // Outlives the fetch, and ends with the session at the latest.
            tokio::spawn(async move {
                if is_delivered(&mut stream, is_one_piece).await {
                    page_loads.delivered(partition.as_ref(), hash, evictions).await;
                    if let Some(delta_key) = delta_key {
                        page_loads.context().bases.learn(&delta_key, hash, decoded).await;
                    }
                }
            });
        }
        Ok(relayed.outcome())
    }
}

/// Waits until the agent has acknowledged the stream; returns false if it never will. A short response that is not
/// acknowledged in time becomes as urgent as heads are.
async fn is_delivered(stream: &mut SendStream, is_one_piece: bool) -> bool {
    if is_one_piece && timeout(OVERDUE, stream.delivered()).await.is_err() {
        // Fails if the session has ended, which `delivered` reports.
        let _gone = stream.set_priority(class::PAGE).await;
    }
    stream.delivered().await.is_ok()
}
