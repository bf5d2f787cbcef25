//! Start of the server: the state directory, ports, the cache and the settings of the origin client.
use std::{net::SocketAddr, path::Path, sync::Arc, time::SystemTime};

use longhaul_driver::{ListenConfig, ListenError, QuicShare, TransportConfig, listen, listen_sharing};
use longhaul_gateway_core::{
    admin::{device_usage, session_ledger::SessionLedger},
    admission::{
        clients::Clients,
        devices::DevicesError,
        gateway_lock::{GatewayLock, LockError},
        state::{StateDir, StateError},
    },
    config::{Config, OverlappingPorts},
    device_register::{DeviceRecords, DeviceRegister},
    extra_ca::OriginSettingsError,
    port_error::PortError,
    start::{GatewayError, GatewayParts, new_gateway, origin_client},
};
use longhaul_http::request_context::CredentialsSecret;
use longhaul_service::liveness_probe;
use longhaul_session::{Announcement, MAX_UDP_PORTS};
use tokio::net::TcpListener;
use tracing::warn;

use super::{
    Server,
    carriers::{self, Carriers},
    clientless::{ClientlessError, ClientlessListener},
    portal::PortalListener,
};
use crate::operator::{
    port::AdminPort,
    socket::{AdminSocket, AdminSocketError},
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
    /// The state of the sessions cannot be created.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
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
        let origin = origin_client(config)?;
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
        let parts = GatewayParts {
            origin,
            credentials,
            announcement,
            handshakes: listener.counters(),
            ledger: SessionLedger::new(device_usage::load(&state)),
            own_ports,
            own_udp_ports,
            quic_drops,
        };
        let gateway = Arc::new(new_gateway(config, parts)?);
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
