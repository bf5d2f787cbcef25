//! State that the cache shares with its fetching tasks.
use std::sync::Arc;

use longhaul_cache::Cache;
use longhaul_origin::OriginClient;

use super::{
    coalesced_fetches::CoalescedFetches, counters::CacheCounters, cpu_pool::CpuPool, decoding::DecoderMemory,
    device_hops::DeviceHops, first_use_urls::FirstUseUrls, overflow::Overflow, write_order::Writes,
};

/// State shared by the clones of a `WebCache` and its fetching tasks.
pub(super) struct SharedState {
    /// Nothing is stored without a cache.
    pub(super) cache: Option<Cache>,
    pub(super) origin: OriginClient,
    /// Thread pool that removes content codings.
    pub(super) cpu_pool: Arc<CpuPool>,
    pub(super) decoder_memory: Arc<DecoderMemory>,
    pub(super) coalesced: CoalescedFetches,
    pub(super) writes: Arc<Writes>,
    pub(super) first_use: FirstUseUrls,
    pub(super) counters: CacheCounters,
    /// Which devices can receive.
    pub(super) hops: Arc<DeviceHops>,
    /// Bodies of devices that cannot.
    pub(super) overflow: Arc<Overflow>,
}
