//! The state of all sessions from the settings: the cache, the origin client, images and pools.
use std::{net::SocketAddr, sync::Arc, time::SystemTime};

use arc_swap::ArcSwap;
use longhaul_cache::{Cache, CacheConfig, OpenError, Storage};
use longhaul_codec::{MIX_MEMORY, MemoryShares};
use longhaul_delivery::{DELTA_BASE_MEMORY, EncodedCache};
use longhaul_driver::{EndpointCounters, QuicDrops};
use longhaul_http::request_context::CredentialsSecret;
use longhaul_images::{
    Images,
    picture_workers::{Settings, TranscodeTimeouts},
};
use longhaul_origin::{Guard, OriginClient, OriginConfig, Timeouts};
use longhaul_session::Announcement;
use longhaul_types::ByteCount;
use longhaul_webcache::{CpuPool, OverflowLimits, WebCache};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::warn;

use crate::{
    admin::{metrics::Metrics, page_load_counters::PageLoadCounters, session_ledger::SessionLedger},
    admission::{shared_keys::SharedKeys, state::StateError},
    association_slots::AssociationSlots,
    config::Config,
    drain::Drain,
    extra_ca::{self, OriginSettingsError},
    gateway::{Gateway, Rules},
    lessons::Lessons,
    open_files, own_addresses,
    page_parsers::ParserPool,
};

/// Errors of [`new_gateway`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The cache cannot be opened.
    #[error("[cache] dir: {0}")]
    Cache(#[from] OpenError),
    /// The system has no random numbers.
    #[error(transparent)]
    State(#[from] StateError),
}

/// What the state of all sessions has besides what the settings say.
pub struct GatewayParts {
    /// The origin client.
    pub origin: OriginClient,
    /// Secret for the keys of requests' credentials.
    pub credentials: CredentialsSecret,
    /// What every session learns of this gateway.
    pub announcement: Announcement,
    /// Counters of handshakes.
    pub handshakes: watch::Receiver<EndpointCounters>,
    /// The open sessions and the activity of devices.
    pub ledger: SessionLedger,
    /// TCP addresses of the gateway itself.
    pub own_ports: Vec<SocketAddr>,
    /// UDP addresses of the gateway itself.
    pub own_udp_ports: Vec<SocketAddr>,
    /// Packets of QUIC that were dropped on the port that it shares with sessions.
    pub quic_drops: Option<QuicDrops>,
}

/// Opens the cache, and creates the state of all sessions.
///
/// # Errors
/// See [`GatewayError`].
pub fn new_gateway(config: &Config, parts: GatewayParts) -> Result<Gateway, GatewayError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu_pool = CpuPool::new(cores);
    let overflow = OverflowLimits {
        dir: config.cache.dir.clone(),
        per_device: config.away.device_size,
        total: config.away.total_size,
    };
    let store = WebCache::new(
        open_cache(config)?,
        parts.origin.clone(),
        Arc::clone(&cpu_pool),
        overflow,
    );
    let images = Images::new(
        store.cache().cloned(),
        Arc::clone(&cpu_pool),
        config.pictures.max_megapixels,
        Settings {
            memory: config.pictures.memory,
            workers: config.pictures.workers,
            program: config.pictures.program.clone(),
            timeouts: TranscodeTimeouts::default(),
        },
    );
    let encoded_cache = EncodedCache::new(store.cache().cloned(), Arc::clone(&cpu_pool));
    Ok(Gateway {
        origin: parts.origin,
        store,
        metrics: Metrics::default(),
        ledger: Arc::new(parts.ledger),
        started: SystemTime::now(),
        quotas: Arc::default(),
        drain: Drain::default(),
        handshakes: parts.handshakes,
        bundles: PageLoadCounters::default(),
        clientless: Arc::default(),
        images,
        base_memory: MemoryShares::new(DELTA_BASE_MEMORY),
        mix_memory: MemoryShares::new(MIX_MEMORY),
        rules: ArcSwap::from_pointee(Rules::of(config)),
        own_ports: parts.own_ports,
        own_udp_ports: parts.own_udp_ports,
        cpu_pool,
        parser_pool: ParserPool::new(cores),
        lessons: Lessons::default(),
        encoded_cache,
        credentials: parts.credentials,
        devices: Mutex::default(),
        shared_keys: SharedKeys::default(),
        association_slots: AssociationSlots::default(),
        announcement: watch::Sender::new(parts.announcement),
        quic_drops: parts.quic_drops,
        without: config.without,
    })
}

/// Opens the cache; `None` if the operator disabled it.
fn open_cache(config: &Config) -> Result<Option<Cache>, GatewayError> {
    if config.cache.size == ByteCount::ZERO {
        return Ok(None);
    }
    let mut entropy = [0; 8];
    getrandom::fill(&mut entropy).map_err(StateError::Random)?;
    let opened = Cache::open(
        CacheConfig {
            dir: config.cache.dir.clone(),
            file: "gateway.sqlite",
            quota: config.cache.size,
        },
        u64::from_ne_bytes(entropy),
    )?;
    if let Some(reason) = opened.reset {
        warn!(?reason, "the cache starts empty: its file could not be used");
    }
    if let Storage::Memory { cause } = opened.storage {
        warn!(
            cause,
            "the cache is in memory only: its directory cannot be written; set [cache] dir"
        );
    }
    Ok(Some(opened.cache))
}

/// The origin client.
///
/// # Errors
/// See [`OriginSettingsError`].
pub fn origin_client(config: &Config) -> Result<OriginClient, OriginSettingsError> {
    OriginClient::new(origin_config(config)?)
        .map_err(|error| extra_ca::with_path(error, &config.fetch.extra_ca))
}

/// The settings of the origin client.
///
/// # Errors
/// See [`OriginSettingsError`].
pub fn origin_config(config: &Config) -> Result<OriginConfig, OriginSettingsError> {
    Ok(OriginConfig {
        looks_through_nat64: true,
        own_addresses: Some(own_addresses::reader(config)),
        proxy: None,
        deny_keys: config.fetch.deny_keys.clone(),
        dns: config.fetch.dns.clone(),
        extra_ca: extra_ca::read(&config.fetch.extra_ca)?,
        guard: Guard::new(config.guard.allow.iter().copied(), own_addresses::first(config)),
        limits: open_files::limits(),
        resolve: config.fetch.resolve.clone(),
        timeouts: Timeouts {
            response_head: config.fetch.response_timeout,
            body_idle: config.fetch.idle_timeout,
            host_wait: config.limits.queue_timeout,
            ..Timeouts::default()
        },
    })
}
