//! The task of a flight: fetches from the origin and delivers the response to the flight.
use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header, request::Parts};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Empty, combinators::UnsyncBoxBody};
use longhaul_cache::{Cost, Forget, ForgetWhat, Partition, Whose};
use longhaul_http::{
    clear_site_data::clears_cache,
    conditional::{RangeAnswer, range_answer},
    policy::{Reload, invalidates},
    request_context::origin_of,
};
use longhaul_origin::{ConnectionOwner, FetchError, OriginBody, OriginClient};
use longhaul_session::FailureReason;
use longhaul_types::{ContentHash, UnixTime};

use super::{
    Inner, Purpose, Source,
    coalesced_fetch::{CoalescedFetch, FetchedBody, FetchedResponse},
    feed::Feed,
    head::{Integrity, OriginContent, OriginHead, origin_head},
    rules::{self, Candidate, StorageDecision},
    validation::Validation,
    writes::{Epoch, Storing},
};
use crate::{asker::Asker, fetch::Failure};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Upload = UnsyncBoxBody<Bytes, BoxError>;

/// An origin fetch.
pub(super) struct OriginFetch {
    pub(super) inner: Arc<Inner>,
    /// The origin client to use.
    pub(super) client: OriginClient,
    pub(super) sharing: Sharing,
    /// The requester.
    pub(super) asker: Asker,
    /// The request for the origin, without the conditions of `stale`.
    pub(super) parts: Parts,
    pub(super) browser: HeaderMap,
    /// A stored response to validate.
    pub(super) stale: Option<Candidate>,
    /// The request's reload mode.
    pub(super) wanted: Reload,
    /// Permission of stale-if-error.
    pub(super) stand_in: StaleIfError,
    pub(super) purpose: Purpose,
    /// Invalidation epoch of the URL at the start of the fetch.
    pub(super) epoch: Epoch,
    /// Key under which other requests find the flight.
    pub(super) key: Option<[u8; 32]>,
}

/// Permission to store and share the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// As the fields of the response allow.
    Allowed,
    /// Never.
    Forbidden,
}

/// Permission of stale-if-error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StaleIfError {
    Allowed,
    Forbidden,
}

/// A response with the times of request and response.
pub(super) struct Received {
    pub(super) response: Response<OriginBody>,
    /// The request's fields that decide the storage of the response.
    pub(super) judged_by: HeaderMap,
    pub(super) requested_at: UnixTime,
    pub(super) received_at: UnixTime,
}

pub(super) fn now() -> UnixTime {
    // With a clock before 1970 every response is stale and is validated.
    UnixTime::new(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Ends a flight on drop, even if its task panics.
struct Ending {
    inner: Arc<Inner>,
    flight: Arc<CoalescedFetch>,
    key: Option<[u8; 32]>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.inner.flights.remove(&key, &self.flight);
        }
        self.flight.interrupt();
    }
}

impl OriginFetch {
    /// Uses another client, and neither stores nor shares the response.
    pub(super) fn past_the_cache(self, client: OriginClient) -> Self {
        Self {
            client,
            sharing: Sharing::Forbidden,
            ..self
        }
    }

    /// Runs until the response has been fed to the flight, or the flight has no reader.
    pub(super) async fn run(self, flight: Arc<CoalescedFetch>, upload: Option<Upload>) {
        let _ending = Ending {
            inner: Arc::clone(&self.inner),
            flight: Arc::clone(&flight),
            key: self.key,
        };
        let landed = tokio::select! {
            biased;
            landed = self.land(&flight, upload) => landed,
            () = abandoned(&flight) => return,
        };
        match landed {
            Ok(Some(feed)) => feed.run().await,
            Ok(None) => {}
            Err(failure) => flight.fail(failure),
        }
    }

    async fn land(
        &self,
        flight: &Arc<CoalescedFetch>,
        upload: Option<Upload>,
    ) -> Result<Option<Feed>, Failure> {
        let may_keep = upload.is_none() && self.sharing == Sharing::Allowed;
        let received = match &self.stale {
            None => self.send(self.parts.clone(), upload).await?,
            Some(candidate) => match self.validate(candidate).await? {
                Validation::FetchedResponse(landed) => {
                    flight.land(Arc::new(*landed), None);
                    return Ok(None);
                }
                Validation::Replaced(received) => *received,
            },
        };
        let Received {
            response,
            judged_by,
            requested_at,
            received_at,
        } = received;
        let (parts, body) = response.into_parts();
        let head = origin_head(&self.parts.method, &self.browser, parts, body.is_end_stream())?;
        if invalidates(&self.parts.method, head.status) {
            self.invalidate(&head.headers).await;
        }
        let keeping = if may_keep {
            self.keeping(&head, &judged_by)
        } else {
            StorageDecision::No
        };
        let OriginHead {
            status,
            headers,
            content,
            undo,
            ..
        } = head;
        let landed = |body| {
            Arc::new(FetchedResponse {
                status,
                headers,
                body,
                source: Source::Fetched,
                keeping,
                requested_at,
                received_at,
            })
        };
        match content {
            OriginContent::None => {
                let landed = landed(FetchedBody::None);
                flight.land(Arc::clone(&landed), None);
                if self.parts.method == Method::GET {
                    self.keep(&landed, None).await;
                }
                Ok(None)
            }
            OriginContent::Some(length) => {
                let landed = landed(FetchedBody::CoalescedFetch);
                let coded_length = body.size_hint().exact();
                let writer = match (&self.inner.cache, &landed.keeping) {
                    (Some(cache), StorageDecision::In(_) | StorageDecision::Body) => {
                        let took = landed.received_at.since_epoch();
                        let took = took.saturating_sub(landed.requested_at.since_epoch());
                        Some(cache.writer(Cost::measured(took)))
                    }
                    (_, StorageDecision::No) | (None, StorageDecision::In(_) | StorageDecision::Body) => None,
                };
                flight.land(Arc::clone(&landed), length);
                let keep = Keep {
                    inner: Arc::clone(&self.inner),
                    asker: self.asker.clone(),
                    parts: self.parts.clone(),
                    epoch: self.epoch,
                    landed,
                };
                Ok(Some(Feed::new(
                    Arc::clone(flight),
                    body,
                    undo,
                    coded_length,
                    writer,
                    keep,
                )))
            }
        }
    }

    /// Sends the request; repeats it without `Range` if the browser cannot use the partial response.
    pub(super) async fn send(&self, parts: Parts, upload: Option<Upload>) -> Result<Received, FetchError> {
        let mut requested_at = now();
        let (origin, owner) = (&self.client, ConnectionOwner::Device(*self.asker.device()));
        let empty = || -> Upload {
            Empty::<Bytes>::new()
                .map_err(|never| match never {})
                .boxed_unsync()
        };
        let body = upload.unwrap_or_else(empty);
        let judged_by = parts.headers.clone();
        let mut response = origin
            .fetch(Request::from_parts(parts.clone(), body), owner)
            .await?;
        if range_answer(&self.browser, response.status(), response.headers()) == RangeAnswer::FetchWhole {
            // The part counts coded bytes, but the browser holds decoded ones, so it gets the whole response.
            drop(response);
            let mut parts = parts;
            parts.headers.remove(header::RANGE);
            parts.headers.remove(header::IF_RANGE);
            longhaul_http::coding::set_accept_encoding(&mut parts.headers);
            requested_at = now();
            response = origin.fetch(Request::from_parts(parts, empty()), owner).await?;
        }
        self.clear_site_data(response.headers()).await;
        Ok(Received {
            response,
            judged_by,
            requested_at,
            received_at: now(),
        })
    }

    fn keeping(&self, head: &OriginHead, judged_by: &HeaderMap) -> StorageDecision {
        if head.integrity == Integrity::Doubtful {
            return StorageDecision::No;
        }
        let method = &self.parts.method;
        let decision = rules::keeping(&self.asker, method, judged_by, head.status, &head.headers);
        // The browser has not received the cookie yet. Stored responses have no `Set-Cookie`, so the browser's
        // own request must not be answered from the store.
        let sets_unseen_cookie =
            self.purpose == Purpose::Predicted && head.headers.contains_key(header::SET_COOKIE);
        if sets_unseen_cookie && matches!(decision, StorageDecision::In(_)) {
            return StorageDecision::Body;
        }
        decision
    }

    pub(super) async fn keep(&self, landed: &FetchedResponse, body: Option<(ContentHash, u64)>) {
        keep(&self.inner, &self.asker, &self.parts, self.epoch, landed, body).await;
    }

    pub(super) async fn forget(&self, partition: &Partition) {
        if let Some(cache) = &self.inner.cache {
            cache.remove(partition, &self.parts.uri.to_string()).await;
        }
    }

    /// RFC 9111 section 4.4: invalidates the request's URL, and the same-origin URLs that the response names.
    async fn invalidate(&self, response: &HeaderMap) {
        let Some(cache) = &self.inner.cache else { return };
        let own = self.parts.uri.to_string();
        let mut urls = vec![own];
        for name in [header::LOCATION, header::CONTENT_LOCATION] {
            let value = response.get(name).and_then(|value| value.to_str().ok());
            urls.extend(value.and_then(|value| same_origin(&self.parts.uri, value)));
        }
        for url in urls {
            self.inner.writes.invalidate(&url);
            cache.remove(&Partition::Shared, &url).await;
            cache.forget_url(self.asker.owner(), &url).await;
        }
    }

    /// Handles `Clear-Site-Data`: deletes the origin's stored responses for this client. The response is
    /// forwarded only afterwards, so that the browser's next request gets no response from before the logout.
    async fn clear_site_data(&self, response: &HeaderMap) {
        let Some(cache) = self.inner.cache.as_ref().filter(|_| clears_cache(response)) else {
            return;
        };
        let url = self.parts.uri.to_string();
        let Some(origin) = origin_of(&url) else { return };
        self.inner.writes.invalidate(origin);
        // Includes responses that were validated just before.
        self.inner.writes.finished().await;
        let forget = Forget {
            whose: Whose::Client(self.asker.owner()),
            what: ForgetWhat::Origin(origin.to_owned()),
        };
        cache.forget(forget).await;
    }
}

/// State with which a feed stores the response once its body is complete.
pub(super) struct Keep {
    pub(super) inner: Arc<Inner>,
    pub(super) asker: Asker,
    pub(super) parts: Parts,
    pub(super) epoch: Epoch,
    pub(super) landed: Arc<FetchedResponse>,
}

impl Keep {
    pub(super) async fn keep(&self, chk: ContentHash, length: u64) {
        let body = Some((chk, length));
        keep(
            &self.inner,
            &self.asker,
            &self.parts,
            self.epoch,
            &self.landed,
            body,
        )
        .await;
    }

    /// Announces that the response will be stored in a moment.
    pub(super) fn announce(&self) -> Storing {
        self.inner.writes.begin(&self.parts.uri.to_string())
    }
}

async fn keep(
    inner: &Inner,
    asker: &Asker,
    parts: &Parts,
    epoch: Epoch,
    landed: &FetchedResponse,
    body: Option<(ContentHash, u64)>,
) {
    let (Some(cache), StorageDecision::In(partition)) = (&inner.cache, &landed.keeping) else {
        return;
    };
    if inner.writes.epoch(&parts.uri.to_string()) != epoch {
        return;
    }
    let stored = |partition| {
        rules::to_store(
            partition,
            asker,
            parts,
            landed.status,
            &landed.headers,
            (landed.requested_at, landed.received_at),
            body,
        )
    };
    cache.put(stored(partition.clone())).await;
    // The client that requested it may request it again from other pages, with another `Referer`.
    if *partition == Partition::Shared
        && let Some(own) = asker.partition()
    {
        cache.put(rules::as_copy(stored(own))).await;
    }
}

/// Resolves a reference of a response to an absolute URL of the same origin as `base`. Accepts only absolute
/// URLs and absolute paths, which other caches also invalidate.
fn same_origin(base: &http::Uri, reference: &str) -> Option<String> {
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    let origin = format!("{scheme}://{authority}");
    let reference = reference.split('#').next().unwrap_or_default();
    if reference.starts_with('/') && !reference.starts_with("//") {
        return Some(format!("{origin}{reference}"));
    }
    let rest = reference.strip_prefix(&origin)?;
    rest.starts_with('/').then(|| reference.to_owned())
}

/// Completes once the flight has no reader and is abandoned.
async fn abandoned(flight: &CoalescedFetch) {
    loop {
        flight.unread().await;
        if flight.abandon() {
            return;
        }
    }
}

/// The failure of a flight whose task ended without a result.
pub(super) fn interrupted() -> Failure {
    Failure::new(FailureReason::Internal, "the fetch was interrupted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_origin_is_invalidated() {
        let base: http::Uri = "http://a.test:81/form".parse().unwrap();
        let of = |reference| same_origin(&base, reference);
        assert_eq!(of("/list?x#y").as_deref(), Some("http://a.test:81/list?x"));
        assert_eq!(
            of("http://a.test:81/list").as_deref(),
            Some("http://a.test:81/list")
        );
        for other in [
            "http://a.test:8/x",
            "https://a.test:81/x",
            "//b.test/x",
            "list",
            "http://a.test:810/",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
