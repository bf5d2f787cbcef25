//! The known objects of a page, and their state changes.
use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use longhaul_replay::page::{
    CookieJar, Destination, Reference, Viewport, decode, discover_css, discover_html,
};
use tokio::time::Instant;
use url::Url;

use super::{
    connection::Closed,
    dial::proxy_error,
    document::DocumentReader,
    error::{Failure, ModelError},
    framing::Head,
    object::{Object, Receiving, bytes, charset, is_html, joined, location},
    options::Limits,
    request::Request,
    store::BrowserCache,
};
use crate::{ObjectLoad, Outcome};

/// Maximum number of consecutive redirects, half of the Fetch standard's 20: a page that needs more is
/// broken.
const MAX_REDIRECTS: usize = 10;
/// Maximum depth of nested frames.
const MAX_FRAME_DEPTH: usize = 3;
/// Maximum number of repetitions of a request whose connection was closed before any byte of the response: a
/// server may close an idle connection at the moment at which it is used.
const MAX_UNANSWERED: u32 = 3;
/// Maximum number of repetitions of a request whose response was truncated.
const MAX_BROKEN_OFF: u32 = 1;

/// A page that is being loaded.
pub(super) struct Page<'a> {
    /// The page's own URL, after redirects.
    url: Url,
    started: Instant,
    limits: Limits,
    proxied: bool,
    objects: Vec<Object>,
    seen: BTreeSet<Url>,
    cookies: CookieJar,
    cache: Option<&'a mut BrowserCache>,
    /// Objects to be requested.
    wanted: Vec<usize>,
    /// Objects found in the cache.
    stored: VecDeque<usize>,
    error: Option<ModelError>,
}

impl<'a> Page<'a> {
    pub(super) fn new(
        url: &Url,
        limits: Limits,
        proxied: bool,
        cache: Option<&'a mut BrowserCache>,
        started: Instant,
    ) -> Self {
        let mut url = url.clone();
        url.set_fragment(None);
        let mut page = Self {
            url: url.clone(),
            started,
            limits,
            proxied,
            objects: Vec::new(),
            seen: BTreeSet::new(),
            cookies: CookieJar::default(),
            cache,
            wanted: Vec::new(),
            stored: VecDeque::new(),
            error: None,
        };
        let document = Reference::new(url, Destination::Document);
        page.add(document, None, 0, Vec::new(), started);
        page
    }

    /// Completes the objects in the cache, and returns the objects to request.
    pub(super) fn take_wanted(&mut self) -> Vec<usize> {
        while let Some(object) = self.stored.pop_front() {
            self.use_stored(object);
        }
        std::mem::take(&mut self.wanted)
    }

    /// Returns the error because of which the page cannot be loaded.
    pub(super) fn error(&mut self) -> Option<ModelError> {
        self.error.take()
    }

    pub(super) fn url_of(&self, object: usize) -> &Url {
        &self.objects[object].load.url
    }

    /// Returns the request for an object, in the current state.
    pub(super) fn request(&self, object: usize) -> Request<'_> {
        let object = &self.objects[object];
        let url = &object.load.url;
        let stored = self.cache.as_ref().and_then(|cache| cache.get(url));
        Request {
            url,
            destination: object.destination,
            referrer: object.referrer.as_ref(),
            cookie: self.cookies.field(url, &self.url),
            conditions: stored.map(|stored| stored.conditions()).unwrap_or_default(),
        }
    }

    /// Records a sent request.
    pub(super) fn sent(&mut self, object: usize, connection: u64, at: Instant) {
        let since = self.since(at);
        let object = &mut self.objects[object];
        object.on_the_way = true;
        object.load.connection = Some(connection);
        object.load.sent.get_or_insert(since);
    }

    /// Records the start of a response.
    pub(super) fn head(&mut self, object: usize, head: Head, first_byte: Instant) {
        let since = self.since(first_byte);
        let object = &mut self.objects[object];
        object.answered = true;
        object.load.first_byte = Some(since);
        object.load.status = Some(head.status.as_u16());
        self.cookies.store(&object.load.url, &head.headers);
        let frame = matches!(object.destination, Destination::Document | Destination::Frame);
        let reads =
            frame && head.status.is_success() && is_html(&head.headers) && object.depth <= MAX_FRAME_DEPTH;
        let document = reads.then(|| {
            let encoding = joined(&head.headers, &header::CONTENT_ENCODING);
            DocumentReader::new(&object.load.url, &encoding, charset(&head.headers).as_deref())
        });
        object.receiving = Some(Receiving {
            head,
            body: Vec::new(),
            document,
        });
    }

    /// Adds bytes of the body. `false` if they exceed the limit: the object has failed.
    pub(super) fn data(&mut self, object: usize, data: &[u8], at: Instant) -> bool {
        let limit = self.limits.body;
        let Some(receiving) = &mut self.objects[object].receiving else {
            return true;
        };
        if receiving.body.len() + data.len() > limit.as_usize() {
            self.fail(object, Failure::TooLarge(limit.bytes()), at);
            return false;
        }
        receiving.body.extend_from_slice(data);
        let found = receiving.document.as_mut().map(|document| document.write(data));
        self.discovered(object, found.unwrap_or_default(), at);
        true
    }

    /// Completes a response.
    pub(super) fn end(&mut self, object: usize, at: Instant) {
        let Some(received) = self.objects[object].receiving.take() else {
            return;
        };
        let Receiving { head, body, document } = received;
        let proxy_error = proxy_error(&head.headers).filter(|_| self.proxied && head.status.as_u16() >= 400);
        if let Some(error) = proxy_error {
            self.objects[object].answered = false;
            return self.fail(object, Failure::of_proxy(head.status, error), at);
        }
        self.objects[object].load.coded_bytes = Some(bytes(body.len()));
        if head.status == StatusCode::NOT_MODIFIED
            && let Some(cache) = &mut self.cache
            && let Some(stored) =
                cache.confirm(&self.objects[object].load.url, &head.headers, SystemTime::now())
        {
            return self.delivered(object, &stored.headers, &stored.body, None, at);
        }
        let encoding = joined(&head.headers, &header::CONTENT_ENCODING);
        let body = match decode(&encoding, &body) {
            Ok(body) => Bytes::from(body),
            Err(error) => return self.fail(object, Failure::Coding(error.to_string()), at),
        };
        if let Some(location) = location(&head) {
            return self.redirected(object, &location, &body, at);
        }
        if head.status.as_u16() >= 400 {
            return self.finished(object, Outcome::Missing, &body, at);
        }
        if let Some(cache) = &mut self.cache {
            let url = &self.objects[object].load.url;
            cache.put(url, head.status, &head.headers, &body, SystemTime::now());
        }
        self.delivered(object, &head.headers, &body, document, at);
    }

    /// Handles the loss of a connection that had not completed this object's response. `true` if the request
    /// is to be sent again.
    pub(super) fn lost(&mut self, object: usize, why: &Closed) -> bool {
        let object = &mut self.objects[object];
        let (losses, limit) = if object.receiving.take().is_some() || matches!(why, Closed::Framing(_)) {
            (&mut object.broken_off, MAX_BROKEN_OFF)
        } else {
            (&mut object.unanswered, MAX_UNANSWERED)
        };
        *losses += 1;
        *losses <= limit && !matches!(why, Closed::Silent(_))
    }

    /// Records that a request is queued again; returns true if it had been sent.
    pub(super) fn queued_again(&mut self, object: usize) -> bool {
        std::mem::take(&mut self.objects[object].on_the_way)
    }

    /// Records the failure of an object.
    pub(super) fn fail(&mut self, object: usize, failure: Failure, at: Instant) {
        self.objects[object].receiving = None;
        let outcome = if failure.is_missing() {
            Outcome::Missing
        } else {
            Outcome::Failed(failure.to_string())
        };
        let Object {
            destination,
            answered,
            ..
        } = self.objects[object];
        let is_page = destination == Destination::Document;
        if is_page && (!answered || matches!(failure, Failure::Redirects(_) | Failure::RedirectTarget)) {
            self.error = Some(failure.of_page());
        }
        self.objects[object].load.outcome = outcome;
        let since = self.since(at);
        self.objects[object].load.ended = Some(since);
    }

    /// Records the end of the load's time limit.
    pub(super) fn time_out(&mut self, at: Instant) {
        for object in 0..self.objects.len() {
            if self.objects[object].load.ended.is_none() {
                self.fail(object, Failure::Time(self.limits.time), at);
            }
        }
    }

    /// Returns the objects in the order of discovery, and the time of the last one's end.
    pub(super) fn into_objects(self) -> (Vec<ObjectLoad>, Duration) {
        let time = self.objects.iter().filter_map(|object| object.load.ended).max();
        let objects = self.objects.into_iter().map(|object| object.load);
        (objects.collect(), time.unwrap_or_default())
    }

    fn since(&self, at: Instant) -> Duration {
        at.duration_since(self.started)
    }

    fn add(
        &mut self,
        reference: Reference,
        referrer: Option<Url>,
        depth: usize,
        chain: Vec<Url>,
        at: Instant,
    ) {
        let Reference { url, destination, .. } = reference;
        // A redirect to an earlier URL of the chain is requested again: the response may have set a cookie.
        let again = chain.contains(&url);
        if self.objects.len() >= self.limits.objects.max(1) || !(self.seen.insert(url.clone()) || again) {
            return;
        }
        let stored = self.cache.as_ref().and_then(|cache| cache.get(&url));
        if stored.is_some_and(|stored| stored.is_fresh(SystemTime::now())) {
            self.stored.push_back(self.objects.len());
        } else {
            self.wanted.push(self.objects.len());
        }
        if destination == Destination::Document {
            self.url = url.clone();
        }
        let discovered = self.since(at);
        let mut object = Object::new(url, destination, discovered);
        object.referrer = referrer;
        object.depth = depth;
        object.chain = chain;
        self.objects.push(object);
    }

    fn discovered(&mut self, object: usize, found: Vec<Reference>, at: Instant) {
        for reference in found {
            let Object { load, depth, .. } = &self.objects[object];
            let depth = depth + usize::from(reference.destination == Destination::Frame);
            let referrer = Some(load.url.clone());
            if depth <= MAX_FRAME_DEPTH {
                self.add(reference, referrer, depth, Vec::new(), at);
            }
        }
    }

    fn redirected(&mut self, object: usize, location: &str, body: &Bytes, at: Instant) {
        let Object {
            load,
            destination,
            referrer,
            depth,
            chain,
            ..
        } = &self.objects[object];
        let mut chain = chain.clone();
        chain.push(load.url.clone());
        if chain.len() > MAX_REDIRECTS {
            return self.fail(object, Failure::Redirects(MAX_REDIRECTS), at);
        }
        let target = load.url.join(location).ok();
        let target = target.filter(|target| matches!(target.scheme(), "http" | "https") && target.has_host());
        let Some(mut url) = target else {
            return self.fail(object, Failure::RedirectTarget, at);
        };
        url.set_fragment(None);
        let (destination, referrer, depth) = (*destination, referrer.clone(), *depth);
        self.finished(object, Outcome::Delivered, body, at);
        self.add(Reference::new(url, destination), referrer, depth, chain, at);
    }

    fn use_stored(&mut self, object: usize) {
        let load = &mut self.objects[object].load;
        let stored = self
            .cache
            .as_ref()
            .and_then(|cache| cache.get(&load.url))
            .cloned();
        let Some(stored) = stored else {
            return self.wanted.push(object);
        };
        load.status = Some(StatusCode::OK.as_u16());
        load.coded_bytes = Some(0);
        let at = self.started + load.discovered;
        self.objects[object].answered = true;
        self.delivered(object, &stored.headers, &stored.body, None, at);
    }

    /// Parses a delivered object for the objects that it loads.
    fn delivered(
        &mut self,
        object: usize,
        headers: &HeaderMap,
        body: &Bytes,
        document: Option<DocumentReader>,
        at: Instant,
    ) {
        let Object {
            load,
            destination,
            depth,
            ..
        } = &self.objects[object];
        let found = match (destination, document) {
            (_, Some(document)) => document.finish(body),
            (Destination::Document | Destination::Frame, None)
                if is_html(headers) && *depth <= MAX_FRAME_DEPTH =>
            {
                discover_html(body, &load.url, charset(headers).as_deref(), Viewport::default())
            }
            (Destination::Style, None) => {
                discover_css(body, &load.url, charset(headers).as_deref(), Viewport::default())
            }
            _ => Vec::new(),
        };
        self.finished(object, Outcome::Delivered, body, at);
        self.discovered(object, found, at);
    }

    fn finished(&mut self, object: usize, outcome: Outcome, body: &Bytes, at: Instant) {
        let ended = self.since(at);
        let load = &mut self.objects[object].load;
        load.outcome = outcome;
        load.body_bytes = bytes(body.len());
        load.body_hash = Some(blake3::hash(body).into());
        load.ended = Some(ended);
    }
}
