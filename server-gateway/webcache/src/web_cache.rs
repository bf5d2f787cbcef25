//! Answers requests from stored responses, from coalesced fetches and from the origin.
use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use http_body::Body;
use http_body_util::BodyExt as _;
use longhaul_cache::{Cache, Deletion, Partition, StoredResponse};
use longhaul_http::policy::{Reload, Reuse, only_if_cached};
use longhaul_origin::OriginClient;
use longhaul_types::{ByteCount, PublicKey};
use tokio::time::timeout;

use super::{
    coalesced_fetch::{FetchedBody, FetchedResponse},
    coalesced_fetches::{CoalescedFetches, JoinResult, RequestOrder},
    coalescing_key::coalescing_key,
    counters::CacheCounters,
    cpu_pool::CpuPool,
    decoding::DecoderMemory,
    device_hops::SessionHop,
    failure::FetchFailure,
    first_use_urls::FirstUseUrls,
    origin_fetch::{OriginFetch, Sharing, StaleIfError, Upload, now},
    overflow::{Overflow, OverflowLimits},
    request::{CacheRequest, OriginRequest, Purpose},
    request_response::{gateway_timeout, is_for, response_for},
    requester_identity::RequesterIdentity,
    response::{CacheStatus, GatewayResponse},
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
    /// content codings. `overflow` limits what is kept for devices whose hop is away.
    pub fn new(
        cache: Option<Cache>,
        origin: OriginClient,
        cpu_pool: Arc<CpuPool>,
        overflow: OverflowLimits,
    ) -> Self {
        Self(Arc::new(SharedState {
            cache,
            origin,
            cpu_pool,
            decoder_memory: DecoderMemory::new(),
            coalesced: CoalescedFetches::default(),
            writes: Arc::default(),
            first_use: FirstUseUrls::default(),
            counters: CacheCounters::default(),
            hops: Arc::default(),
            overflow: Arc::new(Overflow::new(overflow)),
        }))
    }

    /// The cache, if one exists, for records and mirrors.
    pub fn cache(&self) -> Option<&Cache> {
        self.0.cache.as_ref()
    }

    /// Registers a session of a device, which says while it lasts whether the device can receive.
    pub fn enter_session(&self, device: PublicKey) -> SessionHop {
        self.0.hops.enter(device)
    }

    /// Bytes of bodies on disk for devices whose hop is away.
    pub fn overflow_bytes(&self) -> u64 {
        self.0.overflow.bytes()
    }

    /// Memory of the decoders of origins' content codings.
    pub fn decoder_memory(&self) -> ByteCount {
        self.0.decoder_memory.used()
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
            body: FetchedBody::of_stored(candidate.stored.chk),
            cache_status: CacheStatus::Hit,
            storage_decision: StorageDecision::In(candidate.stored.partition.clone()),
            requested_at: candidate.stored.requested_at,
            received_at: candidate.stored.received_at,
            origin_size: candidate.origin_size(),
        };
        response_for(&self.0, request, &fetched, CacheStatus::Hit, None).await
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
        let owner = request.identity.owner();
        let order = RequestOrder {
            newest_unsafe: self
                .0
                .writes
                .newest_unsafe(&owner, &request.parts.uri.to_string()),
            fetch: self.0.writes.number_fetch(),
        };
        let device = *request.identity.device();
        let (reader, joined) = match self.0.coalesced.join_or_start(key, device, order) {
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
            if let Some(response) = response_for(&self.0, &request, &fetched, cache_status, reader).await {
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
        let reader = self.0.coalesced.start_alone(*request.identity.device());
        tokio::spawn(origin_fetch.run(Arc::clone(&reader.coalesced), upload));
        let fetched = reader.coalesced.head().await?;
        let response = response_for(&self.0, request, &fetched, fetched.cache_status, reader).await;
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
}

impl fmt::Debug for WebCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebCache")
            .field("coalesced", &self.0.coalesced)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
