//! Templates learned from a browser's requests for objects, per destination.
use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use url::Url;

use crate::{Destination, jar::is_trustworthy};

/// Request fields learned from a browser's own requests in this session.
///
/// Templates contain only fields that all requests of a kind have in common and that browsers themselves
/// send: fields that a script adds belong to the script. There is at most one template per kind, so the size
/// is bounded.
#[derive(Clone, Debug, Default)]
pub struct Templates {
    kinds: BTreeMap<RequestKind, Template>,
    storage_access: Option<HeaderValue>,
}

/// Requests with equal fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestKind {
    destination: u8,
    /// True if the request has `Origin`.
    pub(super) with_origin: bool,
    /// True if the target is trustworthy: only then does the request have `Sec-Fetch-*` and client hints.
    trustworthy: bool,
}

impl RequestKind {
    pub(super) fn new(url: &Url, destination: Destination, with_origin: bool) -> Self {
        Self {
            destination: destination.number(),
            with_origin,
            trustworthy: is_trustworthy(url),
        }
    }
}

/// Fields of one kind, in order; fields that differ between requests have no value.
#[derive(Clone, Debug)]
pub(super) struct Template(pub(super) Vec<(HeaderName, Option<HeaderValue>)>);

impl Templates {
    /// Creates an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Learns from a browser's request for an object of a known destination. Requests with `Range` or
    /// conditions are used without these fields.
    pub fn observe(&mut self, url: &Url, destination: Destination, request: &HeaderMap) {
        let kind = RequestKind::new(url, destination, request.contains_key(header::ORIGIN));
        let mut fields: Vec<(HeaderName, Option<HeaderValue>)> = Vec::new();
        for name in request.keys() {
            let text = name.as_str();
            if PER_REQUEST.contains(&text) {
                fields.push((name.clone(), None));
            } else if CONSTANT.contains(&text) || text.starts_with("sec-ch-ua") {
                let value = request.get(name).filter(|value| value.len() <= MAX_VALUE);
                fields.extend(value.map(|value| (name.clone(), Some(value.clone()))));
            }
        }
        if request.contains_key(header::RANGE) {
            // Browsers request ranges with the identity coding.
            fields.retain(|(name, _)| name != header::ACCEPT_ENCODING);
        }
        if let Some(value) = request
            .get("sec-fetch-storage-access")
            .filter(|value| value.len() <= MAX_VALUE)
        {
            self.storage_access = Some(value.clone());
        }
        self.kinds.insert(kind, Template(fields));
    }

    /// Returns true if nothing was learned yet.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    pub(super) fn of(&self, kind: RequestKind) -> Option<&Template> {
        self.kinds.get(&kind)
    }

    /// Returns the storage access that the browser last stated in cross-site requests; before that `none`,
    /// the value in pushed requests.
    pub(super) fn storage_access(&self) -> HeaderValue {
        let none = HeaderValue::from_static("none");
        self.storage_access.clone().unwrap_or(none)
    }
}

/// Fields that are computed for each request: only their position is learned.
const PER_REQUEST: [&str; 5] = [
    "cookie",
    "origin",
    "referer",
    "sec-fetch-site",
    "sec-fetch-storage-access",
];
/// Constant fields. `Upgrade-Insecure-Requests` occurs only in the template of documents.
const CONSTANT: [&str; 13] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "dnt",
    "priority",
    "save-data",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-gpc",
    "te",
    "upgrade-insecure-requests",
    "user-agent",
];
/// Maximum length of a value: browsers' own values are shorter.
const MAX_VALUE: usize = 1024;
