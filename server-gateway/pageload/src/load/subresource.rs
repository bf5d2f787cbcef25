//! The fetch of an entry, and the use of its response.
use std::{collections::VecDeque, future::ready, time::Duration};

use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode, header};
use longhaul_cache::Partition;
use longhaul_delivery::DeltaKey;
use longhaul_gateway_core::wall_clock::now;
use longhaul_http::{policy, request_context::identity_key, site::SchemefulSite, vary};
use longhaul_page::{
    Destination, Discovery, Initiator, LiteralUrls, MediaType, Reference, ReferrerPolicy,
    discover_link_header,
};
use longhaul_session::{EntryId, Scope, Withdrawal};
use longhaul_types::{ByteCount, ContentHash};
use longhaul_webcache::{BodyReader, CacheRequest, CacheStatus, Content, GatewayResponse};
use tracing::debug;
use url::Url;

use super::{
    PageLoad,
    event::{AgentEvent, EntryRequest, ResponseEvent},
    search::{Search, search},
};
use crate::{
    plan::{Answer, AnswerBody, PredictedCookies},
    publicity::Publicity,
    push_body::{ArrivingDocument, PushBody},
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
/// Maximum wait for a body whose CHK may lead to further objects.
const MAX_COMPLETE: Duration = Duration::from_secs(10);
/// Maximum wait for the end of a repeated fetch: its CHK is compared before the body is sent again.
const MAX_AGAIN: Duration = Duration::from_secs(30);
/// Fetches an entry up to the point where its body waits for its push.
pub(super) async fn fetch(load: &PageLoad, entry: EntryId, lookup: CacheRequest) {
    let mut complete = None;
    let event = match load.context.fetch(lookup).await {
        Ok(stored) => match answer(load, entry, stored, &mut complete).await {
            Ok(answer) => ResponseEvent::Answered(Box::new(answer)),
            Err(reason) => ResponseEvent::Withdrawn(reason),
        },
        Err(failure) => {
            debug!(%entry, reason = ?failure.reason, "an entry has no response");
            ResponseEvent::Failed(failure)
        }
    };
    load.send_response(entry, event).await;
    if let Some(complete) = complete {
        if let Some(hash) = complete.await {
            load.send_response(entry, ResponseEvent::BodyComplete(hash)).await;
        }
        load.entry_searched(entry).await;
    }
}

/// Fetches again the body of an entry that the agent wants and the cache no longer has. A body that differs
/// from the one in the manifest, with this hash, is not sent.
pub(super) async fn fetch_again(load: &PageLoad, entry: EntryId, lookup: CacheRequest, hash: ContentHash) {
    if let Ok(stored) = load.context.fetch(lookup).await
        && let Content::Body(body) = stored.content
        && body.chk_when_complete(MAX_AGAIN, MAX_AWAITED).await == Some(hash)
    {
        return load.send_agent(AgentEvent::PushAgain { entry, body }).await;
    }
    let failed = ResponseEvent::Withdrawn(Withdrawal::Failed);
    load.send_response(entry, failed).await;
}

/// The CHK of a body, once it is complete.
type BodyComplete = BoxFuture<'static, Option<ContentHash>>;

/// `complete` becomes the future of the body's CHK, if that is awaited.
async fn answer(
    load: &PageLoad,
    entry: EntryId,
    stored: GatewayResponse,
    complete: &mut Option<BodyComplete>,
) -> Result<Answer, Withdrawal> {
    let GatewayResponse {
        status,
        headers,
        content,
        response_context,
    } = stored;
    let cookies = set_cookies(&headers);
    let request = load.ask_response(entry, |reply| ResponseEvent::Arrived { cookies, reply });
    let request = request.await.ok_or(Withdrawal::Failed)?;
    let reference = &request.reference;
    if request.awaits_body {
        *complete = Some(match &content {
            Content::None => Box::pin(ready(None)),
            Content::Body(reader) => Box::pin(reader.chk_when_complete(MAX_COMPLETE, MAX_AWAITED)),
        });
    }
    if let Some(target) = redirection(&reference.url, status, &headers) {
        let target = Reference {
            url: target,
            ..reference.clone()
        };
        let redirects = ResponseEvent::Redirects {
            target: Box::new(target),
            policy: ReferrerPolicy::of_response(&headers),
        };
        load.send_response(entry, redirects).await;
        load.flush().await;
    }
    let scope = policy::scope(&Method::GET, &response_context.request, status, &headers, now());
    let scope = match scope {
        Some(policy::Scope::Reusable) => Scope::Reusable,
        Some(policy::Scope::ThisPage) if request.cookies == PredictedCookies::Complete => Scope::ThisPage,
        // A response for this page alone, fetched without the browser's cookies, is not what the browser
        // would receive.
        Some(policy::Scope::ThisPage) | None => return Err(Withdrawal::Private),
    };
    let own_partition = response_context.identity.partition();
    let partition = own_partition.or_else(|| partition_of_sheet(load, &request, &response_context.request));
    let response = Response {
        entry,
        request: &request,
        status,
        headers: &headers,
        partition: partition.as_ref(),
    };
    let body = match content {
        Content::None => AnswerBody::None,
        Content::Body(reader) => response.place(load, reader).await.ok_or(Withdrawal::Failed)?,
    };
    Ok(Answer {
        status,
        scope,
        vary: vary::key(&headers, &response_context.request),
        cookie: identity_key(&response_context.request),
        shape: response_context.identity.context().shape().code(),
        delta_key: DeltaKey::of(
            &reference.url,
            &response_context.identity,
            &response_context.request,
            status,
            &headers,
        ),
        audience: response_context.audience,
        origin_size: response_context.origin_size,
        is_from_cache: match response_context.cache_status {
            CacheStatus::Miss | CacheStatus::Coalesced => false,
            CacheStatus::Hit | CacheStatus::Stale | CacheStatus::Revalidated => true,
        },
        partition,
        headers,
        awaits_body: request.awaits_body,
        body,
    })
}

/// The `Set-Cookie` fields of a response.
pub(crate) fn set_cookies(headers: &HeaderMap) -> HeaderMap {
    let fields = headers.get_all(header::SET_COOKIE).iter();
    fields.map(|value| (header::SET_COOKIE, value.clone())).collect()
}

/// Returns the partition in which the agent keeps the response to a request without a partition of its own.
///
/// A request of another site's style sheet does not name the document that loads the sheet, so it has no partition.
/// The plan knows the document, for which an agent stores all responses that were fetched without credentials.
fn partition_of_sheet(load: &PageLoad, request: &EntryRequest, fields: &HeaderMap) -> Option<Partition> {
    if load.identity.partition().is_none() || identity_key(fields).is_some() {
        return None;
    }
    let chain = request.chain.as_ref()?;
    chain.sheet.as_ref()?;
    let document = chain.initiator.referrer()?;
    let site = SchemefulSite::of_url(document.as_str())?;
    Some(Partition::of_site(load.identity.owner(), site))
}

/// Target of a redirect.
pub(crate) fn redirection(url: &Url, status: StatusCode, headers: &HeaderMap) -> Option<Url> {
    if ![301, 302, 303, 307, 308].contains(&status.as_u16()) {
        return None;
    }
    let location = headers.get(header::LOCATION)?.to_str().ok()?;
    let mut target = url.join(location).ok()?;
    target.set_fragment(None);
    (matches!(target.scheme(), "http" | "https") && target.has_host()).then_some(target)
}

/// The response of an entry, whose body is placed.
struct Response<'a> {
    entry: EntryId,
    request: &'a EntryRequest,
    status: StatusCode,
    headers: &'a HeaderMap,
    partition: Option<&'a Partition>,
}

impl Response<'_> {
    /// Parses a body if it is a document or style sheet, and waits for its CHK if that may save its transfer.
    /// `None` if the body was truncated.
    async fn place(&self, load: &PageLoad, reader: BodyReader) -> Option<AnswerBody> {
        let reference = &self.request.reference;
        let media = MediaType::of_response(self.headers);
        let is_document =
            reference.destination.is_document() && media.is_html() && !self.status.is_redirection();
        let document = self.document().filter(|_| is_document);
        let is_sheet =
            reference.destination == Destination::Style && media.is_css() && self.status == StatusCode::OK;
        let source = match &document {
            Some(document) => Some(ResponseEvent::Document(document.clone())),
            None if is_sheet => {
                let policy = ReferrerPolicy::of_response(self.headers);
                Some(ResponseEvent::StyleSheet(policy))
            }
            None => None,
        };
        let viewport = load.context.viewport();
        if let Some(source) = source {
            load.send_response(self.entry, source).await;
            if document.is_some() && reference.destination == Destination::Document {
                let publicity = Publicity::of_url(&reference.url, now());
                let learned = load.learned(&reference.url, publicity).await;
                let learned = ResponseEvent::Redirected(Box::new(learned));
                load.send_response(self.entry, learned).await;
            }
            let links = discover_link_header(self.headers, &reference.url, viewport);
            load.found(links, self.entry).await;
        }
        if is_sheet {
            let sheet = Search::Sheet(&reference.url, media.charset);
            return search(load, self.entry, reader, sheet).await;
        }
        let wait = self.wait(load, reader.length());
        let complete = reader.chk_when_complete(wait, MAX_AWAITED).await;
        let length = reader.length();
        if let Some(document) = document {
            // Frames are not searched for URLs outside of their markup.
            let is_page = reference.destination == Destination::Document;
            let literals = is_page.then(|| LiteralUrls::new(&reference.url));
            let discovery = Discovery::of(document, media.charset.as_deref(), viewport);
            let parser = load.document_parser(discovery, literals, self.headers);
            if complete.is_some() {
                return search(load, self.entry, reader, Search::Document(parser)).await;
            }
            let document = ArrivingDocument::new(reader, parser);
            return Some(AnswerBody::Arriving {
                length,
                source: PushBody::Document(Box::new(document)),
            });
        }
        let source = PushBody::Arriving(VecDeque::new(), Some(reader));
        Some(match complete {
            Some(hash) => AnswerBody::Complete {
                hash,
                length: length.unwrap_or(0),
                source,
            },
            None => AnswerBody::Arriving { length, source },
        })
    }

    /// Returns the document in the response, as initiator of its references; `None` if its objects are not
    /// planned.
    fn document(&self) -> Option<Initiator> {
        let reference = &self.request.reference;
        match reference.destination {
            Destination::Document => Some(Initiator::page(&reference.url, self.headers)),
            Destination::Frame => {
                let chain = self.request.chain.as_ref()?;
                chain
                    .initiator
                    .frame(&reference.url, self.headers, reference.sandbox)
            }
            Destination::Style
            | Destination::InactiveStyle
            | Destination::Script
            | Destination::Image
            | Destination::Font
            | Destination::Other
            | Destination::Icon
            | Destination::Manifest => None,
        }
    }

    /// Maximum wait for the CHK of a body: half of the transfer time that it may save.
    fn wait(&self, load: &PageLoad, length: Option<u64>) -> Duration {
        let context = &load.context;
        let previous = self.request.previous_hash;
        if !previous.is_some_and(|hash| context.holds(self.partition, &hash)) {
            return BRIEF;
        }
        let bits = length.unwrap_or(USUAL).saturating_mul(8);
        let half = match context.link_rate().map(|rate| rate.as_bps()) {
            Some(rate @ 1..) => Duration::from_millis(bits.saturating_mul(500) / rate),
            Some(0) | None => MAX_HELD,
        };
        half.clamp(MIN_HELD, MAX_HELD)
    }
}
