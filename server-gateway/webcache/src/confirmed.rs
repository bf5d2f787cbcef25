//! Finds the stored response to which the condition of the browser's request refers.
use http::{HeaderMap, StatusCode, header};
use longhaul_cache::{Partition, StoredResponse};
use longhaul_http::{
    conditional::{etags_match, is_not_modified},
    field_list,
};

use super::{body_reader::BodyReader, request::OriginRequest, storage_rules, web_cache::WebCache};

/// A stored response that a 304 confirmed.
#[derive(Debug)]
pub struct Confirmed {
    /// Fields of the stored response, updated by the 304.
    pub headers: HeaderMap,
    /// The stored body.
    pub body: BodyReader,
}

impl WebCache {
    /// Returns the stored response that equals the browser's own, after a 304 with these fields answered the
    /// browser's request.
    pub async fn confirmed(&self, request: &OriginRequest, not_modified: &HeaderMap) -> Option<Confirmed> {
        let cache = self.0.cache.as_ref()?;
        let url = request.parts.uri.to_string();
        self.0.writes.settled(&url).await;
        let found = self.stored(cache, &request.identity, &url).await;
        let same = found
            .into_iter()
            .filter_map(|stored| {
                let headers = field_list::to_map_lossy(&stored.fields);
                is_same(&stored, &headers, request, not_modified).then_some((stored, headers))
            })
            .max_by_key(|(stored, _)| stored.received_at);
        let (stored, mut headers) = same?;
        let body = cache.body(stored.chk?).await?;
        for name in not_modified.keys() {
            if [header::CONTENT_LENGTH, header::CONTENT_TYPE, header::VARY].contains(name) {
                continue;
            }
            headers.remove(name);
            for value in not_modified.get_all(name) {
                headers.append(name, value.clone());
            }
        }
        Some(Confirmed {
            headers,
            body: BodyReader::of_stored(body),
        })
    }
}

/// Returns true if a stored response equals the browser's: its validator is the one that the browser sent and
/// the origin confirmed, and its request context fits the browser's request.
fn is_same(
    stored: &StoredResponse,
    headers: &HeaderMap,
    request: &OriginRequest,
    not_modified: &HeaderMap,
) -> bool {
    let sent = &request.parts.headers;
    // One client may be several people, whose pages may differ although they have the same date.
    let is_for_requester = stored.partition == Partition::Shared
        || stored.credentials == request.identity.context().credentials();
    let confirmed = not_modified.get(header::ETAG);
    let has_confirmed_tag = confirmed.is_none_or(|confirmed| {
        let tag = headers.get(header::ETAG);
        tag.is_some_and(|tag| etags_match(tag.as_bytes(), confirmed.as_bytes()))
    });
    stored.status == StatusCode::OK.as_u16()
        && stored.vary == storage_rules::secondary_key(&stored.partition, headers, sent)
        && storage_rules::is_shared_with(stored, sent)
        && is_for_requester
        && has_confirmed_tag
        && is_not_modified(sent, StatusCode::OK, headers)
}
