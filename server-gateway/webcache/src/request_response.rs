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

#[cfg(test)]
mod tests {
    use longhaul_types::UnixTime;

    use super::*;
    use crate::{
        test_origin::{cache_request, web_cache},
        test_requests::request_parts,
    };

    const URL: &str = "http://a.test/x";

    fn request(method: Method, fields: &[(&'static str, &str)]) -> CacheRequest {
        let mut request = cache_request(1, URL, fields);
        request.parts.method = method;
        request
    }

    fn fetched(cache_status: CacheStatus, fields: &[(&'static str, &str)]) -> FetchedResponse {
        let headers = request_parts(URL, fields).headers;
        FetchedResponse {
            status: StatusCode::OK,
            origin_size: OriginSize::of_head(http::Version::HTTP_11, StatusCode::OK, &headers),
            headers,
            body: FetchedBody::None,
            cache_status,
            storage_decision: StorageDecision::No,
            requested_at: UnixTime::default(),
            received_at: UnixTime::default(),
        }
    }

    #[test]
    fn conditions_of_browsers_are_evaluated_for_reads() {
        let stored = fetched(CacheStatus::Hit, &[("etag", "\"1\"")]);
        let equal = [("if-none-match", "\"1\"")];
        for (method, expected) in [(Method::GET, true), (Method::HEAD, true), (Method::POST, false)] {
            assert_eq!(is_not_modified_for(&request(method, &equal), &stored), expected);
        }
        let other = [("if-none-match", "\"2\"")];
        assert!(!is_not_modified_for(&request(Method::GET, &other), &stored));
        assert!(!is_not_modified_for(&request(Method::GET, &[]), &stored));
    }

    #[test]
    fn the_origin_itself_evaluates_a_date() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let since = request(Method::GET, &[("if-modified-since", date)]);
        for (status, expected) in [
            (CacheStatus::Miss, false),
            (CacheStatus::Coalesced, false),
            (CacheStatus::Hit, true),
            (CacheStatus::Stale, true),
            (CacheStatus::Revalidated, true),
        ] {
            let fetched = fetched(status, &[("last-modified", date)]);
            assert_eq!(is_not_modified_for(&since, &fetched), expected, "{status:?}");
        }
    }

    #[tokio::test]
    async fn the_audience_of_a_response_follows_from_its_storage_and_its_requester() {
        let (_dir, web) = web_cache(None);
        let plain = cache_request(1, URL, &[]);
        let personal = cache_request(1, URL, &[("cookie", "user=ann")]);
        let coded = [("content-encoding", "gzip")];
        for (request, fields, audience) in [
            (&plain, &[][..], Audience::RequestingDevice),
            (&plain, &coded[..], Audience::RequestingDevice),
            (&personal, &[], Audience::RequestingUser),
            (&personal, &coded, Audience::RequestingDevice),
        ] {
            let mut fetched = fetched(CacheStatus::Miss, fields);
            for (decision, expected) in [
                (StorageDecision::No, audience),
                (StorageDecision::Body, audience),
                (StorageDecision::In(Partition::Shared), Audience::Everybody),
            ] {
                fetched.storage_decision = decision;
                let response = response_for(&web.0, request, &fetched, CacheStatus::Miss, None).await;
                assert_eq!(
                    response.unwrap().response_context.audience,
                    expected,
                    "{fields:?}"
                );
            }
        }
    }
}
