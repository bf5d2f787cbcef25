//! Files of a site, and the responses for them.
use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use url::Url;

use crate::{Answer, Scheme};

/// Host and path of a file.
pub(super) type Place = (String, String);

/// Time for which caches may store a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// Documents, and images that are replaced under their URL: to be validated before every use.
    Validate,
    /// Style sheets and scripts.
    Week,
    /// Images.
    Day,
}

/// A file.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) media_type: &'static str,
    pub(super) body: Bytes,
    pub(super) lifetime: Lifetime,
    /// Number of the edition in which it was introduced.
    pub(super) since: usize,
}

/// Files, in the order in which the page refers to them.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    by_place: BTreeMap<Place, File>,
    order: Vec<Place>,
}

/// Publication times of the editions.
const PUBLISHED: [&str; 2] = ["Tue, 04 Mar 2003 10:00:00 GMT", "Tue, 04 Mar 2003 16:00:00 GMT"];

impl Files {
    pub(super) fn insert(&mut self, place: Place, file: File) {
        self.order.push(place.clone());
        self.by_place.insert(place, file);
    }

    pub(super) fn urls(&self, scheme: Scheme) -> Vec<Url> {
        let url = |(host, path): &Place| Url::parse(&format!("{}://{host}{path}", scheme.as_str())).ok();
        self.order.iter().filter_map(url).collect()
    }

    /// Returns the response to a request; methods except `GET` and `HEAD` are rejected.
    pub(super) fn answer(&self, method: &Method, url: &Url) -> Option<Answer> {
        let place = (url.host_str()?.to_owned(), url.path().to_owned());
        let file = self.by_place.get(&place)?;
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut headers = HeaderMap::new();
            headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Some(Answer {
                status: StatusCode::METHOD_NOT_ALLOWED,
                headers,
                body: Bytes::new(),
            });
        }
        Some(Answer {
            status: StatusCode::OK,
            headers: file.headers(),
            body: file.body.clone(),
        })
    }
}

impl File {
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        let cache = match self.lifetime {
            Lifetime::Validate => "no-cache",
            Lifetime::Week => "public, max-age=604800",
            Lifetime::Day => "public, max-age=86400",
        };
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
        let date = PUBLISHED.get(self.since - 1).or(PUBLISHED.last());
        if let Some(date) = date {
            headers.insert(header::LAST_MODIFIED, HeaderValue::from_static(date));
        }
        // CRC-32 is sufficient to distinguish the states of a generated file: there is no adversary.
        let mut check = flate2::Crc::new();
        check.update(&self.body);
        let tag = format!("\"{:08x}-{:x}\"", check.sum(), self.body.len());
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(header::ETAG, tag);
        }
        headers
    }
}
