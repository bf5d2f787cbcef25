//! Start of the server: the state directory, ports, the cache and the settings of the origin client.
use std::{net::SocketAddr, path::Path, sync::Arc, time::SystemTime};

use arc_swap::ArcSwap;
use longhaul_cache::{Cache, CacheConfig, OpenError, Storage};
use longhaul_codec::{MIX_MEMORY, MemoryShares};
use longhaul_delivery::{DELTA_BASE_MEMORY, EncodedCache};
use longhaul_driver::{
    EndpointCounters, ListenConfig, ListenError, QuicShare, TransportConfig, listen, listen_sharing,
};
use longhaul_http::request_context::CredentialsSecret;
use longhaul_origin::{Guard, OriginClient, OriginConfig, Timeouts};
use longhaul_service::liveness_probe;
use longhaul_session::{Announcement, MAX_UDP_PORTS};
use longhaul_types::ByteCount;
use longhaul_webcache::{CpuPool, OverflowLimits, WebCache};
use parking_lot::Mutex;
use tokio::{net::TcpListener, sync::watch};
use tracing::warn;

use super::{
    Server,
    carriers::{self, Carriers},
    extra_ca::{self, OriginSettingsError},
    open_files, own_addresses,
    portal::PortalListener,
};
use crate::{
    admin::{
        device_usage, metrics::Metrics, page_load_counters::PageLoadCounters, session_ledger::SessionLedger,
    },
    admission::{
        clients::Clients,
        devices::DevicesError,
        gateway_lock::{GatewayLock, LockError},
        shared_keys::SharedKeys,
        state::{StateDir, StateError},
    },
    association_slots::AssociationSlots,
    clientless::{ClientlessError, ClientlessListener},
    config::{Config, OverlappingPorts},
    device_register::{DeviceRecords, DeviceRegister},
    drain::Drain,
    gateway::{Gateway, Rules},
    images::{
        Images,
        picture_workers::{Settings, TranscodeTimeouts},
    },
    lessons::Lessons,
    operator::{
        port::AdminPort,
        socket::{AdminSocket, AdminSocketError},
    },
    page_parsers::ParserPool,
    port_error::PortError,
};

/// Errors of `Server::bind`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The admin socket cannot be opened.
    #[error(transparent)]
    Admin(#[from] AdminSocketError),
    /// The port of a carrier cannot be opened.
    #[error(transparent)]
    Carrier(#[from] carriers::CarrierError),
    /// The cache cannot be opened.
    #[error("[cache] dir: {0}")]
    Cache(#[from] OpenError),
    /// The proxy for clients without an agent cannot be started.
    #[error(transparent)]
    Clientless(#[from] ClientlessError),
    /// The device list cannot be read.
    #[error(transparent)]
    Devices(#[from] DevicesError),
    /// The UDP socket cannot be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Another gateway uses the state directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The port for metrics, the admin port or that for questions about captive portals cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// Two settings name a port that they cannot share.
    #[error(transparent)]
    Ports(#[from] OverlappingPorts),
    /// The origin client cannot be configured.
    #[error(transparent)]
    Origin(#[from] OriginSettingsError),
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}

impl Server {
    /// Binds the sockets and loads state; the gateway accepts sessions once this returns. Requires a tokio
    /// runtime.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub async fn bind(config: &Config) -> Result<Self, ServerError> {
        config.check_ports()?;
        let state = StateDir::open(&config.state_dir)?;
        let mut lock = GatewayLock::acquire(&state).await?;
        let keys = state.keys()?;
        let metrics = open_metrics(config.metrics.listen).await?;
        let origin = OriginClient::new(origin_config(config)?)
            .map_err(|error| extra_ca::with_path(error, &config.fetch.extra_ca))?;
        let loaded = DeviceRegister::load(&state)?;
        let admitted = loaded.0.statuses(SystemTime::now());
        if admitted.is_empty() {
            warn!("no device is admitted yet: `longhaul-gateway invite` admits one");
        }
        let public = keys.secret.public();
        let (shared, links) = carriers::share_tls(config, public).unzip();
        let clientless = (&config.clientless, &config.dns);
        let clientless = ClientlessListener::bind(clientless, &state, &keys.secret, shared).await?;
        let mut carriers = Carriers::bind(config, &state, public, (links, clientless.as_ref())).await?;
        let portal = PortalListener::bind(config.portal.listen, public).await?;
        let epoch = keys.next_epoch()?;
        let credentials = CredentialsSecret::derived_from(keys.secret.as_bytes());
        let (ports, shared) = config.udp_ports();
        let listening = ListenConfig {
            listen: ports.first,
            also: ports.others,
            secret: keys.secret,
            epoch: epoch.clone(),
            reset_secret: *keys.reset.as_bytes(),
            transport: transport(config),
            max_sessions: config.limits.sessions,
            devices: admitted,
        };
        let (listener, quic) = match shared {
            Some(number) => {
                let (listener, quic) = listen_sharing(listening, number)?;
                (listener, Some(quic))
            }
            None => (listen(listening)?, None),
        };
        // After the port is bound: a second gateway that finds the port in use must not change the first
        // one's epoch.
        state.keep_epoch(&epoch)?;
        let quic_drops = quic.as_ref().map(QuicShare::drops);
        if let Some(quic) = quic {
            carriers.share_quic(quic)?;
        }
        let announcement = Announcement {
            portal_port: portal.as_ref().map(|portal| portal.local_addr().port()),
            certificate: carriers.certificate(),
            udp_ports: udp_ports(listener.local_addrs()),
        };
        let admin_port = AdminPort::bind(config.admin.listen).await?;
        let own_ports = metrics
            .iter()
            .filter_map(|listener| listener.local_addr().ok())
            .chain(admin_port.as_ref().map(AdminPort::address))
            .chain(clientless.as_ref().and_then(ClientlessListener::local_addr))
            .chain(clientless.as_ref().and_then(ClientlessListener::tls_addr))
            .chain(clientless.iter().flat_map(ClientlessListener::transparent_addrs))
            .chain(clientless.as_ref().and_then(ClientlessListener::dns_addr))
            .collect();
        let own_udp_ports = listener
            .local_addrs()
            .iter()
            .copied()
            .chain(config.carriers.quic)
            .chain(clientless.as_ref().and_then(ClientlessListener::dns_addr))
            .collect();
        let gateway = Arc::new(Gateway {
            own_udp_ports,
            quic_drops,
            ledger: Arc::new(SessionLedger::new(device_usage::load(&state))),
            ..new_gateway(
                config,
                origin,
                own_ports,
                credentials,
                (announcement, listener.counters()),
            )?
        });
        if let (Some(clientless), Some(public)) = (&clientless, &config.public_address) {
            // Whom the certificate names does not matter here.
            let tls = carriers::any_certificate().map(Arc::new).ok();
            clientless.check(Arc::clone(&gateway), public, tls).await?;
        }
        gateway.quotas.set_devices(&loaded.0);
        match Clients::load(&state) {
            Ok(clients) => gateway.quotas.set_clients(&clients),
            // The proxy does not start with such a list; without the proxy nobody uses it.
            Err(error) => warn!(%error, "the list of clients without an agent cannot be read"),
        }
        let records = DeviceRecords {
            ledger: Arc::clone(&gateway.ledger),
            quotas: Arc::clone(&gateway.quotas),
        };
        let register = DeviceRegister::new(state, listener.admission(), loaded, records);
        let admin = open_admin_socket(config.admin_socket.as_deref()).await?;
        if let Err(error) = lock.publish(admin.as_ref().map(AdminSocket::path)) {
            warn!(%error, "the path of the admin socket cannot be published in the state directory");
        }
        let (probe, probed) = liveness_probe();
        Ok(Self {
            listener,
            portal,
            clientless,
            carriers,
            gateway,
            devices: Arc::new(register),
            metrics,
            admin,
            admin_port,
            probe,
            probed,
            _lock: lock,
        })
    }
}

/// Opens the port of the metrics server; `None` if the operator disabled it.
async fn open_metrics(listen: Option<SocketAddr>) -> Result<Option<TcpListener>, PortError> {
    let Some(address) = listen else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address).await;
    listener
        .map(Some)
        .map_err(|source| PortError::tcp("metrics.listen", address, source))
}

/// Opens the cache, and creates the state of all sessions. `own_ports` are TCP addresses of the gateway itself.
fn new_gateway(
    config: &Config,
    origin: OriginClient,
    own_ports: Vec<SocketAddr>,
    credentials: CredentialsSecret,
    (announcement, handshakes): (Announcement, watch::Receiver<EndpointCounters>),
) -> Result<Gateway, ServerError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu_pool = CpuPool::new(cores);
    let overflow = OverflowLimits {
        dir: config.cache.dir.clone(),
        per_device: config.away.device_size,
        total: config.away.total_size,
    };
    let store = WebCache::new(
        open_cache(config)?,
        origin.clone(),
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
        origin,
        store,
        metrics: Metrics::default(),
        ledger: Arc::default(),
        started: SystemTime::now(),
        quotas: Arc::default(),
        drain: Drain::default(),
        handshakes,
        bundles: PageLoadCounters::default(),
        clientless: Arc::default(),
        images,
        base_memory: MemoryShares::new(DELTA_BASE_MEMORY),
        mix_memory: MemoryShares::new(MIX_MEMORY),
        rules: ArcSwap::from_pointee(Rules::of(config)),
        own_ports,
        own_udp_ports: Vec::new(),
        cpu_pool,
        parser_pool: ParserPool::new(cores),
        lessons: Lessons::default(),
        encoded_cache,
        credentials,
        devices: Mutex::default(),
        shared_keys: SharedKeys::default(),
        association_slots: AssociationSlots::default(),
        announcement: watch::Sender::new(announcement),
        quic_drops: None,
        without: config.without,
    })
}

/// Opens the admin socket; `None` if the operator disabled it, or if the system cannot have it there. Without
/// it the operator's commands change the files of the state directory.
async fn open_admin_socket(path: Option<&Path>) -> Result<Option<AdminSocket>, ServerError> {
    let Some(path) = path else {
        return Ok(None);
    };
    match AdminSocket::bind(path).await {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if error.is_limit_of_system() => {
            warn!("{error}; `device list` will not show sessions, until you set another admin-socket");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens the cache; `None` if the operator disabled it.
fn open_cache(config: &Config) -> Result<Option<Cache>, ServerError> {
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

pub(super) fn origin_config(config: &Config) -> Result<OriginConfig, OriginSettingsError> {
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

/// Streams that an agent may have open in a session.
pub(super) fn max_streams(config: &Config) -> u64 {
    // The control stream, and a margin for streams that end while new ones open.
    const SLACK: u64 = 16;
    config.limits.streams_per_session as u64 + SLACK
}

/// The UDP ports of the gateway, each once; none if there is only one, which agents know from their invites.
fn udp_ports(addresses: &[SocketAddr]) -> Vec<u16> {
    let mut ports: Vec<u16> = Vec::with_capacity(addresses.len());
    for address in addresses {
        if !ports.contains(&address.port()) {
            ports.push(address.port());
        }
    }
    ports.truncate(MAX_UDP_PORTS);
    if ports.len() > 1 { ports } else { Vec::new() }
}

fn transport(config: &Config) -> TransportConfig {
    TransportConfig {
        max_streams: max_streams(config),
        max_silence_in_use: config.away.keep,
        ..TransportConfig::gateway()
    }
    .without(config.without)
}
