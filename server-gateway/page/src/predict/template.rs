//! What this browser sent for objects before, per destination.
use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use url::Url;

use crate::{Destination, jar::is_trustworthy};

/// Header sections learned from a browser's own requests in this session.
///
/// Only fields that every request of a kind carries alike are kept, and only those of browsers themselves: what a
/// script adds to its requests belongs to that script. At most one template per kind, so the size is bounded.
#[derive(Clone, Debug, Default)]
pub struct Templates {
    kinds: BTreeMap<Kind, Template>,
    storage_access: Option<HeaderValue>,
}

/// Requests that look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    destination: u8,
    /// Whether it carries `Origin`.
    pub(super) with_origin: bool,
    /// Whether its target is trustworthy: only then there are `Sec-Fetch-*` and client hints.
    trustworthy: bool,
}

impl Kind {
    pub(super) fn new(url: &Url, destination: Destination, with_origin: bool) -> Self {
        Self {
            destination: destination.number(),
            with_origin,
            trustworthy: is_trustworthy(url),
        }
    }
}

/// The fields of one kind in their order; those that differ by request have no value.
#[derive(Clone, Debug)]
pub(super) struct Template(pub(super) Vec<(HeaderName, Option<HeaderValue>)>);

impl Templates {
    /// None learned yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Learns from a request that the browser made for an object of a known destination. Requests with `Range` or
    /// conditions are learned from, too: these fields are left out.
    pub fn observe(&mut self, url: &Url, destination: Destination, request: &HeaderMap) {
        let kind = Kind::new(url, destination, request.contains_key(header::ORIGIN));
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
            // Browsers ask for parts in the identity coding.
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

    /// Whether nothing was learned yet.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    pub(super) fn of(&self, kind: Kind) -> Option<&Template> {
        self.kinds.get(&kind)
    }

    /// What the browser last said of its storage access in requests of other sites; none, which is what pushed requests
    /// have, as long as it has not said.
    pub(super) fn storage_access(&self) -> HeaderValue {
        let none = HeaderValue::from_static("none");
        self.storage_access.clone().unwrap_or(none)
    }
}

/// Fields that are computed for each request: only their place is learned.
const PER_REQUEST: [&str; 5] = [
    "cookie",
    "origin",
    "referer",
    "sec-fetch-site",
    "sec-fetch-storage-access",
];
/// Fields that stay the same. `Upgrade-Insecure-Requests` is one only of documents, whose template tells.
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
/// Longer values are no browser's own.
const MAX_VALUE: usize = 1024;
