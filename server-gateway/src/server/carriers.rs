//! The gateway's carriers beside UDP: their ports, the certificate and its key.
use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

pub(super) use longhaul_carriers::any_certificate;
use longhaul_carriers::{
    BindError, Identity, IdentityError, KeyPin, PemIdentity, QuicListener, QuicRenewal, QuicServer,
    TlsListener, UpgradedLinks, shared_port,
};
use longhaul_driver::{Listener, QuicShare};
use longhaul_session::Announcement;
use longhaul_types::PublicKey;
use tokio::{sync::watch, task::JoinSet};
use tracing::{info, warn};

use crate::{
    admission::state::{StateDir, StateError},
    clientless::{CertificateFiles, ClientlessListener, SharedPort},
    config::Config,
};

/// Files of the certificate and the key that the gateway makes, in the state directory.
const CERTIFICATE: &str = "carrier.pem";
const KEY: &str = "carrier.key";

/// Errors of the carrier.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CarrierError {
    /// A port cannot be used.
    #[error("[carriers] {carrier}: {source}; choose another one, or \"off\"")]
    Bind {
        /// The carrier.
        carrier: &'static str,
        /// The error.
        source: BindError,
    },
    /// A file cannot be read.
    #[error("[carriers]: {path} cannot be read: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file has unexpected contents.
    #[error("[carriers]: {path}: {source}", path = path.display())]
    Identity {
        /// The file of the certificate.
        path: PathBuf,
        /// The mistake.
        source: IdentityError,
    },
    /// Only one of certificate and key is configured.
    #[error("[carriers]: `cert` and `key` belong together: set both or none")]
    OnlyOne,
    /// The port that carrier and proxy share would have two certificates.
    #[error(
        "[carriers] cert: carriers.tls and clientless.tls share a port, whose certificate is clientless.certificate; remove \
         carriers.cert and carriers.key, or give each a port of its own"
    )]
    TwoCertificates,
    /// The state directory cannot be written.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Ports of the carriers that are on.
pub(super) struct Carriers {
    tls: Option<TlsPort>,
    quic: Option<QuicPort>,
    certificate: Option<KeyPin>,
    /// The certificate of the port that `tls` shares, and its changes.
    changes: Option<watch::Receiver<CertificateFiles>>,
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
        let failed = |carrier| move |source| CarrierError::Bind { carrier, source };
        let is_shared = shared.is_some();
        let changes = clientless
            .filter(|_| is_shared)
            .and_then(ClientlessListener::watch_certificate);
        let identity = || match &changes {
            Some(files) => shared_identity(config, &files.borrow()),
            None => identity(config, state),
        };
        let mut certificate = None;
        let tls = match (config.carriers.tls, shared) {
            (_, Some(links)) => {
                certificate = identity()?.pin();
                Some(TlsPort::Shared(links))
            }
            (Some(address), None) => {
                let bound = TlsListener::bind(address, identity()?, gateway).await;
                let bound = bound.map_err(failed("tls"))?;
                certificate = bound.certificate();
                Some(TlsPort::Own(bound))
            }
            (None, None) => None,
        };
        let quic = match config.carriers.quic {
            Some(address) => {
                let identity = identity()?;
                certificate = certificate.or_else(|| identity.pin());
                let server = QuicServer::new(identity, gateway).map_err(failed("quic"))?;
                Some(match config.udp_ports().1 {
                    Some(_) => QuicPort::Waiting(Box::new(server)),
                    None => QuicPort::Open(server.bind(address).map_err(failed("quic"))?),
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
                let carrier = "quic";
                let failed = |source| CarrierError::Bind { carrier, source };
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
    mut changes: watch::Receiver<CertificateFiles>,
    quic: Option<QuicRenewal>,
    announcement: watch::Sender<Announcement>,
) {
    while changes.changed().await.is_ok() {
        let files = pem(&changes.borrow_and_update());
        let pin = files.parse().ok().and_then(|identity| identity.pin());
        if let (Some(quic), Ok(identity)) = (&quic, files.parse())
            && let Err(error) = quic.renew(identity)
        {
            // The proxy has accepted the same files.
            warn!(%error, "[carriers] quic: the certificate stays as it was");
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

fn pem(files: &CertificateFiles) -> PemIdentity {
    PemIdentity {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
    }
}

/// The certificate of the port that carrier and proxy share.
fn shared_identity(config: &Config, files: &CertificateFiles) -> Result<Identity, CarrierError> {
    let (carriers, clientless) = (&config.carriers, &config.clientless);
    let is_other = |own: &Option<PathBuf>, shared| own.is_some() && own != shared;
    if is_other(&carriers.cert, &clientless.certificate) || is_other(&carriers.key, &clientless.key) {
        return Err(CarrierError::TwoCertificates);
    }
    pem(files).parse().map_err(|source| CarrierError::Identity {
        path: clientless.certificate.clone().unwrap_or_default(),
        source,
    })
}

fn identity(config: &Config, state: &StateDir) -> Result<Identity, CarrierError> {
    let (certificate, key) = match (&config.carriers.cert, &config.carriers.key) {
        (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
        (None, None) => {
            let (certificate, key) = (state.file(CERTIFICATE), state.file(KEY));
            if !certificate.exists() {
                make(config, state)?;
            }
            (certificate, key)
        }
        (Some(_), None) | (None, Some(_)) => return Err(CarrierError::OnlyOne),
    };
    let pem = PemIdentity {
        certificate: read(&certificate)?,
        key: read(&key)?,
    };
    pem.parse().map_err(|source| CarrierError::Identity {
        path: certificate,
        source,
    })
}

/// Makes a certificate for the gateway's public name. The key is written first: a certificate without a key would
/// not be replaced.
fn make(config: &Config, state: &StateDir) -> Result<(), CarrierError> {
    let address = config.public_address.as_deref().unwrap_or("localhost:443");
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let made = PemIdentity::self_signed(host.trim_start_matches('[').trim_end_matches(']'));
    let made = made.map_err(|source| CarrierError::Identity {
        path: state.file(CERTIFICATE),
        source,
    })?;
    state.replace(KEY, made.key.as_bytes())?;
    state.replace(CERTIFICATE, made.certificate.as_bytes())?;
    Ok(())
}

fn read(path: &Path) -> Result<String, CarrierError> {
    fs::read_to_string(path).map_err(|source| CarrierError::File {
        path: path.to_owned(),
        source,
    })
}
