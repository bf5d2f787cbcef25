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

#[cfg(test)]
mod tests {
    use longhaul_types::{ContentHash, UnixTime};

    use super::*;
    use crate::test_requests::{identity_of, request_parts};

    const URL: &str = "http://a.test/x";
    const FIELDS: [(&str, &str); 5] = [
        ("accept-language", "de"),
        ("cookie", "user=ann"),
        ("if-none-match", "\"1\""),
        ("referer", "http://a.test/"),
        ("user-agent", "one"),
    ];

    /// The usual request with another value of one field.
    fn request_with(name: &'static str, value: &str) -> OriginRequest {
        let fields = FIELDS.map(|field| if field.0 == name { (name, value) } else { field });
        let parts = request_parts(URL, &fields);
        OriginRequest {
            browser: parts.headers.clone(),
            identity: identity_of(1, &parts),
            parts,
            login: None,
        }
    }

    fn usual_request() -> OriginRequest {
        request_with("user-agent", "one")
    }

    fn fields(fields: &[(&'static str, &str)]) -> HeaderMap {
        request_parts(URL, fields).headers
    }

    fn stored(partition: Partition, status: StatusCode, headers: &HeaderMap) -> StoredResponse {
        let OriginRequest { parts, identity, .. } = usual_request();
        let times = (UnixTime::default(), UnixTime::default());
        let body = Some((ContentHash::of(b"x"), 1));
        storage_rules::to_store(partition, &identity, &parts, status, headers, times, body)
    }

    fn own() -> Partition {
        usual_request().identity.partition().unwrap()
    }

    #[test]
    fn a_304_confirms_the_response_with_its_validator() {
        let headers = fields(&[("etag", "\"1\""), ("vary", "accept-language")]);
        let of = |status| stored(own(), status, &headers);
        let confirms = |tag, request: &OriginRequest| {
            let not_modified = fields(&[("etag", tag)]);
            is_same(&of(StatusCode::OK), &headers, request, &not_modified)
        };
        assert!(confirms("\"1\"", &usual_request()));
        assert!(!confirms("\"2\"", &usual_request()), "another version");
        assert!(!confirms("\"1\"", &request_with("if-none-match", "\"2\"")));
        assert!(!confirms("\"1\"", &request_with("accept-language", "fr")));
        let empty = HeaderMap::new();
        assert!(is_same(&of(StatusCode::OK), &headers, &usual_request(), &empty));
        for status in [StatusCode::NOT_FOUND, StatusCode::PARTIAL_CONTENT] {
            assert!(!is_same(&of(status), &headers, &usual_request(), &empty));
        }
    }

    #[test]
    fn a_304_to_one_user_does_not_confirm_the_page_of_another() {
        let headers = fields(&[("etag", "\"1\"")]);
        let empty = HeaderMap::new();
        let mine = stored(own(), StatusCode::OK, &headers);
        let shared = stored(Partition::Shared, StatusCode::OK, &headers);
        for stored in [&mine, &shared] {
            assert!(is_same(stored, &headers, &usual_request(), &empty));
        }
        let bob = request_with("cookie", "user=bob");
        assert!(!is_same(&mine, &headers, &bob, &empty));
        assert!(is_same(&shared, &headers, &bob, &empty));
        let other_browser = request_with("user-agent", "two");
        assert!(is_same(&mine, &headers, &other_browser, &empty));
        assert!(!is_same(&shared, &headers, &other_browser, &empty));
        // Another sharing key under the same secondary key.
        let mut disguised = shared;
        let sent = &other_browser.parts.headers;
        disguised.vary = storage_rules::secondary_key(&Partition::Shared, &headers, sent);
        assert!(!is_same(&disguised, &headers, &other_browser, &empty));
    }
}
