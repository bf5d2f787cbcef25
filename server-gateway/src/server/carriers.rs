//! The gateway's carriers beside UDP: their ports, the certificate and its key.
use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

pub(super) use longhaul_carriers::any_certificate;
use longhaul_carriers::{BindError, Identity, IdentityError, KeyPin, PemIdentity, QuicListener, TlsListener};
use longhaul_driver::Listener;
use longhaul_types::PublicKey;
use tokio::task::JoinSet;

use crate::{
    admission::state::{StateDir, StateError},
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
    /// The state directory cannot be written.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Ports of the carriers that are on.
pub(super) struct Carriers {
    tls: Option<TlsListener>,
    quic: Option<QuicListener>,
}

impl Carriers {
    /// Opens the ports. Reads the certificate, or makes one at the first start.
    pub(super) async fn bind(
        config: &Config,
        state: &StateDir,
        gateway: PublicKey,
    ) -> Result<Self, CarrierError> {
        let failed = |carrier| move |source| CarrierError::Bind { carrier, source };
        let tls = match config.carriers.tls {
            Some(address) => {
                let bound = TlsListener::bind(address, identity(config, state)?, gateway).await;
                Some(bound.map_err(failed("tls"))?)
            }
            None => None,
        };
        let quic = match config.carriers.quic {
            Some(address) => {
                let bound = QuicListener::bind(address, identity(config, state)?, gateway);
                Some(bound.map_err(failed("quic"))?)
            }
            None => None,
        };
        Ok(Self { tls, quic })
    }

    /// TCP address of the carrier `tls`, if it is on.
    pub(super) fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls.as_ref().map(TlsListener::local_addr)
    }

    /// UDP address of the carrier `quic`, if it is on.
    pub(super) fn quic_addr(&self) -> Option<SocketAddr> {
        self.quic.as_ref().map(QuicListener::local_addr)
    }

    /// The pin of the certificate, for agents to compare; the carriers have the same.
    pub(super) fn certificate(&self) -> Option<[u8; 32]> {
        let tls = self.tls.as_ref().and_then(TlsListener::certificate);
        let pin = tls.or_else(|| self.quic.as_ref().and_then(QuicListener::certificate));
        pin.map(KeyPin::into_bytes)
    }

    /// Opens links of the listener's sessions until the tasks are dropped.
    pub(super) fn run(&mut self, listener: &Listener) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        if let Some(tls) = self.tls.take() {
            tasks.spawn(tls.run(listener.links()));
        }
        if let Some(quic) = self.quic.take() {
            tasks.spawn(quic.run(listener.links()));
        }
        tasks
    }
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
