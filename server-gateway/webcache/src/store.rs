//! The gateway's HTTP cache in front of its origin client (RFC 9111).
//!
//! [`Store::fetch`] looks for a stored response (`rules`), and a fresh one answers the request. Otherwise the
//! request joins a `flight`, which equal requests share. The task of a flight (`trip`) sends the request to
//! the origin, conditionally if a stored response can be validated, and feeds (`feed`) the decoded body to
//! the flight's `spool` and to the cache. A [`BodyReader`] reads a body from any location.
//!
//! Bodies are stored decoded, under their CHK. Responses that are shareable by the strict rule of
//! [`longhaul_http::policy`] are stored in the shared partition, under the key of their request fields. All
//! storable responses are stored in the private partition of the requester ([`Asker::partition`]), including
//! shareable ones, because the requester's later requests may have other fields.
mod coalesced_fetch;
mod coalesced_fetches;
mod confirmed;
mod feed;
mod head;
mod origin_fetch;
mod reader;
mod rules;
mod spool;
mod validation;
mod writes;

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use http_body::Body;
use http_body_util::BodyExt as _;
use longhaul_cache::{Cache, Forget, Partition, StoredResponse};
use longhaul_http::{
    conditional::{is_not_modified, not_modified_fields},
    hop,
    policy::{Reload, Reuse, only_if_cached},
};
use longhaul_origin::OriginClient;
use tokio::time::timeout;

use self::{
    coalesced_fetch::{FetchedBody, FetchedResponse},
    coalesced_fetches::{CoalescedFetches, JoinResult},
    origin_fetch::{OriginFetch, Sharing, StaleIfError, Upload, now},
    reader::FlightReader,
    rules::{Candidate, StorageDecision},
    writes::Writes,
};
pub(crate) use self::{
    confirmed::Confirmed,
    reader::{BodyFault, BodyReader},
};
use crate::{
    asker::Asker,
    cpu_pool::CpuPool,
    encoded_cache::Audience,
    fetch::{Failure, Outgoing},
    metrics::CacheCounters,
};

/// Maximum wait for the head of a response that another device requested. Most heads arrive sooner; for the
/// others a second request is sent.
const ANOTHERS_WAIT: Duration = Duration::from_millis(500);

/// The cache and the origin client. Clones share their state.
#[derive(Clone)]
pub(crate) struct Store(Arc<Inner>);

struct Inner {
    /// Nothing is stored without a cache.
    cache: Option<Cache>,
    origin: OriginClient,
    /// Thread pool that removes content codings.
    cpu_pool: Arc<CpuPool>,
    flights: CoalescedFetches,
    writes: Arc<Writes>,
    counters: CacheCounters,
}

/// A request without body.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// The requester, whose private partition is used.
    pub(crate) asker: Asker,
    /// The request for the origin: with `Accept-Encoding`, without hop-by-hop fields, with the browser's
    /// conditions.
    pub(crate) parts: Parts,
    /// The browser's own fields, which name the content codings that it accepts.
    pub(crate) browser: HeaderMap,
    /// Use of stored responses, in addition to the rules of `parts`.
    pub(crate) reload: Reload,
    pub(crate) purpose: Purpose,
}

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The browser sent the request.
    Asked,
    /// A page load predicted the request: stale-if-error is not used.
    Predicted,
}

/// A response.
#[derive(Debug)]
pub(crate) struct GatewayResponse {
    pub(crate) status: StatusCode,
    /// Fields as sent to the agent: content codings removed, hop-by-hop fields removed, with `Via` and, if
    /// required, `Age`.
    pub(crate) headers: HeaderMap,
    pub(crate) content: Content,
    pub(crate) facts: ResponseContext,
}

/// The body of a response.
#[derive(Debug)]
pub(crate) enum Content {
    /// No body, or an empty one.
    None,
    Body(BodyReader),
}

/// Properties of a response outside the message.
#[derive(Clone, Debug)]
pub(crate) struct ResponseContext {
    /// The request's fields as the origin received them, without conditions of the gateway, for the keys of
    /// `Vary` and `Cookie`. For a stored response these are the fields of the request that it now answers.
    pub(crate) request: HeaderMap,
    /// The requester.
    pub(crate) asker: Asker,
    pub(crate) source: Source,
    /// Other devices that may get the response.
    pub(crate) audience: Audience,
}

/// Source of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The origin (cache miss).
    Fetched,
    /// The cache; the response was fresh (cache hit).
    Fresh,
    /// The fetch of another request (collapsed).
    Coalesced,
    /// The cache; the response is stale and the origin failed (stale-if-error).
    Stale,
    /// The cache; the origin confirmed the response (revalidated).
    Validated,
}

impl Store {
    /// Creates a store of an optional cache and an origin client. `cpu_pool` is the thread pool that removes
    /// content codings.
    pub(crate) fn new(cache: Option<Cache>, origin: OriginClient, cpu_pool: Arc<CpuPool>) -> Self {
        Self(Arc::new(Inner {
            cache,
            origin,
            cpu_pool,
            flights: CoalescedFetches::default(),
            writes: Arc::default(),
            counters: CacheCounters::default(),
        }))
    }

    /// The cache, if one exists, for records and mirrors.
    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.0.cache.as_ref()
    }

    pub(crate) fn counters(&self) -> &CacheCounters {
        &self.0.counters
    }

    /// Closes the cache after pending writes, for which it waits a bounded time; nothing is stored
    /// afterwards.
    pub(crate) async fn close(&self) {
        if let Some(cache) = &self.0.cache {
            self.0.writes.finished().await;
            cache.clone().close().await;
        }
    }

    /// Deletes data from the cache; responses in progress are not stored either.
    pub(crate) async fn forget(&self, forget: Forget) {
        let Some(cache) = &self.0.cache else { return };
        self.0.writes.invalidate_all();
        self.0.writes.finished().await;
        cache.forget(forget).await;
    }

    /// Answers a request without body. Dropping the future cancels the request, unless other requests share
    /// it.
    ///
    /// # Errors
    /// Returns the failure if there is no response.
    pub(crate) async fn fetch(&self, lookup: Lookup) -> Result<GatewayResponse, Failure> {
        let wanted = match lookup.reload {
            Reload::None => longhaul_http::policy::reload(&lookup.parts.headers),
            Reload::Revalidate | Reload::Bypass => lookup.reload,
        };
        let candidate = self.candidate(&lookup, wanted).await;
        let mut stale = None;
        if let Some(candidate) = candidate {
            if let Reuse::Fresh(fields) = &candidate.reuse {
                if let Some(answer) = self.fresh(&lookup, &candidate, fields.clone()).await {
                    self.0.counters.answered(Source::Fresh);
                    return Ok(answer);
                }
            } else {
                stale = Some(candidate);
            }
        }
        if only_if_cached(&lookup.parts.headers) {
            return Ok(timeout_of_cache(&lookup));
        }
        self.fly(lookup, wanted, stale).await
    }

    /// Sends a request without body with the given client, bypassing the cache. The response is neither
    /// shared nor stored.
    ///
    /// # Errors
    /// Returns the failure if there is no response.
    pub(crate) async fn pass(
        &self,
        lookup: Lookup,
        client: &OriginClient,
    ) -> Result<GatewayResponse, Failure> {
        let trip = self.trip(&lookup, Reload::Bypass, None, None);
        self.solo(&lookup, trip.past_the_cache(client.clone()), None)
            .await
    }

    /// Sends a request with body. The request is never repeated; the response is neither shared nor stored.
    ///
    /// # Errors
    /// Returns the failure if there is no response.
    pub(crate) async fn upload<B>(&self, outgoing: Outgoing, body: B) -> Result<GatewayResponse, Failure>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let upload: Upload = body.map_err(Into::into).boxed_unsync();
        let lookup = Lookup {
            asker: outgoing.asker,
            parts: outgoing.parts,
            browser: outgoing.browser,
            reload: Reload::None,
            purpose: Purpose::Asked,
        };
        let mut trip = self.trip(&lookup, Reload::None, None, None);
        if let Some(client) = &outgoing.login {
            trip = trip.past_the_cache(OriginClient::clone(client));
        }
        self.solo(&lookup, trip, Some(upload)).await
    }

    /// Returns the best stored response for the request.
    async fn candidate(&self, lookup: &Lookup, wanted: Reload) -> Option<Candidate> {
        let cache = self.0.cache.as_ref()?;
        let method = &lookup.parts.method;
        if wanted == Reload::Bypass || (*method != Method::GET && *method != Method::HEAD) {
            return None;
        }
        let url = lookup.parts.uri.to_string();
        self.0.writes.settled(&url).await;
        let found = self.stored(cache, &lookup.asker, &url).await;
        let context = lookup.asker.context();
        rules::select(found, context, &lookup.parts, &lookup.browser, wanted, now())
    }

    /// The stored responses of a URL in the requester's partition and the shared partition.
    async fn stored(&self, cache: &Cache, asker: &Asker, url: &str) -> Vec<StoredResponse> {
        let mut found = cache.find(&Partition::Shared, url).await;
        if let Some(own) = asker.partition() {
            found.extend(cache.find(&own, url).await);
        }
        found
    }

    async fn fresh(
        &self,
        lookup: &Lookup,
        candidate: &Candidate,
        headers: HeaderMap,
    ) -> Option<GatewayResponse> {
        let landed = FetchedResponse {
            status: candidate.status,
            headers,
            body: candidate
                .stored
                .chk
                .map_or(FetchedBody::None, FetchedBody::GatewayResponse),
            source: Source::Fresh,
            keeping: StorageDecision::In(candidate.stored.partition.clone()),
            requested_at: candidate.stored.requested_at,
            received_at: candidate.stored.received_at,
        };
        self.answer(lookup, &landed, Source::Fresh, None).await
    }

    /// Sends the request to the origin, or joins an equal request in progress if it is shareable.
    async fn fly(
        &self,
        lookup: Lookup,
        wanted: Reload,
        stale: Option<Candidate>,
    ) -> Result<GatewayResponse, Failure> {
        let shareable = lookup.parts.method == Method::GET
            && wanted != Reload::Bypass
            && !lookup.parts.headers.contains_key(header::RANGE);
        if !shareable {
            return self
                .solo(&lookup, self.trip(&lookup, wanted, stale, None), None)
                .await;
        }
        let key = rules::flight_key(&lookup.asker, &lookup.parts);
        let (reader, joined) = match self.0.flights.board(key, *lookup.asker.device()) {
            JoinResult::First(reader) => {
                let trip = self.trip(&lookup, wanted, stale, Some(key));
                tokio::spawn(trip.run(Arc::clone(&reader.flight), None));
                (reader, false)
            }
            JoinResult::Coalesced(reader) => (reader, true),
            // The other device's limits, and failures caused by them, must not affect this request.
            JoinResult::JoinedAnothers(reader) => match timeout(ANOTHERS_WAIT, reader.flight.head()).await {
                Ok(Ok(_)) => (reader, true),
                Ok(Err(_)) | Err(_) => {
                    drop(reader);
                    let trip = self.trip(&lookup, wanted, stale, None);
                    return self.solo(&lookup, trip, None).await;
                }
            },
        };
        let landed = reader.flight.head().await?;
        if !joined || is_for(&lookup, &landed) && reader.flight.admits(lookup.asker.device()) {
            let source = if joined { Source::Coalesced } else { landed.source };
            if let Some(answer) = self.answer(&lookup, &landed, source, reader).await {
                self.0.counters.answered(source);
                return Ok(answer);
            }
            // The body was evicted after the lookup.
        } else {
            // An idle reader must not block the other readers.
            drop(reader);
        }
        self.solo(&lookup, self.trip(&lookup, wanted, None, None), None)
            .await
    }

    /// Sends the request to the origin for this request alone.
    async fn solo(
        &self,
        lookup: &Lookup,
        trip: OriginFetch,
        upload: Option<Upload>,
    ) -> Result<GatewayResponse, Failure> {
        let reader = self.0.flights.alone();
        tokio::spawn(trip.run(Arc::clone(&reader.flight), upload));
        let landed = reader.flight.head().await?;
        let answer = self.answer(lookup, &landed, landed.source, reader).await;
        self.0.counters.answered(landed.source);
        answer.ok_or_else(origin_fetch::interrupted)
    }

    fn trip(
        &self,
        lookup: &Lookup,
        wanted: Reload,
        stale: Option<Candidate>,
        key: Option<[u8; 32]>,
    ) -> OriginFetch {
        OriginFetch {
            inner: Arc::clone(&self.0),
            client: self.0.origin.clone(),
            sharing: Sharing::Allowed,
            asker: lookup.asker.clone(),
            parts: lookup.parts.clone(),
            browser: lookup.browser.clone(),
            stale,
            wanted,
            stand_in: match lookup.purpose {
                Purpose::Asked => StaleIfError::Allowed,
                Purpose::Predicted => StaleIfError::Forbidden,
            },
            purpose: lookup.purpose,
            epoch: self.0.writes.epoch(&lookup.parts.uri.to_string()),
            key,
        }
    }

    /// Builds the response to one request; `None` if its body is no longer in the cache.
    async fn answer(
        &self,
        lookup: &Lookup,
        landed: &FetchedResponse,
        source: Source,
        reader: impl Into<Option<FlightReader>>,
    ) -> Option<GatewayResponse> {
        let facts = ResponseContext {
            request: lookup.parts.headers.clone(),
            asker: lookup.asker.clone(),
            source,
            audience: match landed.keeping {
                StorageDecision::In(Partition::Shared) => Audience::Everybody,
                StorageDecision::In(Partition::Private(_)) | StorageDecision::Body | StorageDecision::No => {
                    Audience::Asker
                }
            },
        };
        let mut headers = landed.headers.clone();
        if is_not_modified_for(lookup, landed) {
            return Some(GatewayResponse {
                status: StatusCode::NOT_MODIFIED,
                headers: not_modified_fields(&headers),
                content: Content::None,
                facts,
            });
        }
        let content = match landed.body {
            FetchedBody::None => Content::None,
            FetchedBody::CoalescedFetch => Content::Body(BodyReader::of_flight(reader.into()?)),
            FetchedBody::GatewayResponse(chk) => {
                let body = self.0.cache.as_ref()?.body(chk).await?;
                // The length of a stored body is known even if the origin did not announce it.
                headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.length()));
                if lookup.parts.method == Method::HEAD {
                    Content::None
                } else {
                    Content::Body(BodyReader::of_stored(body))
                }
            }
        };
        Some(GatewayResponse {
            status: landed.status,
            headers,
            content,
            facts,
        })
    }
}

/// Returns true if the response to another request also answers this one.
fn is_for(lookup: &Lookup, landed: &FetchedResponse) -> bool {
    rules::answers_too(
        &lookup.asker,
        &lookup.parts,
        &landed.keeping,
        landed.status,
        &landed.headers,
        (landed.requested_at, landed.received_at),
        now(),
    )
}

/// Returns true if the browser already has the response. For stored responses the cache evaluates the
/// browser's condition (RFC 9111 section 4.3.2). For a fetched response the origin has evaluated it, unless
/// the gateway sent the condition of a stored version instead: then only a matching entity tag is sufficient.
fn is_not_modified_for(lookup: &Lookup, landed: &FetchedResponse) -> bool {
    let readable = lookup.parts.method == Method::GET || lookup.parts.method == Method::HEAD;
    let judged = match landed.source {
        Source::Fetched | Source::Coalesced => lookup.parts.headers.contains_key(header::IF_NONE_MATCH),
        Source::Fresh | Source::Stale | Source::Validated => true,
    };
    readable && judged && is_not_modified(&lookup.parts.headers, landed.status, &landed.headers)
}

/// 504 for `only-if-cached` without a stored response (RFC 9111 section 5.2.1.7).
fn timeout_of_cache(lookup: &Lookup) -> GatewayResponse {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    hop::append_via(&mut headers, http::Version::HTTP_11);
    GatewayResponse {
        status: StatusCode::GATEWAY_TIMEOUT,
        headers,
        content: Content::None,
        facts: ResponseContext {
            request: lookup.parts.headers.clone(),
            asker: lookup.asker.clone(),
            source: Source::Fresh,
            audience: Audience::Asker,
        },
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("flights", &self.0.flights)
            .finish_non_exhaustive()
    }
}
