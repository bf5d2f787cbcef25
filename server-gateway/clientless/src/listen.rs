//! The ports of the proxy.
use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use futures_util::future::select_all;
use longhaul_carriers::PemIdentity;
use longhaul_gateway_core::{
    admission::{clients::PasswordKey, state::StateDir},
    config::{ClientlessConfig, DnsConfig},
    connections::Place,
    gateway::Gateway,
    port_error::{PortError, PortProtocol, SettingPort},
};
use longhaul_types::SecretKey;
use rustls::ClientConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::sleep,
};
use tracing::{info, warn};

use super::{
    Clientless,
    access::{Access, AccessError, Peer, Security},
    certificate::CertificateError,
    connection::{self, Arriving},
    dns::{BoostedNames, DnsPorts},
    entrance::Entrance,
    secure::SecurePort,
    self_check::{CheckedPort, CheckedProtocol, OpenProxy},
    shared_port::SharedPort,
    stream::{ClientStream as _, PacedStream},
    transparent,
};

/// Pause after an error of accepting, such as too many open files: the error would occur again at once.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Errors of the start of the proxy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientlessError {
    /// Nobody, or everybody, could use the proxy.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Strangers would be served.
    #[error(transparent)]
    Open(#[from] OpenProxy),
    /// The name server would be of no use.
    #[error("[dns] {0}")]
    Dns(&'static str),
    /// A port cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// A port that is open.
#[derive(Debug)]
pub(super) struct Port {
    listener: TcpListener,
    local: SocketAddr,
}

/// The open ports.
#[derive(Debug)]
pub struct ClientlessListener {
    plain: Option<Port>,
    secure: Option<SecurePort>,
    /// The ports of redirected connections.
    transparent: Vec<Port>,
    dns: Option<DnsPorts>,
    names: Arc<BoostedNames>,
    access: Arc<Access>,
    config: ClientlessConfig,
}

/// The connections of all ports.
struct Server {
    entrance: Arc<Entrance>,
    tasks: JoinSet<()>,
}

impl ClientlessListener {
    /// Opens the ports that are configured; `None` without any. Agents open links on the TLS port, too, if it is `shared`.
    ///
    /// # Errors
    /// See [`ClientlessError`].
    pub async fn bind(
        (config, dns): (&ClientlessConfig, &DnsConfig),
        state: &StateDir,
        secret: &SecretKey,
        shared: Option<SharedPort>,
    ) -> Result<Option<Self>, ClientlessError> {
        check_dns(config, dns)?;
        if config.listen.is_none() && config.tls.is_none() && config.transparent.is_empty() {
            return Ok(None);
        }
        let access = Access::new(config, state, PasswordKey::derived_from(secret))?;
        let plain = Port::open("clientless.listen", config.listen).await?;
        if let Some(port) = &plain {
            info!(address = %port.local, "clients without an agent may use the HTTP proxy");
        }
        let secure = SecurePort::open(config, shared).await?;
        if let Some(port) = &secure {
            info!(address = %port.local_addr(), "clients without an agent may use the HTTP proxy inside TLS");
        }
        let mut transparent = Vec::with_capacity(config.transparent.len());
        for address in &config.transparent {
            transparent.extend(Port::open("clientless.transparent", Some(*address)).await?);
        }
        for port in &transparent {
            info!(address = %port.local, "clients without an agent may be redirected to the HTTP proxy");
        }
        let ports = match dns.listen {
            None => None,
            Some(address) => {
                let port = SettingPort {
                    setting: "dns.listen",
                    protocol: PortProtocol::TcpAndUdp,
                    address,
                };
                let opened = DnsPorts::open(address).await;
                Some(opened.map_err(|source| PortError::new(port, source))?)
            }
        };
        Ok(Some(Self {
            plain,
            secure,
            transparent,
            dns: ports,
            names: Arc::new(BoostedNames::new(dns)),
            access: Arc::new(access),
            config: config.clone(),
        }))
    }

    /// Local address of the port without TLS.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.plain.as_ref().map(|port| port.local)
    }

    /// Local address of the port with TLS.
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.secure.as_ref().map(SecurePort::local_addr)
    }

    /// Certificate and key of the port with TLS, and their changes.
    pub fn watch_certificate(&self) -> Option<watch::Receiver<PemIdentity>> {
        self.secure.as_ref().map(SecurePort::watch_certificate)
    }

    /// Local addresses of the ports for redirected connections.
    pub fn transparent_addrs(&self) -> impl Iterator<Item = SocketAddr> {
        self.transparent.iter().map(|port| port.local)
    }

    /// Local address of the name server.
    pub fn dns_addr(&self) -> Option<SocketAddr> {
        self.dns.as_ref().map(DnsPorts::local_addr)
    }

    /// Asks this gateway through its public address whether it serves strangers.
    ///
    /// # Errors
    /// It does.
    pub async fn check(
        &self,
        gateway: Arc<Gateway>,
        public: &str,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<(), ClientlessError> {
        let shared = self.shared(gateway);
        let port = |setting, address: Option<SocketAddr>, protocol| {
            address.map(|address| CheckedPort {
                setting,
                port: address.port(),
                protocol,
            })
        };
        let ports: Vec<CheckedPort> = [
            port("listen", self.local_addr(), CheckedProtocol::Http),
            port("tls", self.tls_addr(), CheckedProtocol::Tls),
            port(
                "transparent",
                self.transparent_addrs().next(),
                CheckedProtocol::Http,
            ),
            port("dns.listen", self.dns_addr(), CheckedProtocol::Dns),
        ]
        .into_iter()
        .flatten()
        .collect();
        tokio::select! {
            checked = shared.self_check.ask((&shared.access, tls), public, &ports) => Ok(checked?),
            () = self.serve(Arc::clone(&shared)) => Ok(()),
        }
    }

    fn shared(&self, gateway: Arc<Gateway>) -> Arc<Clientless> {
        let (access, names) = (Arc::clone(&self.access), Arc::clone(&self.names));
        Arc::new(Clientless::new(gateway, self.config.clone(), access, names))
    }

    /// Serves clients until the future is dropped, which ends their connections.
    pub async fn run(self, gateway: Arc<Gateway>) {
        self.serve(self.shared(gateway)).await;
    }

    async fn serve(&self, shared: Arc<Clientless>) {
        let Self {
            plain,
            secure,
            transparent,
            dns,
            ..
        } = self;
        let mut server = Server {
            entrance: Arc::new(Entrance::new(Arc::clone(&shared))),
            tasks: JoinSet::new(),
        };
        let look = shared.access.look(&shared.gateway.quotas);
        let look_at_certificate = async {
            match secure {
                Some(port) => port.look().await,
                None => std::future::pending().await,
            }
        };
        let answer_names = async {
            match dns {
                Some(ports) => ports.run(&shared).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(look, look_at_certificate, answer_names);
        loop {
            tokio::select! {
                () = &mut look => return,
                () = &mut look_at_certificate => return,
                () = &mut answer_names => return,
                accepted = accept(plain.as_ref()) => server.plain(accepted).await,
                accepted = accept_any(transparent) => server.transparent(accepted).await,
                accepted = accept(secure.as_ref().map(SecurePort::port)) => {
                    if let Some(port) = secure {
                        server.secure(port, accepted).await;
                    }
                }
                Some(_) = server.tasks.join_next(), if !server.tasks.is_empty() => {}
            }
        }
    }
}

/// Checks that the names of the name server lead somewhere.
fn check_dns(config: &ClientlessConfig, dns: &DnsConfig) -> Result<(), ClientlessError> {
    let Some(listen) = dns.listen else { return Ok(()) };
    let problem = if config.transparent.is_empty() {
        "listen: the gateway would not serve the connections of its clients; set clientless.transparent, too, or dns.listen \
         to \"off\""
    } else if dns.names.is_empty() {
        "names: no name leads to the gateway; set dns.names, for example to [\"www.example.org\"], or dns.listen to \"off\""
    } else if listen.ip().is_unspecified() && dns.addresses.is_empty() {
        "addresses: the gateway listens on all addresses and does not know by which one its clients reach it; set \
         dns.addresses, for example to [\"10.0.0.1\"]"
    } else {
        return Ok(());
    };
    Err(ClientlessError::Dns(problem))
}

impl Port {
    /// Opens the port of a setting, if it has an address.
    pub(super) async fn open(
        setting: &'static str,
        address: Option<SocketAddr>,
    ) -> Result<Option<Self>, PortError> {
        let Some(address) = address else { return Ok(None) };
        let failed = |source| PortError::tcp(setting, address, source);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        Ok(Some(Self { listener, local }))
    }

    pub(super) const fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

type Accepted = io::Result<(TcpStream, SocketAddr)>;

async fn accept(port: Option<&Port>) -> Accepted {
    match port {
        Some(port) => port.listener.accept().await,
        None => std::future::pending().await,
    }
}

async fn accept_any(ports: &[Port]) -> Accepted {
    if ports.is_empty() {
        return std::future::pending().await;
    }
    select_all(ports.iter().map(|port| Box::pin(port.listener.accept())))
        .await
        .0
}

impl Server {
    async fn plain(&mut self, accepted: Accepted) {
        let Some((stream, peer, place)) = self.enter(accepted, Security::Plain).await else {
            return;
        };
        let shared = Arc::clone(&self.entrance.shared);
        self.tasks.spawn(async move {
            let _open = shared.counters.connection();
            connection::serve(Arc::clone(&shared), (stream, Arriving::default()), peer).await;
            drop(place);
        });
    }

    async fn transparent(&mut self, accepted: Accepted) {
        let Some((stream, peer, place)) = self.enter(accepted, Security::Plain).await else {
            return;
        };
        let shared = Arc::clone(&self.entrance.shared);
        self.tasks.spawn(async move {
            let _open = shared.counters.connection();
            transparent::serve(Arc::clone(&shared), stream, peer).await;
            drop(place);
        });
    }

    async fn secure(&mut self, port: &SecurePort, accepted: Accepted) {
        if let Some(upgrades) = port.shared() {
            let Some(accepted) = accepted_or_pause(accepted).await else {
                return;
            };
            if let Some(serving) = port.arrival(upgrades, accepted, &self.entrance) {
                self.tasks.spawn(serving);
            }
            return;
        }
        let Some((stream, peer, place)) = self.enter(accepted, Security::Tls).await else {
            return;
        };
        let from = (peer.address, self.entrance.standing(peer.address));
        let Some(handshake) = port.handshake(stream, from) else {
            return;
        };
        let shared = Arc::clone(&self.entrance.shared);
        self.tasks.spawn(async move {
            let _open = shared.counters.connection();
            handshake.serve(Arc::clone(&shared), peer).await;
            drop(place);
        });
    }

    /// Counts a connection; `None` if it is not served.
    async fn enter(&self, accepted: Accepted, security: Security) -> Option<(PacedStream, Peer, Place)> {
        let (stream, peer) = accepted_or_pause(accepted).await?;
        let address = peer.ip().to_canonical();
        let mut stream = PacedStream::new(stream);
        if self.entrance.is_silent(address) {
            stream.break_off();
            return None;
        }
        let place = self.entrance.admit(&mut stream, address)?;
        Some((stream, Peer { address, security }, place))
    }
}

/// The connection; after an error `None`, and a pause.
async fn accepted_or_pause(accepted: Accepted) -> Option<(TcpStream, SocketAddr)> {
    match accepted {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            warn!(%error, "the proxy accepts no connection");
            sleep(ERROR_PAUSE).await;
            None
        }
    }
}
