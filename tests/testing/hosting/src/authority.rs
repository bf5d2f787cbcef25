//! Certificate authority of one run.
mod servers;

use std::{collections::BTreeMap, fmt, sync::Arc};

use parking_lot::Mutex;

use ::ring::digest::{SHA256, digest};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    server::{ClientHello, ResolvesServerCert, VerifierBuilderError},
    sign::CertifiedKey,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

pub use self::servers::{Clients, ServerFiles, ServerIssuer, ServerOptions, Validity};
use crate::Http2;

/// Maximum number of stored leaf certificates; recorded pages have fewer than 100 hosts. Beyond it
/// certificates are created again.
const MAX_LEAVES: usize = 1024;
/// Maximum characters of a common name (RFC 5280 appendix A.1); longer hosts are only in the alternative
/// name.
const MAX_COMMON_NAME: usize = 64;
/// Name on the certificate for clients that send no server name because they connect to an address.
const NAMELESS: &str = "origin.invalid";

/// A certificate authority in memory that only programs of the run trust. It issues a certificate once for
/// each requested server name; all keys are ECDSA on P-256.
///
/// Servers send the authority's certificate after the leaf, so that a client with the [`pin`](Self::pin)
/// finds it in the chain, and so that the handshake has two certificates like those of most public servers.
pub struct TestAuthority {
    pem: String,
    pin: String,
    leaves: Arc<Leaves>,
}

/// Errors of creating certificates.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// A certificate could not be created.
    #[error("cannot make a test certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS could not be configured.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The verification of clients could not be configured.
    #[error("clients cannot be verified: {0}")]
    Clients(#[from] VerifierBuilderError),
}

/// Returns the SHA-256 of the public half of a private key in PEM, in base64, as Chromium's
/// `--ignore-certificate-errors-spki-list` takes it: for authorities of other programs.
///
/// # Errors
/// The text is not a private key.
pub fn key_pin(private_key: &str) -> Result<String, AuthorityError> {
    Ok(pin(&KeyPair::from_pem(private_key)?))
}

/// Returns the SHA-256 of a public key in base64, as [`key_pin`] does.
pub fn pin(key: &impl PublicKeyData) -> String {
    STANDARD.encode(digest(&SHA256, &key.subject_public_key_info()))
}

impl TestAuthority {
    /// Creates an authority with a new key.
    ///
    /// # Errors
    /// The key cannot be generated.
    pub fn new() -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "Longhaul testbed authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            pem: certificate.pem(),
            pin: pin(&key),
            leaves: Arc::new(Leaves {
                certificate: certificate.der().clone(),
                issuer: Issuer::new(params, key),
                issued: Mutex::default(),
            }),
        })
    }

    /// Its certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.leaves.certificate
    }

    /// Its certificate as PEM, for programs that read a file.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// SHA-256 of its public key (SubjectPublicKeyInfo) in base64, as Chromium's
    /// `--ignore-certificate-errors-spki-list` takes it.
    pub fn pin(&self) -> &str {
        &self.pin
    }

    /// Returns a store that trusts only this authority, for clients.
    ///
    /// # Errors
    /// The store rejects the certificate.
    pub fn roots(&self) -> Result<RootCertStore, AuthorityError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.leaves.certificate.clone())?;
        Ok(roots)
    }

    /// Returns the configuration of a server that presents a certificate of this authority for any name.
    ///
    /// # Errors
    /// TLS cannot be configured.
    pub fn server_for_any_name(&self, http2: Http2) -> Result<Arc<ServerConfig>, AuthorityError> {
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<Leaves>::clone(&self.leaves);
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = match http2 {
            Http2::On => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Http2::Off => vec![b"http/1.1".to_vec()],
        };
        Ok(Arc::new(config))
    }
}

impl fmt::Debug for TestAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestAuthority")
            .field("pin", &self.pin)
            .finish_non_exhaustive()
    }
}

struct Leaves {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    issued: Mutex<BTreeMap<String, Arc<CertifiedKey>>>,
}

impl Leaves {
    fn issue(&self, host: &str) -> Result<Arc<CertifiedKey>, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![host.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        if host.len() <= MAX_COMMON_NAME {
            params.distinguished_name.push(DnType::CommonName, host);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let certificate = params.signed_by(&key, &self.issuer)?;
        let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let signing = ring::sign::any_supported_type(&secret)?;
        let chain = vec![certificate.der().clone(), self.certificate.clone()];
        Ok(Arc::new(CertifiedKey::new(chain, signing)))
    }
}

impl ResolvesServerCert for Leaves {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let host = hello.server_name().unwrap_or(NAMELESS).to_ascii_lowercase();
        let mut issued = self.issued.lock();
        if let Some(leaf) = issued.get(&host) {
            return Some(Arc::clone(leaf));
        }
        if issued.len() >= MAX_LEAVES {
            issued.clear();
        }
        let leaf = match self.issue(&host) {
            Ok(leaf) => leaf,
            Err(error) => {
                tracing::debug!(%error, "no certificate for a server name");
                return None;
            }
        };
        issued.insert(host, Arc::clone(&leaf));
        Some(leaf)
    }
}

impl fmt::Debug for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaves").finish_non_exhaustive()
    }
}
