//! Cache of a browser from one load to the next.
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode, header};
use url::Url;

/// Maximum length of all stored bodies; real browsers have a few hundred MiB.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// A browser's private cache (RFC 9111), for `warm` loads.
///
/// It is deliberately strict: a response is used without validation only during an explicit `max-age`; there
/// is no heuristic freshness, so that a load does not depend on the time of a page's recording. All other
/// responses with a validator are validated. It is in memory, and stores only complete `200` responses.
#[derive(Debug, Default)]
pub struct BrowserCache {
    stored: BTreeMap<Url, Stored>,
    bytes: usize,
}

/// A stored response.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) headers: HeaderMap,
    /// The body without content codings.
    pub(super) body: Bytes,
    /// Time of reception or of the last validation.
    at: SystemTime,
}

impl BrowserCache {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of stored responses.
    pub fn len(&self) -> usize {
        self.stored.len()
    }

    /// Returns true if no response is stored.
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    pub(super) fn get(&self, url: &Url) -> Option<&Stored> {
        self.stored.get(url)
    }

    /// Stores a complete response, unless it must not be stored.
    pub(super) fn put(
        &mut self,
        url: &Url,
        status: StatusCode,
        headers: &HeaderMap,
        body: &Bytes,
        now: SystemTime,
    ) {
        self.remove(url);
        let cache_control = directives(headers);
        let varies_on_all = value(headers, &header::VARY).is_some_and(|vary| vary.trim() == "*");
        let forbidden = cache_control.contains_key("no-store") || varies_on_all;
        if status != StatusCode::OK || forbidden || self.bytes.saturating_add(body.len()) > MAX_BYTES {
            return;
        }
        let stored = Stored {
            headers: headers.clone(),
            body: body.clone(),
            at: now,
        };
        if stored.conditions().is_empty() && stored.lifetime().is_zero() {
            return;
        }
        self.bytes += body.len();
        self.stored.insert(url.clone(), stored);
    }

    /// Updates a response with the fields of a `304` (RFC 9111 section 3.2) and returns it.
    pub(super) fn confirm(&mut self, url: &Url, fields: &HeaderMap, now: SystemTime) -> Option<Stored> {
        let stored = self.stored.get_mut(url)?;
        let framing = [
            header::CONTENT_LENGTH,
            header::CONTENT_ENCODING,
            header::TRANSFER_ENCODING,
        ];
        for name in fields.keys().filter(|name| !framing.contains(name)) {
            stored.headers.remove(name);
            for value in fields.get_all(name) {
                stored.headers.append(name.clone(), value.clone());
            }
        }
        stored.at = now;
        Some(stored.clone())
    }

    fn remove(&mut self, url: &Url) {
        if let Some(gone) = self.stored.remove(url) {
            self.bytes -= gone.body.len();
        }
    }
}

impl Stored {
    /// Returns true if it may be used without validation.
    pub(super) fn is_fresh(&self, now: SystemTime) -> bool {
        let resident = now.duration_since(self.at).unwrap_or_default();
        let age = value(&self.headers, &header::AGE).and_then(|age| age.trim().parse().ok());
        resident + Duration::from_secs(age.unwrap_or_default()) < self.lifetime()
    }

    /// Returns the explicit freshness lifetime: `max-age` (RFC 9111 section 5.2.2.1); zero if each use
    /// requires validation.
    fn lifetime(&self) -> Duration {
        let cache_control = directives(&self.headers);
        // Requests of one browser differ in cookies and other fields: responses that vary by more than
        // codings are requested again.
        let varies = value(&self.headers, &header::VARY)
            .is_some_and(|vary| !vary.trim().eq_ignore_ascii_case("accept-encoding"));
        if cache_control.contains_key("no-cache") || varies {
            return Duration::ZERO;
        }
        let seconds = cache_control
            .get("max-age")
            .and_then(|seconds| seconds.parse().ok());
        Duration::from_secs(seconds.unwrap_or_default())
    }

    /// Returns the fields of a conditional request (RFC 9110 section 13.1).
    pub(super) fn conditions(&self) -> HeaderMap {
        let mut conditions = HeaderMap::new();
        for (validator, condition) in [
            (header::ETAG, header::IF_NONE_MATCH),
            (header::LAST_MODIFIED, header::IF_MODIFIED_SINCE),
        ] {
            if let Some(value) = self.headers.get(validator) {
                conditions.insert(condition, value.clone());
            }
        }
        conditions
    }
}

fn value(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Returns the directives of `Cache-Control`, in lower case.
fn directives(headers: &HeaderMap) -> BTreeMap<String, String> {
    let fields = headers.get_all(header::CACHE_CONTROL).iter();
    let texts = fields.map(|field| String::from_utf8_lossy(field.as_bytes()).to_ascii_lowercase());
    let mut directives = BTreeMap::new();
    for text in texts {
        for directive in text.split(',') {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            let value = value.trim().trim_matches('"').to_owned();
            directives.insert(name.trim().to_owned(), value);
        }
    }
    directives
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn storable_responses_and_their_lifetimes_are_determined() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let url: Url = "http://a.test/".parse().unwrap();
        let body = Bytes::from_static(b"body");
        /// Fields, whether the response is stored, and its freshness lifetime in seconds.
        type Case = (&'static [(&'static str, &'static str)], bool, u64);
        let cases: [Case; 10] = [
            (&[], false, 0),
            (&[("cache-control", "max-age=60")], true, 60),
            (
                &[("cache-control", "public, Max-Age=\"60\""), ("age", "20")],
                true,
                40,
            ),
            (&[("etag", "\"1\"")], true, 0),
            (
                &[("etag", "\"1\""), ("cache-control", "no-store, max-age=60")],
                false,
                0,
            ),
            (
                &[("etag", "\"1\""), ("cache-control", "no-cache, max-age=60")],
                true,
                0,
            ),
            (
                &[
                    ("last-modified", "x"),
                    ("vary", "Cookie"),
                    ("cache-control", "max-age=60"),
                ],
                true,
                0,
            ),
            (
                &[("vary", "Accept-Encoding"), ("cache-control", "max-age=60")],
                true,
                60,
            ),
            (&[("vary", "*"), ("etag", "\"1\"")], false, 0),
            (&[("cache-control", "max-age=-1")], false, 0),
        ];
        for (fields, stored, seconds) in cases {
            let mut cache = BrowserCache::new();
            cache.put(&url, StatusCode::OK, &headers(fields), &body, now);
            assert_eq!(cache.get(&url).is_some(), stored, "{fields:?}");
            let Some(stored) = cache.get(&url) else { continue };
            let end = now + Duration::from_secs(seconds);
            assert!(!stored.is_fresh(end), "{fields:?}");
            assert_eq!(
                stored.is_fresh(end - Duration::from_secs(1)),
                seconds > 0,
                "{fields:?}"
            );
        }
    }

    #[test]
    fn a_304_renews_and_an_error_removes_a_response() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let url: Url = "http://a.test/".parse().unwrap();
        let mut cache = BrowserCache::new();
        let first = headers(&[
            ("etag", "\"1\""),
            ("last-modified", "then"),
            ("content-type", "text/css"),
        ]);
        cache.put(&url, StatusCode::OK, &first, &Bytes::from_static(b"body"), now);
        let conditions = cache.get(&url).unwrap().conditions();
        assert_eq!(conditions["if-none-match"], "\"1\"");
        assert_eq!(conditions["if-modified-since"], "then");
        let fields = headers(&[("cache-control", "max-age=5"), ("content-length", "0")]);
        let confirmed = cache.confirm(&url, &fields, now).unwrap();
        assert_eq!(confirmed.body, "body");
        assert_eq!(confirmed.headers["content-type"], "text/css");
        assert!(!confirmed.headers.contains_key("content-length"));
        assert!(cache.get(&url).unwrap().is_fresh(now));
        cache.put(&url, StatusCode::NOT_FOUND, &first, &Bytes::new(), now);
        assert!(cache.is_empty() && cache.bytes == 0);
    }
}
