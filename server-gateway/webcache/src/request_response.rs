//! The response to one request, from a stored or fetched response that may serve several requests.
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use longhaul_cache::Partition;
use longhaul_http::{
    conditional::{is_not_modified, not_modified_fields},
    hop_by_hop,
};

use super::{
    body_reader::BodyReader,
    coalesced_fetch::{CoalescedReader, FetchedBody, FetchedResponse},
    origin_fetch::now,
    origin_size::OriginSize,
    request::CacheRequest,
    response::{Audience, CacheStatus, Content, GatewayResponse, ResponseContext},
    selection_rules,
    shared_state::SharedState,
    storage_rules::StorageDecision,
};

/// Builds the response to one request; `None` if its body is no longer in the cache.
pub(crate) async fn response_for(
    shared: &SharedState,
    request: &CacheRequest,
    fetched: &FetchedResponse,
    cache_status: CacheStatus,
    reader: impl Into<Option<CoalescedReader>>,
) -> Option<GatewayResponse> {
    let response_context = ResponseContext {
        request: request.parts.headers.clone(),
        identity: request.identity.clone(),
        cache_status,
        audience: match fetched.storage_decision {
            StorageDecision::In(Partition::Shared) => Audience::Everybody,
            StorageDecision::In(Partition::Private(_))
            | StorageDecision::Uncertain(_)
            | StorageDecision::Body
            | StorageDecision::No => {
                let is_personal = request.identity.context().credentials().is_some();
                if is_personal && !fetched.origin_size.is_coded() {
                    Audience::RequestingUser
                } else {
                    Audience::RequestingDevice
                }
            }
        },
        origin_size: fetched.origin_size.clone(),
    };
    let mut headers = fetched.headers.clone();
    if is_not_modified_for(request, fetched) {
        return Some(GatewayResponse {
            status: StatusCode::NOT_MODIFIED,
            headers: not_modified_fields(&headers),
            content: Content::None,
            response_context,
        });
    }
    let content = match fetched.body {
        FetchedBody::None => Content::None,
        FetchedBody::Spooled => Content::Body(BodyReader::of_coalesced(reader.into()?)),
        FetchedBody::Stored(chk) => {
            let body = shared.cache.as_ref()?.body(chk).await?;
            // The length of a stored body is known even if the origin did not announce it.
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.length()));
            if request.parts.method == Method::HEAD {
                Content::None
            } else {
                Content::Body(BodyReader::of_stored(body))
            }
        }
    };
    Some(GatewayResponse {
        status: fetched.status,
        headers,
        content,
        response_context,
    })
}

/// Returns true if the response to another request also answers this one.
pub(crate) fn is_for(request: &CacheRequest, fetched: &FetchedResponse) -> bool {
    selection_rules::answers_too(
        &request.identity,
        &request.parts,
        &fetched.storage_decision,
        fetched.status,
        &fetched.headers,
        (fetched.requested_at, fetched.received_at),
        now(),
    )
}

/// Returns true if the browser already has the response. For stored responses the cache evaluates the
/// browser's condition (RFC 9111 section 4.3.2). For a fetched response the origin has evaluated it, unless
/// the gateway sent the condition of a stored version instead: then only a matching entity tag is sufficient.
fn is_not_modified_for(request: &CacheRequest, fetched: &FetchedResponse) -> bool {
    let readable = request.parts.method == Method::GET || request.parts.method == Method::HEAD;
    let judged = match fetched.cache_status {
        CacheStatus::Miss | CacheStatus::Coalesced => {
            request.parts.headers.contains_key(header::IF_NONE_MATCH)
        }
        CacheStatus::Hit | CacheStatus::Stale | CacheStatus::Revalidated => true,
    };
    readable && judged && is_not_modified(&request.parts.headers, fetched.status, &fetched.headers)
}

/// 504 for `only-if-cached` without a stored response (RFC 9111 section 5.2.1.7).
pub(crate) fn gateway_timeout(request: &CacheRequest) -> GatewayResponse {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    hop_by_hop::append_via(&mut headers, http::Version::HTTP_11);
    GatewayResponse {
        status: StatusCode::GATEWAY_TIMEOUT,
        headers,
        content: Content::None,
        response_context: ResponseContext {
            request: request.parts.headers.clone(),
            identity: request.identity.clone(),
            cache_status: CacheStatus::Hit,
            audience: Audience::RequestingDevice,
            origin_size: OriginSize::none(),
        },
    }
}
