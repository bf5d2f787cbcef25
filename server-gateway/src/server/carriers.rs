//! The gateway's carriers beside UDP: their ports, and changes of their certificate.
use std::net::SocketAddr;

pub(super) use longhaul_carriers::any_certificate;
use longhaul_carriers::{
    BindError, KeyPin, PemIdentity, QuicListener, QuicRenewal, QuicServer, TlsListener, UpgradedLinks,
    shared_port,
};
use longhaul_driver::{Listener, QuicShare};
use longhaul_gateway_core::{
    admission::state::StateDir,
    config::Config,
    port_error::{PortError, PortProtocol, SettingPort},
};
use longhaul_session::Announcement;
use longhaul_types::PublicKey;
use tokio::{sync::watch, task::JoinSet};
use tracing::{info, warn};

use super::{
    carrier_files::{CarrierFileError, CarrierFiles},
    clientless::{ClientlessListener, SharedPort},
};

/// Errors of the carrier.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CarrierError {
    /// Certificate and key cannot be used.
    #[error(transparent)]
    File(#[from] CarrierFileError),
    /// A port cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A carrier cannot start otherwise.
    #[error("{setting}: {source}")]
    Start {
        /// The setting of the carrier.
        setting: &'static str,
        /// The error.
        source: BindError,
    },
}

impl CarrierError {
    /// The error of the carrier of a setting.
    fn of(setting: &'static str, error: BindError, files: &CarrierFiles) -> Self {
        let port = |protocol, address| SettingPort {
            setting,
            protocol,
            address,
        };
        match error {
            BindError::Socket { address, source } => {
                PortError::new(port(PortProtocol::Tcp, address), source).into()
            }
            BindError::Udp { address, source } => {
                PortError::new(port(PortProtocol::Udp, address), source).into()
            }
            BindError::Tls(source) => files.unfit(source).into(),
            source => Self::Start { setting, source },
        }
    }
}

/// Ports of the carriers that are on.
pub(super) struct Carriers {
    tls: Option<TlsPort>,
    quic: Option<QuicPort>,
    certificate: Option<KeyPin>,
    /// The certificate of the port that `tls` shares, and its changes.
    changes: Option<watch::Receiver<PemIdentity>>,
}

enum TlsPort {
    Own(TlsListener),
    /// Links on the port of the proxy for clients without an agent.
    Shared(UpgradedLinks),
}

enum QuicPort {
    Open(QuicListener),
    /// It will share a port of the sessions.
    Waiting(Box<QuicServer>),
}

/// The two ends of the TCP port that `carriers.tls` and `clientless.tls` share.
pub(super) fn share_tls(config: &Config, gateway: PublicKey) -> Option<(SharedPort, UpgradedLinks)> {
    let address = config.shared_tls()?;
    let (upgrades, links) = shared_port(gateway);
    Some((SharedPort { address, upgrades }, links))
}

impl Carriers {
    /// Opens the ports. Reads the certificate, or makes one at the first start. `shared` are the links on the port of the
    /// proxy for clients without an agent, whose certificate is then used.
    pub(super) async fn bind(
        config: &Config,
        state: &StateDir,
        gateway: PublicKey,
        (shared, clientless): (Option<UpgradedLinks>, Option<&ClientlessListener>),
    ) -> Result<Self, CarrierError> {
        let is_shared = shared.is_some();
        let changes = clientless
            .filter(|_| is_shared)
            .and_then(ClientlessListener::watch_certificate);
        let load = || -> Result<_, CarrierFileError> {
            let Some(contents) = &changes else {
                let files = CarrierFiles::of(config, state)?;
                return Ok((files.read()?, files));
            };
            let files = CarrierFiles::of_shared(config)?;
            Ok((files.parse(&contents.borrow())?, files))
        };
        let mut certificate = None;
        let tls = match (config.carriers.tls, shared) {
            (_, Some(links)) => {
                certificate = load()?.0.pin();
                Some(TlsPort::Shared(links))
            }
            (Some(address), None) => {
                let (identity, files) = load()?;
                let bound = TlsListener::bind(address, identity, gateway).await;
                let bound = bound.map_err(|error| CarrierError::of("carriers.tls", error, &files))?;
                certificate = bound.certificate();
                Some(TlsPort::Own(bound))
            }
            (None, None) => None,
        };
        let quic = match config.carriers.quic {
            Some(address) => {
                let (identity, files) = load()?;
                let failed = |error| CarrierError::of("carriers.quic", error, &files);
                certificate = certificate.or_else(|| identity.pin());
                let server = QuicServer::new(identity, gateway).map_err(failed)?;
                Some(match config.udp_ports().1 {
                    Some(_) => QuicPort::Waiting(Box::new(server)),
                    None => QuicPort::Open(server.bind(address).map_err(failed)?),
                })
            }
            None => None,
        };
        Ok(Self {
            tls,
            quic,
            certificate,
            changes,
        })
    }

    /// Lets QUIC use the port of the sessions.
    pub(super) fn share_quic(&mut self, share: QuicShare) -> Result<(), CarrierError> {
        self.quic = match self.quic.take() {
            Some(QuicPort::Waiting(server)) => {
                let setting = "carriers.quic";
                let failed = |source| CarrierError::Start { setting, source };
                Some(QuicPort::Open(server.share(share).map_err(failed)?))
            }
            other => other,
        };
        Ok(())
    }

    /// TCP address of the carrier `tls`, if it is on and has a port of its own.
    pub(super) fn tls_addr(&self) -> Option<SocketAddr> {
        match &self.tls {
            Some(TlsPort::Own(listener)) => Some(listener.local_addr()),
            Some(TlsPort::Shared(_)) | None => None,
        }
    }

    /// True if the carrier `tls` has the port of the proxy for clients without an agent.
    pub(super) const fn is_tls_shared(&self) -> bool {
        matches!(self.tls, Some(TlsPort::Shared(_)))
    }

    /// UDP address of the carrier `quic`, if it is on.
    pub(super) fn quic_addr(&self) -> Option<SocketAddr> {
        match &self.quic {
            Some(QuicPort::Open(listener)) => Some(listener.local_addr()),
            Some(QuicPort::Waiting(_)) | None => None,
        }
    }

    /// The pin of the certificate, for agents to compare; the carriers have the same.
    pub(super) fn certificate(&self) -> Option<[u8; 32]> {
        self.certificate.map(KeyPin::into_bytes)
    }

    /// Opens links of the listener's sessions until the tasks are dropped, and announces changes of the certificate.
    pub(super) fn run(
        &mut self,
        listener: &Listener,
        announcement: &watch::Sender<Announcement>,
    ) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        match self.tls.take() {
            Some(TlsPort::Own(tls)) => drop(tasks.spawn(tls.run(listener.links()))),
            Some(TlsPort::Shared(links)) => drop(tasks.spawn(links.run(listener.links()))),
            None => {}
        }
        let mut renewal = None;
        if let Some(QuicPort::Open(quic)) = self.quic.take() {
            renewal = Some(quic.renewal());
            tasks.spawn(quic.run(listener.links()));
        }
        if let Some(changes) = self.changes.take() {
            tasks.spawn(follow(changes, renewal, announcement.clone()));
        }
        tasks
    }
}

/// Uses the certificate of the shared port for QUIC, too, and announces it, whenever it changes.
async fn follow(
    mut changes: watch::Receiver<PemIdentity>,
    quic: Option<QuicRenewal>,
    announcement: watch::Sender<Announcement>,
) {
    while changes.changed().await.is_ok() {
        let files = changes.borrow_and_update().clone();
        let pin = files.parse().ok().and_then(|identity| identity.pin());
        if let (Some(quic), Ok(identity)) = (&quic, files.parse())
            && let Err(error) = quic.renew(identity)
        {
            // The proxy has accepted the same files.
            warn!(%error, "carriers.quic: the certificate stays as it was");
        }
        let certificate = pin.map(KeyPin::into_bytes);
        announcement.send_if_modified(|announced| {
            let is_other = announced.certificate != certificate;
            announced.certificate = certificate;
            is_other
        });
        info!("agents learn the key of the new certificate");
    }
}
