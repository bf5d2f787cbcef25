//! The gateway server: listens, serves sessions, applies changes of the device list, answers the operator's
//! commands, serves metrics, shuts down.
//!
//! `start` reads the state and opens ports and the cache, `carriers` opens the ports of the carriers, `carrier_files` reads their certificate, `clientless` has the ports of clients without an agent if the gateway is built with them, `streams` serves the streams of one session, `control` its control streams, `forget` deletes a user's
//! data, `metrics_server` serves counters to Prometheus and answers whether the gateway is alive, `portal` answers questions about captive portals, `key_replacement` serves the first session of a one-time invite, `refusals` logs refused devices,
//! `quotas` enforces quotas, `draining` ends a gateway that drains.
mod carrier_files;
mod carriers;
mod clientless;
mod control;
mod draining;
mod forget;
mod key_replacement;
mod live;
mod metrics_server;
mod portal;
mod quotas;
mod refusals;
mod start;
mod streams;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use longhaul_driver::{Listener, Session};
use longhaul_gateway_core::{
    admission::gateway_lock::GatewayLock,
    device_register::{DeviceRegister, SessionPurpose},
    gateway::Gateway,
};
use longhaul_service::{LivenessProbe, Probed, liveness_probe};
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval},
};
use tracing::{info, warn};

use self::{carriers::Carriers, clientless::ClientlessListener};
use crate::operator::{
    access::{self, AdminAccess},
    port::AdminPort,
    service::{self, Operator},
    socket::AdminSocket,
};

pub use live::{ReloadError, ServerControl};
use portal::PortalListener;
pub use start::ServerError;

/// Interval between checks of the device list, which a person may have edited: a device that is revoked in it is
/// disconnected within a second.
const LOOK: Duration = Duration::from_millis(500);
/// Interval of writing what is known of devices: a crash loses no more, and an idle disk may sleep.
const KEEP: Duration = Duration::from_secs(60);
/// Interval of observing the round-trip times of sessions.
const MEASURE: Duration = Duration::from_secs(10);

/// A gateway that accepts sessions.
pub struct Server {
    listener: Listener,
    /// Port for questions about captive portals, if it is on.
    portal: Option<PortalListener>,
    /// Ports of the proxy for clients without an agent, if it is on.
    clientless: Option<ClientlessListener>,
    /// Ports of the carriers beside UDP.
    carriers: Carriers,
    gateway: Arc<Gateway>,
    devices: Arc<DeviceRegister>,
    metrics: Option<TcpListener>,
    admin: Option<AdminSocket>,
    admin_port: Option<AdminPort>,
    probe: LivenessProbe,
    probed: Probed,
    /// Released last: another gateway may then use the directory.
    _lock: GatewayLock,
}

impl Server {
    /// First UDP address on which the gateway accepts sessions.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// All UDP addresses on which the gateway accepts sessions.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        self.listener.local_addrs()
    }

    /// TCP address of the carrier `tls`, if it is on.
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        let shared = || {
            self.clientless_tls_addr()
                .filter(|_| self.carriers.is_tls_shared())
        };
        self.carriers.tls_addr().or_else(shared)
    }

    /// UDP address of the carrier `quic`, if it is on.
    pub fn quic_addr(&self) -> Option<SocketAddr> {
        self.carriers.quic_addr()
    }

    /// TCP address for questions about captive portals, if it is on.
    pub fn portal_addr(&self) -> Option<SocketAddr> {
        self.portal.as_ref().map(PortalListener::local_addr)
    }

    /// TCP address of the proxy for clients without an agent, if it is on.
    pub fn clientless_addr(&self) -> Option<SocketAddr> {
        self.clientless.as_ref().and_then(ClientlessListener::local_addr)
    }

    /// TCP address of the same proxy inside TLS, if it is on.
    pub fn clientless_tls_addr(&self) -> Option<SocketAddr> {
        self.clientless.as_ref().and_then(ClientlessListener::tls_addr)
    }

    /// TCP addresses of redirected connections of clients without an agent.
    pub fn clientless_transparent_addrs(&self) -> Vec<SocketAddr> {
        let listeners = self.clientless.iter();
        listeners
            .flat_map(ClientlessListener::transparent_addrs)
            .collect()
    }

    /// UDP and TCP address of the name server for clients without an agent, if it is on.
    pub fn dns_addr(&self) -> Option<SocketAddr> {
        self.clientless.as_ref().and_then(ClientlessListener::dns_addr)
    }

    /// Address of the metrics server, if it is enabled.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics
            .as_ref()
            .and_then(|listener| listener.local_addr().ok())
    }

    /// Address of the admin port, if it is on.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin_port.as_ref().map(AdminPort::address)
    }

    /// A handle for the running server.
    pub fn control(&self) -> ServerControl {
        ServerControl::new(
            Arc::clone(&self.gateway),
            self.listener.admission(),
            self.probe.clone(),
        )
    }

    /// Serves sessions until `shutdown` completes, then closes the sessions as "going away".
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let (_, next) = liveness_probe();
        let probed = std::mem::replace(&mut self.probed, next);
        probed.during(self.run_unprobed(shutdown)).await;
    }

    async fn run_unprobed(mut self, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        let mut sessions: JoinSet<()> = JoinSet::new();
        let metrics = self.metrics.take().map(|listener| {
            let control = self.control();
            let router = metrics_server::router(metrics_server::Source {
                gateway: Arc::clone(&self.gateway),
                register: Arc::clone(&self.devices),
                answered: Arc::new(move || {
                    let control = control.clone();
                    Box::pin(async move { control.answered().await })
                }),
            });
            tokio::spawn(async move {
                if let Err(error) = axum::serve(listener, router).await {
                    warn!(%error, "metrics are no longer served");
                }
            })
        });
        let mut carriers = self.carriers.run(&self.listener, &self.gateway.announcement);
        let portal = self.portal.take().map(|portal| tokio::spawn(portal.run()));
        let gateway = Arc::clone(&self.gateway);
        let clientless = self.clientless.take();
        let clientless = clientless.map(|clientless| tokio::spawn(clientless.run(gateway)));
        let encoded_cache = Arc::clone(&self.gateway.encoded_cache);
        let recoding = tokio::spawn(async move { encoded_cache.recode().await });
        let (admin, admin_port) = self.serve_operator();
        let looking = tokio::spawn(look(Arc::clone(&self.devices), Arc::clone(&self.gateway)));
        let refusals = self.listener.take_refusals();
        let refused = tokio::spawn(refusals::report(Arc::clone(&self.gateway), refusals));
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                incoming = self.listener.accept() => match incoming {
                    Some(incoming) => self.start(&mut sessions, incoming),
                    None => break,
                },
                Some(_) = sessions.join_next(), if !sessions.is_empty() => {}
            }
        }
        info!("the gateway stops and closes all sessions");
        recoding.abort();
        for task in [
            Some(looking),
            Some(refused),
            admin,
            admin_port,
            portal,
            clientless,
        ]
        .into_iter()
        .flatten()
        {
            task.abort();
        }
        // Aborts background recoding that is in progress.
        self.gateway.cpu_pool.touch();
        self.listener.shutdown().await;
        sessions.shutdown().await;
        if let Err(error) = self.devices.keep_usage().await {
            warn!(%error, "what is known of the devices since the last minute is lost");
        }
        self.gateway.lessons.finished().await;
        self.gateway.store.close().await;
        // After the sessions, which send their last packets over the carriers.
        carriers.shutdown().await;
        if let Some(metrics) = metrics {
            metrics.abort();
        }
    }

    /// Starts the admin socket and the admin port.
    fn serve_operator(&mut self) -> (Option<JoinHandle<()>>, Option<JoinHandle<()>>) {
        let port = self.admin_port.take();
        let access = port
            .as_ref()
            .and_then(|port| match AdminAccess::new(port.address()) {
                Ok(access) => Some(Arc::new(access)),
                Err(error) => {
                    warn!(%error, "the system provides no random numbers: there is no admin port");
                    None
                }
            });
        let operator = Arc::new(Operator {
            register: Arc::clone(&self.devices),
            gateway: Arc::clone(&self.gateway),
            admission: self.listener.admission(),
            access: access.clone(),
        });
        let socket = self.admin.take().map(|socket| {
            let router =
                service::router(Arc::clone(&operator)).merge(service::access_router(Arc::clone(&operator)));
            tokio::spawn(socket.serve(router))
        });
        let port = port.zip(access).map(|(port, access)| {
            let router = access::guarded(service::router(operator), access);
            tokio::spawn(port.serve(router))
        });
        (socket, port)
    }

    fn start(&self, sessions: &mut JoinSet<()>, incoming: longhaul_driver::Incoming) {
        let gateway = Arc::clone(&self.gateway);
        let devices = Arc::clone(&self.devices);
        let session: Session = incoming.session.clone();
        sessions.spawn(async move {
            let entry = gateway.ledger.enter(session, incoming.device);
            // Before the first request of a device whose bytes are used up.
            quotas::enforce(&gateway);
            match devices.opened(incoming.device) {
                SessionPurpose::Ordinary => streams::serve(gateway, incoming).await,
                SessionPurpose::KeyReplacement => key_replacement::serve(&devices, incoming).await,
            }
            drop(entry);
        });
    }
}

/// Applies changes of the device list by other processes and the end of invites, notes which devices are active, and
/// enforces what depends on that.
async fn look(devices: Arc<DeviceRegister>, gateway: Arc<Gateway>) {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut kept, mut measured) = (Instant::now(), Instant::now());
    loop {
        looks.tick().await;
        devices.look().await;
        gateway.ledger.look();
        quotas::enforce(&gateway);
        draining::step(&gateway);
        if measured.elapsed() >= MEASURE {
            measured = Instant::now();
            for open in gateway.ledger.open_sessions() {
                if let Some(time) = open.session.stats().measured_srtt {
                    gateway.metrics.observed.round_trip(time);
                }
            }
        }
        if kept.elapsed() >= KEEP {
            kept = Instant::now();
            if let Err(error) = devices.keep_usage().await {
                warn!(%error, "what is known of the devices cannot be written");
            }
        }
    }
}
