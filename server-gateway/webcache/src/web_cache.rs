//! Answers requests from stored responses, from coalesced fetches and from the origin.
use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt as _;
use longhaul_cache::{Cache, Deletion, Partition, StoredResponse};
use longhaul_http::{
    conditional::{is_not_modified, not_modified_fields},
    hop_by_hop,
    policy::{Reload, Reuse, only_if_cached},
};
use longhaul_origin::OriginClient;
use tokio::time::timeout;

use super::{
    body_reader::BodyReader,
    coalesced_fetch::{CoalescedReader, FetchedBody, FetchedResponse},
    coalesced_fetches::{CoalescedFetches, JoinResult},
    coalescing_key::coalescing_key,
    counters::CacheCounters,
    cpu_pool::CpuPool,
    failure::FetchFailure,
    origin_fetch::{OriginFetch, Sharing, StaleIfError, Upload, now},
    origin_size::OriginSize,
    request::{CacheRequest, OriginRequest, Purpose},
    requester_identity::RequesterIdentity,
    response::{Audience, CacheStatus, Content, GatewayResponse, ResponseContext},
    selection_rules::{self, Candidate},
    shared_state::SharedState,
    storage_rules::StorageDecision,
};

/// Maximum wait for the head of a response that another device requested. Most heads arrive sooner; for the
/// others a second request is sent.
const OTHER_DEVICE_WAIT: Duration = Duration::from_millis(500);

/// The cache and the origin client. Clones share their state.
#[derive(Clone)]
pub struct WebCache(pub(super) Arc<SharedState>);

impl WebCache {
    /// Creates a cache of an optional cache and an origin client. `cpu_pool` is the thread pool that removes
    /// content codings.
    pub fn new(cache: Option<Cache>, origin: OriginClient, cpu_pool: Arc<CpuPool>) -> Self {
        Self(Arc::new(SharedState {
            cache,
            origin,
            cpu_pool,
            coalesced: CoalescedFetches::default(),
            writes: Arc::default(),
            counters: CacheCounters::default(),
        }))
    }

    /// The cache, if one exists, for records and mirrors.
    pub fn cache(&self) -> Option<&Cache> {
        self.0.cache.as_ref()
    }

    /// The counters.
    pub fn counters(&self) -> &CacheCounters {
        &self.0.counters
    }

    /// Closes the cache after pending writes, for which it waits a bounded time; nothing is stored
    /// afterwards.
    pub async fn close(&self) {
        if let Some(cache) = &self.0.cache {
            self.0.writes.finished().await;
            cache.clone().close().await;
        }
    }

    /// Deletes data from the cache; responses in progress are not stored either.
    pub async fn forget(&self, forget: Deletion) {
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
    pub async fn fetch(&self, request: CacheRequest) -> Result<GatewayResponse, FetchFailure> {
        let reload_mode = match request.reload {
            Reload::None => longhaul_http::policy::reload(&request.parts.headers),
            Reload::Revalidate | Reload::Bypass => request.reload,
        };
        let candidate = self.candidate(&request, reload_mode).await;
        let mut stale = None;
        if let Some(candidate) = candidate {
            if let Reuse::Fresh(fields) = &candidate.reuse {
                if let Some(response) = self.fresh(&request, &candidate, fields.clone()).await {
                    self.0.counters.answered(CacheStatus::Hit);
                    return Ok(response);
                }
            } else {
                stale = Some(candidate);
            }
        }
        if only_if_cached(&request.parts.headers) {
            return Ok(gateway_timeout(&request));
        }
        self.fetch_coalesced(request, reload_mode, stale).await
    }

    /// Sends a request without body with the given client, bypassing the cache. The response is neither
    /// shared nor stored.
    ///
    /// # Errors
    /// Returns the failure if there is no response.
    pub async fn fetch_bypassing_cache(
        &self,
        request: CacheRequest,
        client: &OriginClient,
    ) -> Result<GatewayResponse, FetchFailure> {
        let origin_fetch = self.origin_fetch(&request, Reload::Bypass, None, None);
        self.fetch_alone(&request, origin_fetch.bypassing_cache(client.clone()), None)
            .await
    }

    /// Sends a request with body. The request is never repeated; the response is neither shared nor stored.
    ///
    /// # Errors
    /// Returns the failure if there is no response.
    pub async fn upload<B>(&self, outgoing: OriginRequest, body: B) -> Result<GatewayResponse, FetchFailure>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let upload: Upload = body.map_err(Into::into).boxed_unsync();
        let request = CacheRequest {
            identity: outgoing.identity,
            parts: outgoing.parts,
            browser: outgoing.browser,
            reload: Reload::None,
            purpose: Purpose::Requested,
        };
        let mut origin_fetch = self.origin_fetch(&request, Reload::None, None, None);
        if let Some(client) = &outgoing.login {
            origin_fetch = origin_fetch.bypassing_cache(OriginClient::clone(client));
        }
        self.fetch_alone(&request, origin_fetch, Some(upload)).await
    }

    /// Returns the best stored response for the request.
    async fn candidate(&self, request: &CacheRequest, reload_mode: Reload) -> Option<Candidate> {
        let cache = self.0.cache.as_ref()?;
        let method = &request.parts.method;
        if reload_mode == Reload::Bypass || (*method != Method::GET && *method != Method::HEAD) {
            return None;
        }
        let url = request.parts.uri.to_string();
        self.0.writes.settled(&url).await;
        let found = self.stored(cache, &request.identity, &url).await;
        let context = request.identity.context();
        selection_rules::select(
            found,
            context,
            &request.parts,
            &request.browser,
            reload_mode,
            now(),
        )
    }

    /// The stored responses of a URL in the requester's partition and the shared partition.
    pub(super) async fn stored(
        &self,
        cache: &Cache,
        identity: &RequesterIdentity,
        url: &str,
    ) -> Vec<StoredResponse> {
        let mut found = cache.find(&Partition::Shared, url).await;
        if let Some(own) = identity.partition() {
            found.extend(cache.find(&own, url).await);
        }
        found
    }

    async fn fresh(
        &self,
        request: &CacheRequest,
        candidate: &Candidate,
        headers: HeaderMap,
    ) -> Option<GatewayResponse> {
        let fetched = FetchedResponse {
            status: candidate.status,
            headers,
            body: candidate
                .stored
                .chk
                .map_or(FetchedBody::None, FetchedBody::Stored),
            cache_status: CacheStatus::Hit,
            storage_decision: StorageDecision::In(candidate.stored.partition.clone()),
            requested_at: candidate.stored.requested_at,
            received_at: candidate.stored.received_at,
            origin_size: candidate.origin_size(),
        };
        self.response_for(request, &fetched, CacheStatus::Hit, None).await
    }

    /// Sends the request to the origin, or joins an equal request in progress if it is shareable.
    async fn fetch_coalesced(
        &self,
        request: CacheRequest,
        reload_mode: Reload,
        stale: Option<Candidate>,
    ) -> Result<GatewayResponse, FetchFailure> {
        let shareable = request.parts.method == Method::GET
            && reload_mode != Reload::Bypass
            && !request.parts.headers.contains_key(header::RANGE);
        if !shareable {
            return self
                .fetch_alone(
                    &request,
                    self.origin_fetch(&request, reload_mode, stale, None),
                    None,
                )
                .await;
        }
        let key = coalescing_key(&request.identity, &request.parts);
        let (reader, joined) = match self.0.coalesced.join_or_start(key, *request.identity.device()) {
            JoinResult::First(reader) => {
                let origin_fetch = self.origin_fetch(&request, reload_mode, stale, Some(key));
                tokio::spawn(origin_fetch.run(Arc::clone(&reader.coalesced), None));
                (reader, false)
            }
            JoinResult::Coalesced(reader) => (reader, true),
            // The other device's limits, and failures caused by them, must not affect this request.
            JoinResult::CoalescedWithOther(reader) => {
                match timeout(OTHER_DEVICE_WAIT, reader.coalesced.head()).await {
                    Ok(Ok(_)) => (reader, true),
                    Ok(Err(_)) | Err(_) => {
                        drop(reader);
                        let origin_fetch = self.origin_fetch(&request, reload_mode, stale, None);
                        return self.fetch_alone(&request, origin_fetch, None).await;
                    }
                }
            }
        };
        let fetched = reader.coalesced.head().await?;
        if !joined || is_for(&request, &fetched) && reader.coalesced.admits(request.identity.device()) {
            let cache_status = if joined {
                CacheStatus::Coalesced
            } else {
                fetched.cache_status
            };
            if let Some(response) = self.response_for(&request, &fetched, cache_status, reader).await {
                self.0.counters.answered(cache_status);
                return Ok(response);
            }
            // The body was evicted after the lookup.
        } else {
            // An idle reader must not block the other readers.
            drop(reader);
        }
        self.fetch_alone(
            &request,
            self.origin_fetch(&request, reload_mode, None, None),
            None,
        )
        .await
    }

    /// Sends the request to the origin for this request alone.
    async fn fetch_alone(
        &self,
        request: &CacheRequest,
        origin_fetch: OriginFetch,
        upload: Option<Upload>,
    ) -> Result<GatewayResponse, FetchFailure> {
        let reader = self.0.coalesced.start_alone();
        tokio::spawn(origin_fetch.run(Arc::clone(&reader.coalesced), upload));
        let fetched = reader.coalesced.head().await?;
        let response = self
            .response_for(request, &fetched, fetched.cache_status, reader)
            .await;
        self.0.counters.answered(fetched.cache_status);
        response.ok_or(FetchFailure::Interrupted)
    }

    fn origin_fetch(
        &self,
        request: &CacheRequest,
        reload_mode: Reload,
        stale: Option<Candidate>,
        key: Option<[u8; 32]>,
    ) -> OriginFetch {
        OriginFetch {
            inner: Arc::clone(&self.0),
            client: self.0.origin.clone(),
            sharing: Sharing::Allowed,
            identity: request.identity.clone(),
            parts: request.parts.clone(),
            browser: request.browser.clone(),
            stale,
            reload_mode,
            stale_if_error: match request.purpose {
                Purpose::Requested => StaleIfError::Allowed,
                Purpose::Predicted => StaleIfError::Forbidden,
            },
            purpose: request.purpose,
            epoch: self.0.writes.epoch(&request.parts.uri.to_string()),
            key,
        }
    }

    /// Builds the response to one request; `None` if its body is no longer in the cache.
    async fn response_for(
        &self,
        request: &CacheRequest,
        fetched: &FetchedResponse,
        cache_status: CacheStatus,
        reader: impl Into<Option<CoalescedReader>>,
    ) -> Option<GatewayResponse> {
        let response_context = ResponseContext {
            request: request.parts.headers.clone(),
            identity: request.identity.clone(),
            cache_status,
            audience: match fetched.storage_decision {
                StorageDecision::In(Partition::Shared) => Audience::Everybody,
                StorageDecision::In(Partition::Private(_)) | StorageDecision::Body | StorageDecision::No => {
                    Audience::RequestingDevice
                }
            },
            origin_size: fetched.origin_size.clone(),
        };
        let mut headers = fetched.headers.clone();
        if is_not_modified_for(request, fetched) {
            return Some(GatewayResponse {
                status: StatusCode::NOT_MODIFIED,
                headers: not_modified_fields(&headers),
                content: Content::None,
                response_context,
            });
        }
        let content = match fetched.body {
            FetchedBody::None => Content::None,
            FetchedBody::Spooled => Content::Body(BodyReader::of_coalesced(reader.into()?)),
            FetchedBody::Stored(chk) => {
                let body = self.0.cache.as_ref()?.body(chk).await?;
                // The length of a stored body is known even if the origin did not announce it.
                headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.length()));
                if request.parts.method == Method::HEAD {
                    Content::None
                } else {
                    Content::Body(BodyReader::of_stored(body))
                }
            }
        };
        Some(GatewayResponse {
            status: fetched.status,
            headers,
            content,
            response_context,
        })
    }
}

/// Returns true if the response to another request also answers this one.
fn is_for(request: &CacheRequest, fetched: &FetchedResponse) -> bool {
    selection_rules::answers_too(
        &request.identity,
        &request.parts,
        &fetched.storage_decision,
        fetched.status,
        &fetched.headers,
        (fetched.requested_at, fetched.received_at),
        now(),
    )
}

/// Returns true if the browser already has the response. For stored responses the cache evaluates the
/// browser's condition (RFC 9111 section 4.3.2). For a fetched response the origin has evaluated it, unless
/// the gateway sent the condition of a stored version instead: then only a matching entity tag is sufficient.
fn is_not_modified_for(request: &CacheRequest, fetched: &FetchedResponse) -> bool {
    let readable = request.parts.method == Method::GET || request.parts.method == Method::HEAD;
    let judged = match fetched.cache_status {
        CacheStatus::Miss | CacheStatus::Coalesced => {
            request.parts.headers.contains_key(header::IF_NONE_MATCH)
        }
        CacheStatus::Hit | CacheStatus::Stale | CacheStatus::Revalidated => true,
    };
    readable && judged && is_not_modified(&request.parts.headers, fetched.status, &fetched.headers)
}

/// 504 for `only-if-cached` without a stored response (RFC 9111 section 5.2.1.7).
fn gateway_timeout(request: &CacheRequest) -> GatewayResponse {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    hop_by_hop::append_via(&mut headers, http::Version::HTTP_11);
    GatewayResponse {
        status: StatusCode::GATEWAY_TIMEOUT,
        headers,
        content: Content::None,
        response_context: ResponseContext {
            request: request.parts.headers.clone(),
            identity: request.identity.clone(),
            cache_status: CacheStatus::Hit,
            audience: Audience::RequestingDevice,
            origin_size: OriginSize::none(),
        },
    }
}

impl fmt::Debug for WebCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebCache")
            .field("coalesced", &self.0.coalesced)
            .finish_non_exhaustive()
    }
}
