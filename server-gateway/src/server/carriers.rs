//! The gateway's carriers beside UDP: the port, the certificate and its key.
use std::{
    fs, io,
    path::{Path, PathBuf},
};

use longhaul_carriers::{BindError, Identity, IdentityError, KeyPin, PemIdentity, TlsListener};
use longhaul_types::PublicKey;

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
    /// The port cannot be used.
    #[error("[carriers] tls: {0}; choose another one, or \"off\"")]
    Bind(#[from] BindError),
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

/// Opens the port of the carrier; `None` if it is off. Reads the certificate, or makes one at the first start.
pub(super) async fn bind(
    config: &Config,
    state: &StateDir,
    gateway: PublicKey,
) -> Result<Option<TlsListener>, CarrierError> {
    let Some(address) = config.carriers.tls else {
        return Ok(None);
    };
    let identity = identity(config, state)?;
    Ok(Some(TlsListener::bind(address, identity, gateway).await?))
}

/// Hash of the public key of the carrier's certificate, by which agents recognise an interception.
pub(super) fn announced_certificate(tls: Option<&TlsListener>) -> Option<[u8; 32]> {
    tls.and_then(TlsListener::certificate).map(KeyPin::into_bytes)
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
