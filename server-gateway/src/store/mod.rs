//! The gateway's cache in front of its client for origins (RFC 9111).
//!
//! The way of a request: [`Store::fetch`] looks for a stored response (`rules`); a fresh one answers. Else the request
//! boards a `flight`: equal requests share one. Its task (`trip`) asks the origin, conditionally where there is
//! something to validate, and feeds (`feed`) the decoded body to the flight's `spool` and to the cache. A
//! [`BodyReader`] reads a body wherever it is.
//!
//! Bodies are kept decoded, under their CHK. What is shareable in the strict sense of [`longhaul_http::policy`] is in
//! the shared partition, under the key of what was said to get it. Everything that may be stored is in the private
//! partition of who asked ([`Asker::partition`]): what is shared, too, for a requester's own later requests may say
//! something else.
mod confirmed;
mod feed;
mod flight;
mod flights;
mod head;
mod reader;
mod rules;
mod spool;
mod trip;
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

pub(crate) use self::{
    confirmed::Confirmed,
    reader::{BodyFault, BodyReader},
};
use self::{
    flight::{Landed, LandedBody},
    flights::{Boarding, Flights},
    reader::FlightReader,
    rules::{Candidate, Keeping},
    trip::{Sharing, StandIn, Trip, Upload, now},
    writes::Writes,
};
use crate::{
    asker::Asker,
    coded::Audience,
    computing::Computing,
    fetch::{Failure, Outgoing},
    metrics::CacheCounters,
};

/// Longest wait for the head of a response that another device has asked for. Most are there sooner; the others are asked
/// for twice.
const ANOTHERS_WAIT: Duration = Duration::from_millis(500);

/// The cache and the client for origins. Clones share everything.
#[derive(Clone)]
pub(crate) struct Store(Arc<Inner>);

struct Inner {
    /// Nothing is stored without one.
    cache: Option<Cache>,
    origin: OriginClient,
    /// For undoing codings.
    computing: Arc<Computing>,
    flights: Flights,
    writes: Arc<Writes>,
    counters: CacheCounters,
}

/// A request without body, to be answered from the cache or by the origin.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// Whose private partition is used.
    pub(crate) asker: Asker,
    /// The request for the origin: `Accept-Encoding` set, hop-by-hop fields removed, the browser's conditions kept.
    pub(crate) parts: Parts,
    /// The browser's own fields: they say which codings it can decode.
    pub(crate) browser: HeaderMap,
    /// How stored responses are to be treated, beyond what `parts` says.
    pub(crate) reload: Reload,
    pub(crate) purpose: Purpose,
}

/// Who wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A browser that has asked for it.
    Asked,
    /// A page load that expects the browser to ask for it: no stale response stands in for an origin that fails.
    Predicted,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) status: StatusCode,
    /// As they go to the agent: codings undone, hop-by-hop fields removed, `Via`, `Age` where due.
    pub(crate) headers: HeaderMap,
    pub(crate) content: Content,
    pub(crate) facts: Facts,
}

/// A response's body.
#[derive(Debug)]
pub(crate) enum Content {
    /// None, or an empty one.
    None,
    Body(BodyReader),
}

/// What is known about a response besides the response.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The request's fields as the origin got them, without conditions of the gateway: for the keys of `Vary` and
    /// `Cookie`. Where the response was stored these are the fields of the request that it answers now.
    pub(crate) request: HeaderMap,
    /// Whom it answers.
    pub(crate) asker: Asker,
    pub(crate) source: Source,
    /// Who else may get it.
    pub(crate) audience: Audience,
}

/// Where a response came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The origin.
    Fetched,
    /// The cache; it was fresh.
    Fresh,
    /// A fetch for somebody else.
    Joined,
    /// The cache; it is stale, and the origin fails.
    StoodIn,
    /// The cache; the origin confirmed it.
    Validated,
}

impl Store {
    /// Puts a cache, if there is one, before a client. `computing` undoes codings.
    pub(crate) fn new(cache: Option<Cache>, origin: OriginClient, computing: Arc<Computing>) -> Self {
        Self(Arc::new(Inner {
            cache,
            origin,
            computing,
            flights: Flights::default(),
            writes: Arc::default(),
            counters: CacheCounters::default(),
        }))
    }

    /// The cache, if there is one: for records and mirrors.
    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.0.cache.as_ref()
    }

    pub(crate) fn counters(&self) -> &CacheCounters {
        &self.0.counters
    }

    /// Ends the cache: everything is in its file when this returns, and nothing is stored any more.
    pub(crate) async fn close(&self) {
        if let Some(cache) = &self.0.cache {
            self.0.writes.finished().await;
            cache.clone().close().await;
        }
    }

    /// Forgets what the cache keeps, and keeps nothing any more of what is under way.
    pub(crate) async fn forget(&self, forget: Forget) {
        let Some(cache) = &self.0.cache else { return };
        self.0.writes.invalidate_all();
        self.0.writes.finished().await;
        cache.forget(forget).await;
    }

    /// Answers a request without body. Dropping the future cancels the request, unless others share it.
    ///
    /// # Errors
    /// There is no response.
    pub(crate) async fn fetch(&self, lookup: Lookup) -> Result<Stored, Failure> {
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

    /// Sends a request without body past the cache, by a client of its own. Nothing of it is shared or stored.
    ///
    /// # Errors
    /// There is no response.
    pub(crate) async fn pass(&self, lookup: Lookup, client: &OriginClient) -> Result<Stored, Failure> {
        let trip = self.trip(&lookup, Reload::Bypass, None, None);
        self.solo(&lookup, trip.past_the_cache(client.clone()), None)
            .await
    }

    /// Sends a request with body. Nothing of it is repeated, shared or stored.
    ///
    /// # Errors
    /// There is no response.
    pub(crate) async fn upload<B>(&self, outgoing: Outgoing, body: B) -> Result<Stored, Failure>
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

    /// The stored response that serves best, if the request can be answered by one.
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

    /// The responses to a URL that were kept for who asks, or for everybody.
    async fn stored(&self, cache: &Cache, asker: &Asker, url: &str) -> Vec<StoredResponse> {
        let mut found = cache.find(&Partition::Shared, url).await;
        if let Some(own) = asker.partition() {
            found.extend(cache.find(&own, url).await);
        }
        found
    }

    async fn fresh(&self, lookup: &Lookup, candidate: &Candidate, headers: HeaderMap) -> Option<Stored> {
        let landed = Landed {
            status: candidate.status,
            headers,
            body: candidate.stored.chk.map_or(LandedBody::None, LandedBody::Stored),
            source: Source::Fresh,
            keeping: Keeping::In(candidate.stored.partition.clone()),
            requested_at: candidate.stored.requested_at,
            received_at: candidate.stored.received_at,
        };
        self.answer(lookup, &landed, Source::Fresh, None).await
    }

    /// Asks the origin, together with others where that is right.
    async fn fly(&self, lookup: Lookup, wanted: Reload, stale: Option<Candidate>) -> Result<Stored, Failure> {
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
            Boarding::First(reader) => {
                let trip = self.trip(&lookup, wanted, stale, Some(key));
                tokio::spawn(trip.run(Arc::clone(&reader.flight), None));
                (reader, false)
            }
            Boarding::Joined(reader) => (reader, true),
            // Which limits of its device it waits for, or fails by, is nothing to this one.
            Boarding::JoinedAnothers(reader) => match timeout(ANOTHERS_WAIT, reader.flight.head()).await {
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
            let source = if joined { Source::Joined } else { landed.source };
            if let Some(answer) = self.answer(&lookup, &landed, source, reader).await {
                self.0.counters.answered(source);
                return Ok(answer);
            }
            // The body left the cache after the response was found there.
        } else {
            // Nobody may wait for a reader that takes nothing.
            drop(reader);
        }
        self.solo(&lookup, self.trip(&lookup, wanted, None, None), None)
            .await
    }

    /// Asks the origin for this request alone.
    async fn solo(&self, lookup: &Lookup, trip: Trip, upload: Option<Upload>) -> Result<Stored, Failure> {
        let reader = self.0.flights.alone();
        tokio::spawn(trip.run(Arc::clone(&reader.flight), upload));
        let landed = reader.flight.head().await?;
        let answer = self.answer(lookup, &landed, landed.source, reader).await;
        self.0.counters.answered(landed.source);
        answer.ok_or_else(trip::interrupted)
    }

    fn trip(&self, lookup: &Lookup, wanted: Reload, stale: Option<Candidate>, key: Option<[u8; 32]>) -> Trip {
        Trip {
            inner: Arc::clone(&self.0),
            client: self.0.origin.clone(),
            sharing: Sharing::Allowed,
            asker: lookup.asker.clone(),
            parts: lookup.parts.clone(),
            browser: lookup.browser.clone(),
            stale,
            wanted,
            stand_in: match lookup.purpose {
                Purpose::Asked => StandIn::Allowed,
                Purpose::Predicted => StandIn::Forbidden,
            },
            epoch: self.0.writes.epoch(&lookup.parts.uri.to_string()),
            key,
        }
    }

    /// The answer to one request; `None` if its body should be in the cache and is not.
    async fn answer(
        &self,
        lookup: &Lookup,
        landed: &Landed,
        source: Source,
        reader: impl Into<Option<FlightReader>>,
    ) -> Option<Stored> {
        let facts = Facts {
            request: lookup.parts.headers.clone(),
            asker: lookup.asker.clone(),
            source,
            audience: match landed.keeping {
                Keeping::In(Partition::Shared) => Audience::Everybody,
                Keeping::In(Partition::Private(_)) | Keeping::Body | Keeping::No => Audience::Asker,
            },
        };
        let mut headers = landed.headers.clone();
        if is_not_modified_for(lookup, landed) {
            return Some(Stored {
                status: StatusCode::NOT_MODIFIED,
                headers: not_modified_fields(&headers),
                content: Content::None,
                facts,
            });
        }
        let content = match landed.body {
            LandedBody::None => Content::None,
            LandedBody::Flight => Content::Body(BodyReader::of_flight(reader.into()?)),
            LandedBody::Stored(chk) => {
                let body = self.0.cache.as_ref()?.body(chk).await?;
                // The length of what is stored is known, if that of what the origin sent was not.
                headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.length()));
                if lookup.parts.method == Method::HEAD {
                    Content::None
                } else {
                    Content::Body(BodyReader::of_stored(body))
                }
            }
        };
        Some(Stored {
            status: landed.status,
            headers,
            content,
            facts,
        })
    }
}

/// Whether what came for another request is right for this one, too.
fn is_for(lookup: &Lookup, landed: &Landed) -> bool {
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

/// Whether the browser has what would be the answer. For what is stored this is the cache's to say (RFC 9111 section
/// 4.3.2). What was fetched the origin has judged by the browser's conditions, unless it was asked about a stored
/// version instead: then an entity tag that the browser names is proof.
fn is_not_modified_for(lookup: &Lookup, landed: &Landed) -> bool {
    let readable = lookup.parts.method == Method::GET || lookup.parts.method == Method::HEAD;
    let judged = match landed.source {
        Source::Fetched | Source::Joined => lookup.parts.headers.contains_key(header::IF_NONE_MATCH),
        Source::Fresh | Source::StoodIn | Source::Validated => true,
    };
    readable && judged && is_not_modified(&lookup.parts.headers, landed.status, &landed.headers)
}

/// RFC 9111 section 5.2.1.7.
fn timeout_of_cache(lookup: &Lookup) -> Stored {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    hop::append_via(&mut headers, http::Version::HTTP_11);
    Stored {
        status: StatusCode::GATEWAY_TIMEOUT,
        headers,
        content: Content::None,
        facts: Facts {
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
