//! The fetch of an entry: the request that the browser will make, and what becomes of the response.
use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use longhaul_http::{
    coding,
    policy::{self, Reload},
    vary,
};
use longhaul_page::{
    Destination, Discovery, MediaType, Reference, ReferrerPolicy, discover_css, discover_link_header,
    predict::Predictor,
};
use longhaul_protocol::session::{Scope, Withdrawal};
use longhaul_types::ByteCount;
use tokio::time::timeout;
use tracing::debug;
use url::Url;

use super::{PageLoad, Top};
use crate::{
    bases::Subject,
    bundle::{
        context::{lock, now},
        plan::{Answer, AnswerBody, Placement},
        push::{ArrivingDocument, PushBody},
    },
    coded::Audience,
    store::{BodyReader, Content, Lookup, Purpose, Stored},
};

/// How long a body is awaited before its head is written, in the hope that it is complete by then: its CHK shows whether
/// it has to be sent at all. Bodies of a few packets come with their heads.
const BRIEF: Duration = Duration::from_millis(25);
/// Bounds of that wait where the agent holds a version of this URL.
const MIN_HELD: Duration = Duration::from_millis(100);
const MAX_HELD: Duration = Duration::from_secs(5);
/// What larger bodies would save is not worth the wait.
const MAX_AWAITED: ByteCount = ByteCount::new(4 * 1024 * 1024);
/// What a held version of unknown length is taken for.
const USUAL: u64 = 64 * 1024;
/// How long the end of a body is awaited that was sent before: it is compared before it is sent again.
const MAX_AGAIN: Duration = Duration::from_secs(30);
/// Style sheets are read whole before they are sent, up to this size and for so long.
const MAX_SEARCHED: usize = 2 * 1024 * 1024;
const MAX_SEARCH: Duration = Duration::from_secs(5);

/// Fetches an entry up to the point where its body waits to be pushed.
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

/// Fetches the body of an entry that the agent wants and the cache has lost. Another body than the one that the
/// manifest told of is of no use.
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

/// The request as the browser will make it.
fn lookup(load: &PageLoad, entry: u32) -> Option<Lookup> {
    let (reference, referrer) = {
        let plan = load.plan();
        let found = plan.get(entry)?;
        let referrer = found.referrer.and_then(|referrer| {
            let referrer = plan.get(referrer)?;
            let is_redirect = referrer
                .answered()
                .is_some_and(|answered| answered.status.is_redirection());
            // A redirection is no referrer: what led to it is.
            (!is_redirect).then(|| {
                let headers = referrer.answered().map(|answered| &answered.headers);
                let policy = headers.and_then(ReferrerPolicy::of_response);
                (referrer.reference.url.clone(), policy)
            })
        });
        (found.reference.clone(), referrer)
    };
    let browser = if reference.destination == Destination::Document {
        navigation(load, &reference.url)
    } else {
        let top = lock(&load.top);
        let (referrer, policy) = referrer.unwrap_or_else(|| (top.url.clone(), None));
        let templates = load.context.templates();
        let jar = lock(&load.jar);
        top.predictor
            .predict(&reference, &referrer, policy, &templates, &jar, now())
    };
    let mut headers = browser.clone();
    headers.remove(header::TE);
    coding::set_accept_encoding(&mut headers);
    if let Some(via) = &load.via {
        headers.insert(header::VIA, via.clone());
    }
    let request = Request::builder().method(Method::GET).uri(reference.url.as_str());
    let (mut parts, ()) = request.body(()).ok()?.into_parts();
    parts.headers = headers;
    Some(Lookup {
        device: load.context.device,
        parts,
        browser,
        reload: Reload::None,
        purpose: Purpose::Predicted,
    })
}

/// The request that follows a redirection of the page's: the same with other cookies.
fn navigation(load: &PageLoad, url: &Url) -> HeaderMap {
    let mut headers = load.request.clone();
    for name in [
        header::COOKIE,
        header::AUTHORIZATION,
        header::IF_NONE_MATCH,
        header::IF_MODIFIED_SINCE,
        header::VIA,
        header::HOST,
    ] {
        headers.remove(name);
    }
    if let Some(cookie) = lock(&load.jar).cookie_for(url, url, now()) {
        headers.insert(header::COOKIE, cookie);
    }
    headers
}

async fn answered(load: &PageLoad, entry: u32, stored: Stored) {
    let Some(reference) = load.plan().get(entry).map(|entry| entry.reference.clone()) else {
        return;
    };
    note(load, &reference, &stored);
    if let Some(target) = redirection(&reference.url, stored.status, &stored.headers) {
        let target = Reference {
            url: target,
            ..reference.clone()
        };
        load.found([target], Some(entry));
        load.flush().await;
    }
    let request = &stored.facts.request;
    let scope = policy::scope(&Method::GET, request, stored.status, &stored.headers, now());
    let scope = match scope {
        Some(policy::Scope::Reusable) => Scope::Reusable,
        Some(policy::Scope::ThisPage) => Scope::ThisPage,
        None => return withdraw(load, entry, Withdrawal::Private),
    };
    let vary = vary::key(&stored.headers, request);
    let cookie = vary::cookie_key(request);
    let Stored {
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
    if let Some(subject) = Subject::of(&reference.url, &facts.request, status, &headers) {
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
        body,
    };
    let placement = load
        .plan()
        .answered(entry, answer, |hash| load.context.mirror.holds(hash));
    if placement == Placement::Nothing {
        lock(&load.bodies).remove(&entry);
        if body != AnswerBody::None {
            load.context.counters().held();
        }
    }
    load.wake();
}

/// What a response's head says about later requests of this page load.
fn note(load: &PageLoad, reference: &Reference, stored: &Stored) {
    let mut top = lock(&load.top);
    lock(&load.jar).store(&reference.url, &stored.headers, &top.url, now());
    if reference.destination == Destination::Document && !stored.status.is_redirection() {
        let mut request = load.request.clone();
        request.remove(header::COOKIE);
        *top = Top {
            url: reference.url.clone(),
            predictor: Predictor::new(
                &reference.url,
                &request,
                ReferrerPolicy::of_response(&stored.headers),
            ),
        };
    }
}

/// Where a redirection leads.
pub(in crate::bundle) fn redirection(url: &Url, status: StatusCode, headers: &HeaderMap) -> Option<Url> {
    if ![301, 302, 303, 307, 308].contains(&status.as_u16()) {
        return None;
    }
    let location = headers.get(header::LOCATION)?.to_str().ok()?;
    let mut target = url.join(location).ok()?;
    target.set_fragment(None);
    (matches!(target.scheme(), "http" | "https") && target.has_host()).then_some(target)
}

/// Looks through a body where that is due, and awaits its CHK where that pays. `None` if it broke off.
async fn place(
    load: &PageLoad,
    entry: u32,
    reference: &Reference,
    (status, headers): (StatusCode, &HeaderMap),
    reader: BodyReader,
) -> Option<(AnswerBody, PushBody)> {
    let media = MediaType::of_response(headers);
    let is_document = reference.destination.is_document() && media.is_html();
    let is_sheet = reference.destination == Destination::Style && media.is_css() && status == StatusCode::OK;
    if is_document || is_sheet {
        let links = discover_link_header(headers, &reference.url, load.context.viewport());
        load.found(links, Some(entry));
    }
    if is_sheet {
        return search(load, entry, reader, Search::Sheet(&reference.url, media.charset)).await;
    }
    let wait = wait(load, &reference.url, reader.length());
    let complete = reader.chk_when_complete(wait, MAX_AWAITED).await;
    if is_document {
        let discovery = Discovery::new(&reference.url, media.charset.as_deref(), load.context.viewport());
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

/// How long the CHK of a body may be awaited: half of what it saves.
fn wait(load: &PageLoad, url: &Url, length: Option<u64>) -> Duration {
    let context = &load.context;
    let before = load.plan().before(url).copied();
    if !before.is_some_and(|hash| context.mirror.holds(&hash)) {
        return BRIEF;
    }
    let bits = length.unwrap_or(USUAL).saturating_mul(8);
    let half = match context.link_rate().map(|rate| rate.as_bps()) {
        Some(rate @ 1..) => Duration::from_millis(bits.saturating_mul(500) / rate),
        Some(0) | None => MAX_HELD,
    };
    half.clamp(MIN_HELD, MAX_HELD)
}

/// What looks through a body.
enum Search<'a> {
    Document(Box<Discovery>),
    /// With its URL and charset.
    Sheet(&'a Url, Option<String>),
}

/// Reads a document or style sheet, plans what it refers to, and only then lets it go.
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
    /// Longer than is looked through at once.
    Part,
    Broken,
}
