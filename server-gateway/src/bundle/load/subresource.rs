//! The fetch of an entry: prediction of the browser's request, and use of the response.
use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use longhaul_cache::Partition;
use longhaul_delivery::DeltaKey;
use longhaul_http::{
    coding,
    policy::{self, Reload},
    request_context::identity_key,
    site::SchemefulSite,
    vary,
};
use longhaul_page::{
    Cause, Destination, Discovery, MediaType, Reference, ReferrerPolicy, discover_css, discover_link_header,
};
use longhaul_session::{Scope, Withdrawal};
use longhaul_types::{ByteCount, ContentHash};
use longhaul_webcache::{
    Asker, Audience, BodyReader, CacheRequest as Lookup, Content, GatewayResponse, Purpose,
};
use tokio::time::timeout;
use tracing::debug;
use url::Url;

use super::{PageLoad, navigation};
use crate::bundle::{
    context::{lock, now},
    plan::{Answer, AnswerBody, Placement},
    push::{ArrivingDocument, PushBody},
};

/// Maximum wait for a body's end before its head is written: the CHK of a complete body shows whether the
/// body must be sent at all. A body of a few packets arrives with its head.
const BRIEF: Duration = Duration::from_millis(25);
/// Bounds of the wait if the agent holds a version of the URL.
const MIN_HELD: Duration = Duration::from_millis(100);
const MAX_HELD: Duration = Duration::from_secs(5);
/// Maximum length of a body whose end is awaited.
const MAX_AWAITED: ByteCount = ByteCount::new(4 * 1024 * 1024);
/// Assumed length of a body of unknown length.
const USUAL: u64 = 64 * 1024;
/// Maximum wait for the end of a repeated fetch: its CHK is compared before the body is sent again.
const MAX_AGAIN: Duration = Duration::from_secs(30);
/// Limits of size and time for reading a style sheet completely before it is sent.
const MAX_SEARCHED: usize = 2 * 1024 * 1024;
const MAX_SEARCH: Duration = Duration::from_secs(5);

/// Fetches an entry up to the point where its body waits for its push.
pub(super) async fn fetch(load: &PageLoad, entry: u32) {
    let Some(lookup) = lookup(load, entry) else {
        return withdraw(load, entry, Withdrawal::Failed);
    };
    match load.context.fetch(lookup).await {
        Ok(stored) => answered(load, entry, stored).await,
        Err(failure) => {
            debug!(entry, reason = ?failure.reason, "an entry has no response");
            withdraw(load, entry, Withdrawal::Failed);
        }
    }
}

/// Fetches again the body of an entry that the agent wants and the cache no longer has. A body that differs
/// from the one in the manifest is not sent.
pub(super) async fn again(load: &PageLoad, entry: u32) {
    let hash = load.plan().get(entry).and_then(|entry| entry.hash);
    if let (Some(hash), Some(lookup)) = (hash, lookup(load, entry))
        && let Ok(stored) = load.context.fetch(lookup).await
        && let Content::Body(reader) = stored.content
        && reader.chk_when_complete(MAX_AGAIN, MAX_AWAITED).await == Some(hash)
    {
        return load.push_again(entry, reader);
    }
    withdraw(load, entry, Withdrawal::Failed);
}

fn withdraw(load: &PageLoad, entry: u32, reason: Withdrawal) {
    load.plan().withdraw(entry, reason);
    load.wake();
}

/// Predicts the browser's request; `None` if the browser's cookies for a document are unknown.
fn lookup(load: &PageLoad, entry: u32) -> Option<Lookup> {
    let reference = load.plan().get(entry)?.reference.clone();
    let cause = load.cause(entry)?;
    let prediction = if reference.destination == Destination::Document {
        navigation::predict(load, &reference.url, &cause)
    } else {
        let (templates, jar) = (load.context.templates(), lock(&load.jar));
        load.predictor
            .predict(&reference, &cause, &templates, &jar, now())
    };
    if prediction.is_withheld && is_personal(reference.destination) {
        return None;
    }
    load.plan()
        .predicted(entry, &prediction.fields, prediction.is_withheld);
    let browser = prediction.fields;
    let mut headers = browser.clone();
    headers.remove(header::TE);
    coding::set_accept_encoding(&mut headers);
    if let Some(via) = &load.via {
        headers.insert(header::VIA, via.clone());
    }
    let request = Request::builder().method(Method::GET).uri(reference.url.as_str());
    let (mut parts, ()) = request.body(()).ok()?.into_parts();
    parts.headers = headers;
    let context = &load.context;
    let who = (context.device, load.asker.context().client());
    let secret = &context.gateway.credentials;
    let mut asker = Asker::of(who, secret, &Method::GET, reference.url.as_str(), &browser);
    if load.asker.partition().is_none() {
        // The page is in a frame of another site, or its embedder is unknown.
        asker = asker.without_partition();
    }
    Some(Lookup {
        asker,
        parts,
        browser,
        reload: Reload::None,
        purpose: Purpose::Predicted,
    })
}

/// Returns true if the response most likely differs for logged-in users, so that a request without cookies is
/// useless.
const fn is_personal(destination: Destination) -> bool {
    destination.is_document() || matches!(destination, Destination::Other)
}

async fn answered(load: &PageLoad, entry: u32, stored: GatewayResponse) {
    let Some(reference) = load.plan().get(entry).map(|entry| entry.reference.clone()) else {
        return;
    };
    let is_withheld = load.plan().get(entry).is_some_and(|entry| entry.is_withheld);
    if !is_withheld {
        note(load, entry, &reference, &stored);
    }
    if let Some(target) = redirection(&reference.url, stored.status, &stored.headers) {
        let target = Reference {
            url: target,
            ..reference.clone()
        };
        load.redirected(target, entry, ReferrerPolicy::of_response(&stored.headers));
        load.flush().await;
    }
    let request = &stored.facts.request;
    let scope = policy::scope(&Method::GET, request, stored.status, &stored.headers, now());
    let scope = match scope {
        Some(policy::Scope::Reusable) => Scope::Reusable,
        Some(policy::Scope::ThisPage) if !is_withheld => Scope::ThisPage,
        // A response for this page alone, fetched without the browser's cookies, is not what the browser
        // would receive.
        Some(policy::Scope::ThisPage) | None => return withdraw(load, entry, Withdrawal::Private),
    };
    let partition = partition_of(load, entry, &stored);
    if let Some(partition) = &partition {
        lock(&load.partitions).insert(entry, partition.clone());
    }
    let vary = vary::key(&stored.headers, request);
    let cookie = match scope {
        Scope::Reusable => identity_key(request),
        Scope::ThisPage => vary::cookie_key(request),
    };
    let GatewayResponse {
        status,
        headers,
        content,
        facts,
    } = stored;
    let (body, push) = match content {
        Content::None => (AnswerBody::None, None),
        Content::Body(reader) => match place(load, entry, &reference, (status, &headers), reader).await {
            Some((body, push)) => (body, Some(push)),
            None => return withdraw(load, entry, Withdrawal::Failed),
        },
    };
    if !matches!(push, Some(PushBody::Document(_))) {
        load.plan().entry_searched(entry);
    }
    if let Some(push) = push {
        lock(&load.bodies).insert(entry, push);
    }
    if let Some(subject) = DeltaKey::of(&reference.url, &facts.asker, &facts.request, status, &headers) {
        lock(&load.subjects).insert(entry, subject);
    }
    if facts.audience == Audience::Everybody {
        lock(&load.public).insert(entry);
    }
    let answer = Answer {
        status,
        headers,
        scope,
        vary,
        cookie,
        shape: facts.asker.context().shape().code(),
        partition: partition.as_ref().map(Partition::label),
        body,
    };
    let mirror = &load.context.mirror;
    let holds = |hash: &ContentHash| mirror.holds(partition.as_ref(), hash);
    let placement = load.plan().answered(entry, answer, holds);
    match placement {
        Placement::Push => {}
        Placement::PushFor(later) => {
            lock(&load.bodies).remove(&later);
            load.context.counters().held();
        }
        Placement::Nothing => {
            lock(&load.bodies).remove(&entry);
            if body != AnswerBody::None {
                load.context.counters().held();
            }
        }
    }
    load.wake();
}

/// Returns the partition in which the agent keeps an entry.
///
/// A request of another site's style sheet does not name the document that loads the sheet, so it has no partition.
/// The plan knows the document, for which an agent stores all responses that were fetched without credentials.
fn partition_of(load: &PageLoad, entry: u32, stored: &GatewayResponse) -> Option<Partition> {
    let own = stored.facts.asker.partition();
    if own.is_some() || load.asker.partition().is_none() || identity_key(&stored.facts.request).is_some() {
        return own;
    }
    let cause = load.cause(entry)?;
    cause.sheet.as_ref()?;
    let document = cause.initiator.referrer()?;
    let site = SchemefulSite::of_url(document.as_str())?;
    Some(Partition::of_site(load.asker.owner(), site))
}

/// Records the response's cookies for later requests.
fn note(load: &PageLoad, entry: u32, reference: &Reference, stored: &GatewayResponse) {
    let cause: Option<Cause> = if reference.destination == Destination::Document {
        None
    } else {
        let Some(cause) = load.cause(entry) else { return };
        Some(cause)
    };
    lock(&load.jar).store(&reference.url, &stored.headers, cause.as_ref(), now());
}

/// Target of a redirect.
pub(in crate::bundle) fn redirection(url: &Url, status: StatusCode, headers: &HeaderMap) -> Option<Url> {
    if ![301, 302, 303, 307, 308].contains(&status.as_u16()) {
        return None;
    }
    let location = headers.get(header::LOCATION)?.to_str().ok()?;
    let mut target = url.join(location).ok()?;
    target.set_fragment(None);
    (matches!(target.scheme(), "http" | "https") && target.has_host()).then_some(target)
}

/// Parses a body if it is a document or style sheet, and waits for its CHK if that may save its transfer.
/// `None` if the body was truncated.
async fn place(
    load: &PageLoad,
    entry: u32,
    reference: &Reference,
    (status, headers): (StatusCode, &HeaderMap),
    reader: BodyReader,
) -> Option<(AnswerBody, PushBody)> {
    let media = MediaType::of_response(headers);
    let document = if reference.destination.is_document() && media.is_html() && !status.is_redirection() {
        load.document(entry, reference, headers)
    } else {
        None
    };
    let is_sheet = reference.destination == Destination::Style && media.is_css() && status == StatusCode::OK;
    if is_sheet {
        load.style_sheet(entry, headers);
    }
    if document.is_some() || is_sheet {
        let links = discover_link_header(headers, &reference.url, load.context.viewport());
        load.found(links, Some(entry));
    }
    if is_sheet {
        return search(load, entry, reader, Search::Sheet(&reference.url, media.charset)).await;
    }
    let wait = wait(load, entry, &reference.url, reader.length());
    let complete = reader.chk_when_complete(wait, MAX_AWAITED).await;
    if let Some(document) = document {
        let discovery = Discovery::of(document, media.charset.as_deref(), load.context.viewport());
        if complete.is_some() {
            return search(load, entry, reader, Search::Document(Box::new(discovery))).await;
        }
        let body = AnswerBody::Coming {
            length: reader.length(),
        };
        let document = ArrivingDocument::new(reader, discovery);
        return Some((body, PushBody::Document(Box::new(document))));
    }
    let body = match complete {
        Some(hash) => AnswerBody::Known {
            hash,
            length: reader.length().unwrap_or(0),
        },
        None => AnswerBody::Coming {
            length: reader.length(),
        },
    };
    Some((body, PushBody::Arriving(VecDeque::new(), Some(reader))))
}

/// Maximum wait for the CHK of a body: half of the transfer time that it may save.
fn wait(load: &PageLoad, entry: u32, url: &Url, length: Option<u64>) -> Duration {
    let context = &load.context;
    let before = load.plan().before(url).copied();
    let partition = lock(&load.partitions).get(&entry).cloned();
    if !before.is_some_and(|hash| context.mirror.holds(partition.as_ref(), &hash)) {
        return BRIEF;
    }
    let bits = length.unwrap_or(USUAL).saturating_mul(8);
    let half = match context.link_rate().map(|rate| rate.as_bps()) {
        Some(rate @ 1..) => Duration::from_millis(bits.saturating_mul(500) / rate),
        Some(0) | None => MAX_HELD,
    };
    half.clamp(MIN_HELD, MAX_HELD)
}

/// Parser of a body.
enum Search<'a> {
    Document(Box<Discovery>),
    /// With the URL and charset of the style sheet.
    Sheet(&'a Url, Option<String>),
}

/// Reads a document or style sheet, and plans its references before the body is released.
async fn search(
    load: &PageLoad,
    entry: u32,
    mut reader: BodyReader,
    mut search: Search<'_>,
) -> Option<(AnswerBody, PushBody)> {
    let mut chunks: VecDeque<Bytes> = VecDeque::new();
    let mut text = Vec::new();
    let mut read = 0;
    let reading = async {
        while let Some(chunk) = reader.next().await {
            let Ok(chunk) = chunk else { return Read::Broken };
            read += chunk.len();
            match &mut search {
                Search::Document(discovery) => {
                    let found = discovery.write(&chunk);
                    if !found.is_empty() {
                        load.found(found, Some(entry));
                    }
                }
                Search::Sheet(..) => text.extend_from_slice(&chunk),
            }
            chunks.push_back(chunk);
            if read >= MAX_SEARCHED {
                return Read::Part;
            }
        }
        Read::Whole
    };
    let outcome = timeout(MAX_SEARCH, reading).await.unwrap_or(Read::Part);
    let found = match search {
        Search::Document(discovery) if outcome == Read::Whole => discovery.finish(),
        Search::Document(_) => Vec::new(),
        Search::Sheet(url, charset) => load
            .sheet(entry, &text, url, charset.as_deref())
            .unwrap_or_else(|| discover_css(&text, url, charset.as_deref(), load.context.viewport())),
    };
    load.found(found, Some(entry));
    load.flush().await;
    let length = read as u64;
    match outcome {
        Read::Broken => None,
        Read::Whole => {
            let body = match reader.chk() {
                Some(hash) => AnswerBody::Known { hash, length },
                None => AnswerBody::Coming { length: Some(length) },
            };
            Some((body, PushBody::Arriving(chunks, None)))
        }
        Read::Part => Some((
            AnswerBody::Coming {
                length: reader.length(),
            },
            PushBody::Arriving(chunks, Some(reader)),
        )),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Whole,
    /// The body is longer than the limit of the search.
    Part,
    Broken,
}
