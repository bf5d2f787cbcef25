//! The task of a coalesced fetch: fetches from the origin and delivers the response to the coalesced fetch.
use std::{sync::Arc, time::SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header, request::Parts};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Empty, combinators::UnsyncBoxBody};
use longhaul_cache::{Cost, Deletion, DeletionScope, OwnerSelection, Partition};
use longhaul_http::{
    clear_site_data::clears_cache,
    coding::ORIGIN_ACCEPT_ENCODING,
    conditional::{RangeAnswer, range_answer},
    policy::{Reload, invalidated_urls, may_share},
    request_context::origin_of,
};
use longhaul_origin::{ConnectionUse, FetchError, OriginBody, OriginClient};
use longhaul_types::{ContentHash, UnixTime};

use super::{
    body_feed::Feed,
    coalesced_fetch::{CoalescedFetch, FetchedBody, FetchedResponse},
    decoding::Decoding,
    failure::FetchFailure,
    origin_head::{Integrity, OriginContent, OriginHead, origin_head},
    origin_size::OriginSize,
    pending_storage::{PendingStorage, store},
    request::Purpose,
    requester_identity::RequesterIdentity,
    response::CacheStatus,
    selection_rules::Candidate,
    shared_state::SharedState,
    storage_rules::{self, StorageDecision},
    validation::Validation,
    write_order::{Epoch, Storing},
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Upload = UnsyncBoxBody<Bytes, BoxError>;

/// An origin fetch.
pub(super) struct OriginFetch {
    pub(super) inner: Arc<SharedState>,
    /// The origin client to use.
    pub(super) client: OriginClient,
    pub(super) sharing: Sharing,
    /// The requester.
    pub(super) identity: RequesterIdentity,
    /// The request for the origin, without the conditions of `stale`.
    pub(super) parts: Parts,
    pub(super) browser: HeaderMap,
    /// A stored response to validate.
    pub(super) stale: Option<Candidate>,
    /// The request's reload mode.
    pub(super) reload_mode: Reload,
    /// Permission of stale-if-error.
    pub(super) stale_if_error: StaleIfError,
    pub(super) purpose: Purpose,
    /// Invalidation epoch of the URL at the start of the fetch.
    pub(super) epoch: Epoch,
    /// Key under which other requests find the coalesced fetch.
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
    pub(super) deciding_fields: HeaderMap,
    pub(super) connection_use: ConnectionUse,
    pub(super) requested_at: UnixTime,
    pub(super) received_at: UnixTime,
}

pub(super) fn now() -> UnixTime {
    SystemTime::now().into()
}

/// What is left to do once the head of a response is known. It is not cancelled when the last reader leaves.
enum Rest {
    /// The body is read; the feed itself decides what a body without reader is worth.
    Feed(Box<Feed>),
    /// The response has no body, and is stored if its storage decision allows it.
    Store(Arc<FetchedResponse>, Storing),
}

/// Ends a coalesced fetch on drop, even if its task panics.
struct Ending {
    inner: Arc<SharedState>,
    coalesced: Arc<CoalescedFetch>,
    key: Option<[u8; 32]>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.inner.coalesced.remove(&key, &self.coalesced);
        }
        self.coalesced.interrupt();
    }
}

impl OriginFetch {
    /// Uses another client, and neither stores nor shares the response.
    pub(super) fn bypassing_cache(self, client: OriginClient) -> Self {
        Self {
            client,
            sharing: Sharing::Forbidden,
            ..self
        }
    }

    /// Runs until the response has been fed to the coalesced fetch, or the coalesced fetch has no reader.
    pub(super) async fn run(self, coalesced: Arc<CoalescedFetch>, upload: Option<Upload>) {
        let _ending = Ending {
            inner: Arc::clone(&self.inner),
            coalesced: Arc::clone(&coalesced),
            key: self.key,
        };
        let fetched = tokio::select! {
            biased;
            fetched = self.receive(&coalesced, upload) => fetched,
            () = abandoned(&coalesced) => return,
        };
        match fetched {
            Ok(Some(Rest::Feed(feed))) => feed.run().await,
            Ok(Some(Rest::Store(fetched, storing))) => {
                self.store(&fetched, None).await;
                drop(storing);
            }
            Ok(None) => {}
            Err(failure) => coalesced.fail(failure),
        }
    }

    async fn receive(
        &self,
        coalesced: &Arc<CoalescedFetch>,
        upload: Option<Upload>,
    ) -> Result<Option<Rest>, FetchFailure> {
        let may_store = upload.is_none() && self.sharing == Sharing::Allowed;
        let received = match &self.stale {
            None => {
                self.record_unsafe();
                let sent = self.send(self.parts.clone(), upload).await;
                self.record_unsafe();
                sent?
            }
            Some(candidate) => match self.validate(candidate).await? {
                Validation::Response(fetched) => {
                    coalesced.set_head(Arc::new(*fetched), None);
                    return Ok(None);
                }
                Validation::Replaced(received) => *received,
            },
        };
        let Received {
            response,
            deciding_fields,
            connection_use,
            requested_at,
            received_at,
        } = received;
        let (parts, body) = response.into_parts();
        let origin_size = OriginSize::of_head(parts.version, parts.status, &parts.headers);
        let head = origin_head(&self.parts, &self.browser, parts, body.is_end_stream())?;
        self.invalidate(head.status, &head.headers).await;
        let storage_decision = if may_store {
            self.storage_decision(&head, &deciding_fields, connection_use)
        } else {
            StorageDecision::No
        };
        let OriginHead {
            status,
            headers,
            content,
            decoded,
            ..
        } = head;
        let fetched = |body| {
            Arc::new(FetchedResponse {
                status,
                headers,
                body,
                cache_status: CacheStatus::Miss,
                storage_decision,
                requested_at,
                received_at,
                origin_size,
            })
        };
        match content {
            OriginContent::None => {
                let fetched = fetched(FetchedBody::None);
                let is_stored = self.parts.method == Method::GET;
                let storing = is_stored.then(|| self.inner.writes.begin(&self.parts.uri.to_string()));
                coalesced.set_head(Arc::clone(&fetched), None);
                Ok(storing.map(|storing| Rest::Store(fetched, storing)))
            }
            OriginContent::Some(length) => {
                let fetched = fetched(FetchedBody::Spooled);
                let coded_length = body.size_hint().exact();
                let writer = match (&self.inner.cache, &fetched.storage_decision) {
                    (None, _) | (_, StorageDecision::No) => None,
                    (
                        Some(cache),
                        StorageDecision::In(_) | StorageDecision::Uncertain(_) | StorageDecision::Body,
                    ) => {
                        let took = fetched.received_at.since_epoch();
                        let took = took.saturating_sub(fetched.requested_at.since_epoch());
                        Some(cache.writer(Cost::measured(took)))
                    }
                };
                coalesced.set_head(Arc::clone(&fetched), length);
                let device = self.identity.share();
                let decoding =
                    decoded.map(|codings| Decoding::new(&self.inner.decoder_memory, device, codings));
                let pending = PendingStorage {
                    inner: Arc::clone(&self.inner),
                    identity: self.identity.clone(),
                    parts: self.parts.clone(),
                    epoch: self.epoch,
                    response: fetched,
                };
                let coalesced = Arc::clone(coalesced);
                let feed = Feed::new(coalesced, body, decoding, coded_length, writer, pending);
                Ok(Some(Rest::Feed(Box::new(feed))))
            }
        }
    }

    /// Sends the request; repeats it without `Range` if the browser cannot use the partial response.
    pub(super) async fn send(&self, parts: Parts, upload: Option<Upload>) -> Result<Received, FetchError> {
        let mut requested_at = now();
        let (origin, owner) = (&self.client, self.identity.connection_owner());
        let empty = || -> Upload {
            Empty::<Bytes>::new()
                .map_err(|never| match never {})
                .boxed_unsync()
        };
        let body = upload.unwrap_or_else(empty);
        let deciding_fields = parts.headers.clone();
        let required_use = self.required_use();
        let request = |parts: Parts, body| {
            let mut request = Request::from_parts(parts, body);
            request.extensions_mut().insert(required_use);
            request
        };
        let mut response = origin.fetch(request(parts.clone(), body), owner).await?;
        let (path, status) = (parts.uri.path(), response.status());
        if range_answer(&self.browser, path, status, response.headers()) == RangeAnswer::FetchWhole {
            // The part counts coded bytes, but the browser holds decoded ones, so it gets the whole response.
            drop(response);
            let mut parts = parts;
            parts.headers.remove(header::RANGE);
            parts.headers.remove(header::IF_RANGE);
            parts
                .headers
                .insert(header::ACCEPT_ENCODING, ORIGIN_ACCEPT_ENCODING);
            requested_at = now();
            response = origin.fetch(request(parts, empty()), owner).await?;
        }
        self.clear_site_data(response.headers()).await;
        Ok(Received {
            connection_use: response.extensions().get().copied().unwrap_or_default(),
            response,
            deciding_fields,
            requested_at,
            received_at: now(),
        })
    }

    /// If the request is unsafe, its owner joins no fetch of the site that began before now.
    fn record_unsafe(&self) {
        if !self.parts.method.is_safe() {
            let url = self.parts.uri.to_string();
            self.inner.writes.record_unsafe(&self.identity.owner(), &url);
        }
    }

    fn storage_decision(
        &self,
        head: &OriginHead,
        deciding_fields: &HeaderMap,
        connection_use: ConnectionUse,
    ) -> StorageDecision {
        if head.integrity == Integrity::Doubtful {
            return StorageDecision::No;
        }
        let decision = self.decision_about(head.status, &head.headers, deciding_fields, connection_use);
        // The browser has not received the cookie yet. Stored responses have no `Set-Cookie`, so the browser's
        // own request must not be answered from the store.
        let sets_unseen_cookie =
            self.purpose == Purpose::Predicted && head.headers.contains_key(header::SET_COOKIE);
        if sets_unseen_cookie && decision != StorageDecision::No {
            return StorageDecision::Body;
        }
        decision
    }

    /// The storage decision by request, response and connection.
    pub(super) fn decision_about(
        &self,
        status: StatusCode,
        response: &HeaderMap,
        deciding_fields: &HeaderMap,
        connection_use: ConnectionUse,
    ) -> StorageDecision {
        let (identity, method) = (&self.identity, &self.parts.method);
        let decision = storage_rules::storage_decision(identity, method, deciding_fields, status, response);
        let is_certain = connection_use == ConnectionUse::First;
        if is_certain || decision != StorageDecision::In(Partition::Shared) {
            return decision;
        }
        self.inner.first_use.remember(&self.parts.uri.to_string());
        storage_rules::uncertain(identity)
    }

    /// The use of its connection that the request requires, so that its response may be shared.
    fn required_use(&self) -> ConnectionUse {
        if !self.parts.method.is_safe() || self.sharing == Sharing::Forbidden {
            return ConnectionUse::Any;
        }
        // For a client without a partition, only a response that can be shared is stored.
        let is_only_shared = self.identity.is_of_network() && self.identity.partition().is_none();
        if is_only_shared && may_share(&self.parts.headers) {
            return ConnectionUse::First;
        }
        let validates_shared = |stale: &Candidate| stale.stored.partition == Partition::Shared;
        if self.stale.as_ref().is_some_and(validates_shared) {
            return ConnectionUse::First;
        }
        self.inner.first_use.required(&self.parts.uri.to_string())
    }

    pub(super) async fn store(&self, fetched: &FetchedResponse, body: Option<(ContentHash, u64)>) {
        store(
            &self.inner,
            &self.identity,
            &self.parts,
            self.epoch,
            fetched,
            body,
        )
        .await;
    }

    pub(super) async fn remove_stored(&self, partition: &Partition) {
        if let Some(cache) = &self.inner.cache {
            cache.remove(partition, &self.parts.uri.to_string()).await;
        }
    }

    /// Removes the stored responses that a response to an unsafe request invalidates.
    async fn invalidate(&self, status: StatusCode, response: &HeaderMap) {
        let Some(cache) = &self.inner.cache else { return };
        let own = self.parts.uri.to_string();
        for url in invalidated_urls(&self.parts.method, &own, status, response) {
            self.inner.writes.invalidate(&url);
            cache.remove(&Partition::Shared, &url).await;
            cache.forget_url(self.identity.owner(), &url).await;
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
        let forget = Deletion {
            whose: OwnerSelection::Client(self.identity.owner()),
            what: DeletionScope::Origin(origin.to_owned()),
        };
        cache.forget(forget).await;
    }
}

/// Completes once the coalesced fetch has no reader and is abandoned.
async fn abandoned(coalesced: &CoalescedFetch) {
    loop {
        coalesced.unread().await;
        if coalesced.abandon() {
            return;
        }
    }
}
