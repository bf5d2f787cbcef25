//! Gateway side: accepting sessions.
use std::{collections::BTreeMap, io, net::SocketAddr};

use longhaul_protocol::{
    connection::TransportConfig,
    crypto::{EpochKeys, ResetKey},
    endpoint::{DeviceStatus, Endpoint, EndpointCounters, GatewayEndpointConfig},
    wire::Refusal,
};
use longhaul_types::{PublicKey, SecretKey};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};

use crate::{
    clock::Clock,
    dial::seed,
    driver_task::{Control, DriverTask},
    incoming::Incoming,
    link::LinkAcceptor,
    quic_share::QuicShare,
    socket::SegmentationOffload,
    sockets::Sockets,
};

/// Capacity for sessions that wait to be accepted; further sessions are closed, and their agents try again.
const BACKLOG: usize = 256;
/// Capacity for reports of refused devices; further ones are dropped.
const REFUSALS: usize = 256;

/// Configuration of a listening gateway.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// Address and port; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Further addresses and ports, at most seven.
    pub also: Vec<SocketAddr>,
    /// Secret key of the gateway.
    pub secret: SecretKey,
    /// Token key and its epoch.
    pub epoch: EpochKeys,
    /// Reset secret, by which agents verify a RESET; stored on disk.
    pub reset_secret: [u8; 32],
    /// Limits and windows.
    pub transport: TransportConfig,
    /// Maximum number of concurrent sessions.
    pub max_sessions: usize,
    /// Devices and their admission.
    pub devices: BTreeMap<PublicKey, DeviceStatus>,
}

/// Ports below this one need a permission.
const FIRST_FREE_PORT: u16 = 1024;

/// Errors of starting to listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Another program uses the port.
    #[error(
        "UDP port {port} is taken by another program, which `sudo ss -ulnp 'sport = :{port}'` shows: stop it, or choose \
         another port in the setting `listen` (--listen)",
        port = .0.port()
    )]
    InUse(SocketAddr),
    /// The address does not belong to this machine.
    #[error(
        "{address} is not an address of this machine: choose one of those that `ip address` shows, or [::] for all, in the \
         setting `listen` (--listen)",
        address = .0.ip()
    )]
    NotAvailable(SocketAddr),
    /// The system denies the port to this user.
    #[error(
        "UDP port {} is closed to this user: ports below 1024 need root or CAP_NET_BIND_SERVICE (systemd: \
         AmbientCapabilities=CAP_NET_BIND_SERVICE; for the package's service, copy \
         /usr/share/doc/longhaul-gateway/examples/port-443.conf as it says). Give this permission, or choose a port above \
         1023 in the setting `listen` (--listen)",
        .0.port()
    )]
    Privileged(SocketAddr),
    /// Any other error.
    #[error(
        "cannot listen on UDP {address}: {source}; choose another address in the setting `listen` (--listen)"
    )]
    Socket {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The system provided no randomness.
    #[error("the system provides no random numbers: {0}")]
    Randomness(getrandom::Error),
}

impl ListenError {
    fn of(address: SocketAddr, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::AddrInUse {
            Self::InUse(address)
        } else if source.kind() == io::ErrorKind::AddrNotAvailable {
            Self::NotAvailable(address)
        } else if source.kind() == io::ErrorKind::PermissionDenied && address.port() < FIRST_FREE_PORT {
            Self::Privileged(address)
        } else {
            Self::Socket { address, source }
        }
    }
}

/// A listening gateway; closes its sessions when dropped.
#[derive(Debug)]
pub struct Listener {
    local: SocketAddr,
    locals: Vec<SocketAddr>,
    incoming: mpsc::Receiver<Incoming>,
    refusals: Option<mpsc::Receiver<(PublicKey, Refusal)>>,
    control: mpsc::Sender<Control>,
    counters: watch::Receiver<EndpointCounters>,
    links: LinkAcceptor,
    task: JoinHandle<()>,
}

/// Starts to listen. Must be called in a tokio runtime.
///
/// # Errors
/// See [`ListenError`].
pub fn listen(config: ListenConfig) -> Result<Listener, ListenError> {
    listen_with(config, SegmentationOffload::default())
}

/// Like [`listen`]; the port of the listening address with number `quic`, counted from 0, also carries QUIC, whose packets
/// go to the share that is returned. Must be called in a tokio runtime.
///
/// # Errors
/// See [`ListenError`].
pub fn listen_sharing(config: ListenConfig, quic: usize) -> Result<(Listener, QuicShare), ListenError> {
    let failed = |(address, source)| ListenError::of(address, source);
    let mut sockets =
        Sockets::listen(config.listen, &config.also, SegmentationOffload::default()).map_err(failed)?;
    let share = sockets.share_with_quic(quic).map_err(failed)?;
    Ok((start(config, sockets)?, share))
}

/// Like [`listen`], with a choice of the kernel's segmentation offload. Must be called in a tokio runtime.
///
/// # Errors
/// See [`ListenError`].
pub fn listen_with(config: ListenConfig, offload: SegmentationOffload) -> Result<Listener, ListenError> {
    let failed = |(address, source)| ListenError::of(address, source);
    let sockets = Sockets::listen(config.listen, &config.also, offload).map_err(failed)?;
    start(config, sockets)
}

fn start(config: ListenConfig, sockets: Sockets) -> Result<Listener, ListenError> {
    let (local, locals) = (sockets.local_addr(), sockets.local_addrs());
    let clock = Clock::start();
    let endpoint = GatewayEndpointConfig {
        secret: config.secret,
        epoch: config.epoch,
        reset_key: ResetKey::new(config.reset_secret),
        transport: config.transport,
        max_sessions: config.max_sessions,
    };
    let seed = seed().map_err(ListenError::Randomness)?;
    let mut endpoint = Endpoint::gateway(endpoint, clock.unix_at_origin(), seed);
    endpoint.set_devices(clock.now(), config.devices);
    let (sender, incoming) = mpsc::channel(BACKLOG);
    let (control, control_out) = mpsc::channel(16);
    let (counters, counters_out) = watch::channel(endpoint.counters());
    let mut driver = DriverTask::new(endpoint, sockets, clock, Some(sender), control_out, counters);
    let (refused, refusals) = mpsc::channel(REFUSALS);
    driver.report_refusals(refused);
    let links = driver.acceptor();
    let task = tokio::spawn(driver.run());
    Ok(Listener {
        local,
        locals,
        incoming,
        refusals: Some(refusals),
        control,
        counters: counters_out,
        links,
        task,
    })
}

impl Listener {
    /// Returns the next session that a device opened; `None` when the listener has ended.
    pub async fn accept(&mut self) -> Option<Incoming> {
        self.incoming.recv().await
    }

    /// Returns the channel of devices that were refused a session, with the reason; `None` after the first
    /// call. Each device has proved that it has the key.
    pub const fn take_refusals(&mut self) -> Option<mpsc::Receiver<(PublicKey, Refusal)>> {
        self.refusals.take()
    }

    /// The first local address.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// All local addresses, in the order of the configuration.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.locals
    }

    /// Returns a handle that changes the devices while another task accepts sessions.
    pub fn admission(&self) -> Admission {
        Admission {
            control: self.control.clone(),
        }
    }

    /// Opens links for agents that connect over another carrier than UDP.
    pub fn links(&self) -> LinkAcceptor {
        self.links.clone()
    }

    /// Counters of the endpoint.
    pub fn counters(&self) -> watch::Receiver<EndpointCounters> {
        self.counters.clone()
    }

    /// Closes all sessions with "going away" and ends.
    pub async fn shutdown(self) {
        const GOING_AWAY: u64 = 1;
        let _ended = self.control.send(Control::Shutdown(GOING_AWAY)).await;
        let _ended = self.task.await;
    }
}

/// Sets the devices that a listener admits, and its limits.
#[derive(Clone, Debug)]
pub struct Admission {
    control: mpsc::Sender<Control>,
}

impl Admission {
    /// Replaces the list of devices; sessions of devices that are revoked or removed are closed at once.
    pub async fn set_devices(&self, devices: BTreeMap<PublicKey, DeviceStatus>) {
        // A listener that has ended has no sessions to close.
        let _ended = self.control.send(Control::Devices(devices)).await;
    }

    /// Replaces the limit of concurrent sessions, and the limit of the streams that the peer of a session may
    /// have open; the latter for sessions that open later. Open sessions stay open.
    pub async fn set_limits(&self, max_sessions: usize, max_streams: u64) {
        let limits = Control::Limits {
            max_sessions,
            max_streams,
        };
        let _ended = self.control.send(limits).await;
    }

    /// Refuses new sessions from now on, or admits them again. Open sessions stay open.
    pub async fn set_draining(&self, is_draining: bool) {
        let _ended = self.control.send(Control::Drain(is_draining)).await;
    }

    /// Waits until the driver task answers, which proves that it runs; completes also if the task has ended.
    pub async fn probe_liveness(&self) {
        let (reply, answer) = oneshot::channel();
        if self.control.send(Control::LivenessProbe(reply)).await.is_ok() {
            let _ended = answer.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_port_below_1024_wants_a_permission() {
        let text = |address: &str| {
            let denied = io::ErrorKind::PermissionDenied.into();
            ListenError::of(address.parse().unwrap(), denied).to_string()
        };
        let low = text("[::]:443");
        assert!(
            low.starts_with("UDP port 443 ") && low.contains("CAP_NET_BIND_SERVICE"),
            "{low}"
        );
        assert!(!text("[::]:4433").contains("CAP_NET_BIND_SERVICE"));
    }
}
