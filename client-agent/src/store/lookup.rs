//! Cache lookup of a request.
use http::{HeaderMap, StatusCode};
use longhaul_cache::{Cache, Partition, StoredBody, StoredResponse};
use longhaul_http::{
    conditional::{is_not_modified, not_modified_fields},
    field_list,
    policy::{CacheKind, Freshness, Reuse},
    request_context::RequestContext,
    vary,
};
use longhaul_session::ImageLevel;
use longhaul_types::ContentHash;

use super::{Store, storage_context::pairs};
use crate::{images::suits, wall_clock::now};

/// A query of the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a> {
    /// Request context (docs/protocol/session.md section 9).
    pub(crate) context: &'a RequestContext,
    pub(crate) url: &'a str,
    pub(crate) method: &'a http::Method,
    /// The browser's fields, including `Host`.
    pub(crate) request: &'a HeaderMap,
    /// Image level of the page: transcoded images of lower levels do not answer.
    pub(crate) images: ImageLevel,
}

/// Result of a lookup.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// A fresh response: status, fields and body.
    Fresh(StatusCode, HeaderMap, Option<Box<StoredBody>>),
    /// A fresh response that the browser already has: the fields of a 304.
    NotModified(HeaderMap),
    /// No response may answer; contains the held version, if there is one.
    Held(Option<ContentHash>),
}

impl Query<'_> {
    /// Returns the stored responses that may answer the requester, by site, client and credentials.
    async fn stored(&self, cache: &Cache) -> Vec<StoredResponse> {
        let Some(partition) = Partition::local(self.context) else {
            return Vec::new();
        };
        let mut stored = cache.find(&partition, self.url).await;
        stored.retain(|response| {
            let fields = field_list::to_map(&response.fields);
            fields.is_ok_and(|fields| {
                self.context.may_reuse(response.credentials, &fields) && suits(self.images, &fields)
            })
        });
        stored
    }
}

impl Store {
    /// Looks up a response that may answer (RFC 9111 section 4), or a held version of the resource.
    pub(crate) async fn look_up(&self, query: Query<'_>) -> Lookup {
        let Some(cache) = self.cache() else {
            return Lookup::Held(None);
        };
        let stored = query.stored(cache).await;
        let mut held = stored.iter().find_map(|response| response.chk);
        for response in &stored {
            let Some((status, fields)) = matching(response, query.request) else {
                continue;
            };
            held = response.chk.or(held);
            let Some(fields) = fresh(response, status, &fields, query) else {
                break;
            };
            if is_not_modified(query.request, status, &fields) {
                return Lookup::NotModified(not_modified_fields(&fields));
            }
            let Some(chk) = response.chk else {
                return Lookup::Fresh(status, fields, None);
            };
            if let Some(body) = cache.body(chk).await {
                return Lookup::Fresh(status, fields, Some(Box::new(body)));
            }
            held = held.filter(|other| *other != chk);
        }
        match held {
            Some(chk) if cache.has(chk).await => Lookup::Held(Some(chk)),
            Some(_) | None => Lookup::Held(None),
        }
    }

    /// Freshens the stored response that a 304 selects (RFC 9111 section 4.3.4).
    pub(crate) async fn freshen(&self, query: Query<'_>, not_modified: &HeaderMap) {
        let Some(cache) = self.cache() else {
            return;
        };
        for mut response in query.stored(cache).await {
            let Some((status, fields)) = matching(&response, query.request) else {
                continue;
            };
            // The 304 answers the browser's condition, which must have named this version.
            if !is_not_modified(query.request, status, &fields) {
                continue;
            }
            let received_at = now();
            let freshness = freshness_of(&response, status, &fields, query.request);
            if let Some(fields) = freshness.after_304(not_modified, received_at) {
                response.fields = pairs(&fields);
                response.requested_at = received_at;
                response.received_at = received_at;
                cache.put(response).await;
            }
        }
    }
}

/// Returns status and fields of a stored response if the request's fields match its `Vary` key.
fn matching(response: &StoredResponse, request: &HeaderMap) -> Option<(StatusCode, HeaderMap)> {
    let fields = field_list::to_map(&response.fields).ok()?;
    let key = vary::key(&fields, request).unwrap_or_default();
    (key == response.vary).then_some((StatusCode::from_u16(response.status).ok()?, fields))
}

fn freshness_of(
    response: &StoredResponse,
    status: StatusCode,
    fields: &HeaderMap,
    request: &HeaderMap,
) -> Freshness {
    // The key shows that the stored request's varying fields equal this request's; those of a pushed response
    // were never known to the agent.
    let nominated = vary::nominated(fields, request);
    let (requested_at, received_at) = (response.requested_at, response.received_at);
    Freshness::of(
        &nominated,
        status,
        fields,
        requested_at,
        received_at,
        CacheKind::Private,
    )
}

fn fresh(
    response: &StoredResponse,
    status: StatusCode,
    fields: &HeaderMap,
    query: Query<'_>,
) -> Option<HeaderMap> {
    match freshness_of(response, status, fields, query.request).reuse(query.method, query.request, now()) {
        Reuse::Fresh(fields) => Some(fields),
        Reuse::Stale(_) | Reuse::Forward => None,
    }
}
