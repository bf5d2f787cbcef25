//! Fetches the objects of a page into the cache, ahead of the browser's requests.
//!
//! What may be fetched, and with which fields, is decided as in the page loads of agents: by the document that makes
//! the request (its policies and its site), by the cookies of the page's own request, and by the browser's earlier
//! requests. A client without a name has no private partition, so nothing is fetched for it with credentials.
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_gateway_core::{
    page_parsers::{DocumentParser, PageParsers},
    predicted_request::{is_personal, predicted_request},
    wall_clock::now,
};
use longhaul_page::{
    Certainty, Destination, Discovery, Initiator, MediaType, Reference, ReferrerPolicy, RequestChain,
    Viewport, discover_css, discover_link_header, jar::Jar, predict::Predictor,
};
use longhaul_webcache::{CacheRequest, CacheStatus, Content, GatewayResponse};
use parking_lot::Mutex;
use tokio::{sync::mpsc, task::JoinSet};
use tracing::debug;
use url::Url;

use super::{Clientless, client::ClientlessClient, prefetched::PrefetchedObject};

#[cfg(test)]
mod tests;

/// Objects of one page that are fetched at the same time.
const MAX_FETCHES: usize = 16;
/// Objects of one page.
const MAX_OBJECTS: usize = 160;
/// Pages of one browser whose objects are fetched at the same time; those of further ones are left to the browser.
const MAX_PAGES: usize = 4;
/// The same for all browsers of a client.
const MAX_PAGES_OF_CLIENT: usize = 16;
/// Groups of references that wait for the task; further ones are left to the browser.
const MAX_FOUND: usize = 64;
/// Maximum length of an object. What is longer is hardly needed to display a page.
const MAX_OBJECT: usize = 2 * 1024 * 1024;

/// Sees a body on its way to the client.
pub(super) struct BodyTap {
    /// `Some` for a page.
    pub(super) page: Option<PageTap>,
    pub(super) object: PrefetchedObject,
    /// Bytes of the body so far.
    pub(super) seen: u64,
}

/// A browser's request for a page.
pub(super) struct Page {
    pub(super) shared: Arc<Clientless>,
    pub(super) client: ClientlessClient,
    pub(super) url: Url,
    /// Fields of the browser's request.
    pub(super) browser: HeaderMap,
    /// `Via` as origins receive it.
    pub(super) via: Option<HeaderValue>,
    /// True if the page's private responses have a partition.
    pub(super) in_partition: bool,
}

/// Parses a page's body.
pub(super) struct PageTap {
    parser: DocumentParser,
    found: mpsc::Sender<Vec<Reference>>,
}

/// A page whose objects are fetched.
struct PageFetch {
    page: Page,
    document: Initiator,
    /// Of the page and its style sheets.
    parsers: PageParsers,
    predictor: Predictor,
    jar: Mutex<Jar>,
}

/// An object, and the way by which the browser gets to it.
type Found = (Reference, RequestChain);

impl Page {
    /// Starts to fetch the objects of a page, whose response has these fields; `None` if the browser has too many
    /// pages.
    pub(super) fn load(self, response: &HeaderMap, charset: Option<&str>) -> Option<PageTap> {
        let place = PagePlace::take(&self.client)?;
        let document = Initiator::page(&self.url, response);
        let mut jar = {
            let mut observed = self.client.browser.observed.lock();
            let jar = Jar::new(&self.url, &self.browser, &observed.cookie_paths);
            observed.cookie_paths.observe_response(&self.url, response);
            jar
        };
        jar.store(&self.url, response, None, now());
        let discovery = Discovery::of(document.clone(), charset, Viewport::default());
        let parsers = self.shared.gateway.parser_pool.page(self.client.share);
        let links = discover_link_header(response, &self.url, Viewport::default());
        let (found, receiver) = mpsc::channel(MAX_FOUND);
        let fetch = PageFetch {
            predictor: Predictor::new(&self.browser),
            document,
            parsers: parsers.clone(),
            jar: Mutex::new(jar),
            page: self,
        };
        tokio::spawn(async move {
            Arc::new(fetch).run(links, receiver).await;
            drop(place);
        });
        Some(PageTap {
            parser: DocumentParser::new(parsers, discovery, None),
            found,
        })
    }
}

/// The place of a page among those of its browser and of its client.
struct PagePlace(ClientlessClient);

impl PagePlace {
    fn take(client: &ClientlessClient) -> Option<Self> {
        let (mut of_browser, mut of_client) = (client.browser.pages.lock(), client.pages.lock());
        if *of_browser >= MAX_PAGES || *of_client >= MAX_PAGES_OF_CLIENT {
            return None;
        }
        *of_browser += 1;
        *of_client += 1;
        Some(Self(client.clone()))
    }
}

impl Drop for PagePlace {
    fn drop(&mut self) {
        *self.0.browser.pages.lock() -= 1;
        *self.0.pages.lock() -= 1;
    }
}

impl BodyTap {
    /// Called with bytes of the body, before they are sent.
    pub(super) async fn chunk(&mut self, bytes: &Bytes) {
        self.seen += bytes.len() as u64;
        if let Some(page) = &mut self.page {
            page.chunk(bytes).await;
        }
    }

    /// Called at the end of a complete body.
    pub(super) async fn end(self) {
        if let Some(page) = self.page {
            page.end().await;
        }
        self.object.give_back(self.seen);
    }
}

impl PageTap {
    /// Called with bytes of the page, before they are sent.
    async fn chunk(&mut self, bytes: &Bytes) {
        let found = self.parser.write(bytes).await;
        self.pass(found.references);
    }

    /// Called at the end of a complete page.
    async fn end(mut self) {
        let found = self.parser.end().await;
        self.pass(found);
    }

    fn pass(&self, found: Vec<Reference>) {
        if !found.is_empty() {
            // If the task is behind, the browser fetches these itself.
            let _behind = self.found.try_send(found);
        }
    }
}

impl PageFetch {
    async fn run(self: Arc<Self>, links: Vec<Reference>, mut receiver: mpsc::Receiver<Vec<Reference>>) {
        let mut tasks: JoinSet<Vec<Found>> = JoinSet::new();
        let mut waiting: VecDeque<Found> = VecDeque::new();
        let mut seen = BTreeSet::from([self.page.url.clone()]);
        let mut is_open = true;
        let chain = RequestChain::document(self.document.clone());
        let with_chain = |found: Vec<Reference>| found.into_iter().map(|one| (one, chain.clone())).collect();
        let mut arrived: Vec<Found> = with_chain(links);
        loop {
            for (reference, chain) in arrived.drain(..) {
                if let Some(reference) = self.admit(reference, &chain)
                    && seen.len() <= MAX_OBJECTS
                    && seen.insert(reference.url.clone())
                {
                    waiting.push_back((reference, chain));
                }
            }
            while tasks.len() < MAX_FETCHES
                && let Some((reference, chain)) = waiting.pop_front()
            {
                tasks.spawn(Arc::clone(&self).fetch(reference, chain));
            }
            tokio::select! {
                found = receiver.recv(), if is_open => match found {
                    Some(found) => arrived = with_chain(found),
                    None => is_open = false,
                },
                Some(done) = tasks.join_next(), if !tasks.is_empty() => arrived = done.unwrap_or_default(),
                else => return,
            }
        }
    }

    /// Returns the reference as the document fetches it, if it is worth fetching.
    fn admit(&self, reference: Reference, chain: &RequestChain) -> Option<Reference> {
        let reference = chain.initiator.admit(reference, 0)?;
        let is_object = !matches!(reference.destination, Destination::Document | Destination::Frame);
        // https is a tunnel of the browser's own.
        let is_http = reference.url.scheme() == "http";
        (is_object && is_http && reference.certainty != Certainty::Unlikely).then_some(reference)
    }

    /// Fetches an object into the cache; returns what a style sheet refers to.
    async fn fetch(self: Arc<Self>, reference: Reference, chain: RequestChain) -> Vec<Found> {
        let Some(request) = self.predict(&reference, &chain) else {
            return Vec::new();
        };
        let (page, client) = (&self.page, &self.page.client);
        let gateway = &page.shared.gateway;
        let Some(_slot) = gateway.device_streams(client.share).acquire().await else {
            return Vec::new();
        };
        let object = PrefetchedObject::new(&page.shared, client, reference.url.as_str());
        if !object.is_permitted() {
            return Vec::new();
        }
        let response = match gateway.fetch(client, request).await {
            Ok(response) => response,
            Err(failure) => {
                debug!(reason = ?failure.reason, "an object of a page has no response");
                return Vec::new();
            }
        };
        let cookies = &response.headers;
        self.jar
            .lock()
            .store(&reference.url, cookies, Some(&chain), now());
        page.shared.counters.prefetched();
        // What the cache stores, and what somebody else fetches, costs nothing more.
        let is_from_origin = response.response_context.cache_status == CacheStatus::Miss;
        if is_from_origin {
            object.begin();
        }
        let object = Some(object).filter(|_| is_from_origin);
        self.read((reference, object), chain, response).await
    }

    /// Predicts the browser's request; `None` if it may not be sent, or if its response would not be stored.
    fn predict(&self, reference: &Reference, chain: &RequestChain) -> Option<CacheRequest> {
        let (page, client) = (&self.page, &self.page.client);
        let prediction = {
            let observed = client.browser.observed.lock();
            let jar = self.jar.lock();
            self.predictor
                .predict(reference, chain, &observed.templates, &jar, now())
        };
        if prediction.is_withheld && is_personal(reference.destination) {
            return None;
        }
        let has_credentials = [header::COOKIE, header::AUTHORIZATION]
            .iter()
            .any(|name| prediction.fields.contains_key(name));
        if has_credentials && (client.is_unnamed || !page.in_partition) {
            return None;
        }
        let mut request = predicted_request(
            &page.shared.gateway.credentials,
            client.who(),
            &reference.url,
            prediction.fields,
            page.via.as_ref(),
        )?;
        request.identity = client.restrict(request.identity);
        if !page.in_partition {
            request.identity = request.identity.without_partition();
        }
        Some(request)
    }

    /// Reads a body to its end, which stores it.
    async fn read(
        &self,
        (reference, object): (Reference, Option<PrefetchedObject>),
        chain: RequestChain,
        response: GatewayResponse,
    ) -> Vec<Found> {
        let GatewayResponse {
            status,
            headers,
            content: Content::Body(mut body),
            ..
        } = response
        else {
            return Vec::new();
        };
        let media = MediaType::of_response(&headers);
        let is_sheet =
            reference.destination == Destination::Style && media.is_css() && status == StatusCode::OK;
        let (mut read, mut sheet) = (0, Vec::new());
        while let Some(chunk) = body.next().await {
            let Ok(chunk) = chunk else { return Vec::new() };
            read += chunk.len();
            let is_counted = object.as_ref().is_none_or(|object| object.count(chunk.len()));
            if read > MAX_OBJECT || !is_counted {
                return Vec::new();
            }
            if is_sheet {
                sheet.extend_from_slice(&chunk);
            }
        }
        if !is_sheet {
            return Vec::new();
        }
        let policy = ReferrerPolicy::of_response(&headers);
        let (url, charset) = (reference.url.clone(), media.charset);
        let search = move || discover_css(&sheet, &url, charset.as_deref(), Viewport::default());
        let found = self.parsers.run(search).await.unwrap_or_default();
        let chain = RequestChain {
            sheet: Some((reference.url, policy)),
            ..RequestChain::document(chain.initiator)
        };
        found.into_iter().map(|one| (one, chain.clone())).collect()
    }
}
