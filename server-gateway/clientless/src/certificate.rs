//! Certificate and key of the port with TLS, which are read again when their files change.
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use longhaul_carriers::PemIdentity;
use longhaul_gateway_core::{
    admission::file_watch::FileWatch, config::ClientlessConfig, file_problem::file_problem,
};
use parking_lot::Mutex;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tracing::{info, warn};

/// Interval between looks at the files.
const LOOK: Duration = Duration::from_secs(1);
/// Protocols inside TLS, in the order of preference.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
/// Name of HTTP/2 in TLS.
pub(super) const HTTP2: &[u8] = b"h2";

/// Errors of certificate and key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A setting is missing.
    #[error(
        "[clientless] tls: set clientless.{0} to the PEM file of a {0} for the name by which browsers reach this proxy, \
         or clientless.tls to \"off\""
    )]
    Missing(&'static str),
    /// A file cannot be read.
    #[error(
        "[clientless] {setting}: {path} {}",
        file_problem(source),
        path = path.display()
    )]
    Read {
        /// The setting.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file has unexpected contents.
    #[error(
        "[clientless] {setting}: {path} contains no {setting} in PEM form (lines between BEGIN and END)",
        path = path.display()
    )]
    NotPem {
        /// The setting.
        setting: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key cannot be used together.
    #[error(
        "[clientless] certificate: {certificate} cannot be used with the key in {key}: {source}; \
         both must have been made together, the certificate of the server first in its file",
        certificate = certificate.display(),
        key = key.display()
    )]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The mistake.
        source: rustls::Error,
    },
}

/// The certificate that new connections get.
#[derive(Debug)]
pub(super) struct Certificate {
    files: Files,
    config: ArcSwap<ServerConfig>,
    contents: watch::Sender<PemIdentity>,
    watches: Mutex<[FileWatch; 2]>,
}

#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificate {
    /// Reads certificate and key.
    ///
    /// # Errors
    /// See [`CertificateError`].
    pub(super) fn new(config: &ClientlessConfig) -> Result<Self, CertificateError> {
        let path = |path: &Option<PathBuf>, name| path.clone().ok_or(CertificateError::Missing(name));
        let files = Files {
            certificate: path(&config.certificate, "certificate")?,
            key: path(&config.key, "key")?,
        };
        // Before the files are read: a change in between is noticed later.
        let mut watches = [
            FileWatch::new(files.certificate.clone()),
            FileWatch::new(files.key.clone()),
        ];
        for watch in &mut watches {
            watch.has_changed();
        }
        let (config, contents) = files.load()?;
        Ok(Self {
            config: ArcSwap::new(config),
            contents: watch::Sender::new(contents),
            files,
            watches: Mutex::new(watches),
        })
    }

    /// The configuration of a new connection.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// The contents of the files, and their changes.
    pub(super) fn watch(&self) -> watch::Receiver<PemIdentity> {
        self.contents.subscribe()
    }

    /// Reads the files again when they change, as long as the future exists.
    pub(super) async fn look(&self) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.refresh();
        }
    }

    fn refresh(&self) {
        let mut has_changed = false;
        for watch in self.watches.lock().iter_mut() {
            has_changed |= watch.has_changed();
        }
        if !has_changed {
            return;
        }
        match self.files.load() {
            Ok((config, contents)) => {
                self.config.store(config);
                self.contents.send_replace(contents);
                info!(path = %self.files.certificate.display(), "the proxy's certificate was read again");
            }
            // For example between the changes of both files; the second change is noticed, too.
            Err(error) => warn!(%error, "the proxy keeps its certificate as it was"),
        }
    }
}

impl Files {
    fn load(&self) -> Result<(Arc<ServerConfig>, PemIdentity), CertificateError> {
        let (certificate, key) = ("certificate", "key");
        let not_pem = |setting, path: &Path| CertificateError::NotPem {
            setting,
            path: path.to_owned(),
        };
        let text = read(certificate, &self.certificate)?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let chain = chain
            .ok()
            .filter(|chain| !chain.is_empty())
            .ok_or_else(|| not_pem(certificate, &self.certificate))?;
        let key_text = read(key, &self.key)?;
        let key = PrivateKeyDer::from_pem_slice(&key_text).map_err(|_| not_pem(key, &self.key))?;
        let unusable = |source| CertificateError::Unusable {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            source,
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(unusable)?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        // What is outside of the lines between BEGIN and END may have any form.
        let text_of = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let contents = PemIdentity {
            certificate: text_of(text),
            key: text_of(key_text),
        };
        Ok((Arc::new(config), contents))
    }
}

fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>, CertificateError> {
    fs::read(path).map_err(|source| CertificateError::Read {
        setting,
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(directory: &Path) -> Files {
        let made = rcgen::generate_simple_self_signed(vec!["gw.test".to_owned()]).unwrap();
        let files = Files {
            certificate: directory.join("cert.pem"),
            key: directory.join("key.pem"),
        };
        fs::write(&files.certificate, made.cert.pem()).unwrap();
        fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        files
    }

    #[test]
    fn mistakes_name_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(directory.path());
        assert_eq!(files.load().unwrap().0.alpn_protocols, PROTOCOLS);
        let other = Files {
            key: files.certificate.clone(),
            ..files.clone()
        };
        let error = other.load().unwrap_err().to_string();
        assert!(
            error.contains("clientless] key") && error.contains("cert.pem"),
            "{error}"
        );
        let swapped = Files {
            certificate: files.key.clone(),
            key: files.certificate.clone(),
        };
        let error = swapped.load().unwrap_err().to_string();
        assert!(
            error.contains("clientless] certificate") && error.contains("key.pem"),
            "{error}"
        );
        let absent = Files {
            key: directory.path().join("absent"),
            ..files.clone()
        };
        assert!(
            absent
                .load()
                .unwrap_err()
                .to_string()
                .ends_with("absent does not exist")
        );
        let elsewhere = tempfile::tempdir().unwrap();
        let mixed = Files {
            key: self::files(elsewhere.path()).key,
            ..files
        };
        assert!(matches!(mixed.load(), Err(CertificateError::Unusable { .. })));
    }
}
