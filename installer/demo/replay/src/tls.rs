//! A certificate authority for the duration of the demonstration, for origins replayed over https.
use std::{collections::BTreeMap, fmt, sync::Arc};

use parking_lot::Mutex;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    crypto::ring,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Maximum number of stored leaf certificates; a page has less than 100 hosts.
const MAX_LEAVES: usize = 1024;

/// A certificate authority in memory, which issues certificates for any requested host.
pub struct TestAuthority {
    certificate: CertificateDer<'static>,
    pem: String,
    leaves: Arc<Leaves>,
}

/// Errors of creating certificates.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A certificate could not be created.
    #[error("cannot make a test certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS could not be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

impl TestAuthority {
    /// Creates an authority with a new key.
    ///
    /// # Errors
    /// The key cannot be generated.
    pub fn new() -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params
            .distinguished_name
            .push(DnType::CommonName, "Longhaul demonstration (not for use)");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            leaves: Arc::new(Leaves {
                issuer: Issuer::new(params, key),
                issued: Mutex::default(),
            }),
        })
    }

    /// The authority's certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The authority's certificate as PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns the configuration of a server that presents a certificate of this authority for any host.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn server(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<Leaves>::clone(&self.leaves);
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl fmt::Debug for TestAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestAuthority").finish_non_exhaustive()
    }
}

struct Leaves {
    issuer: Issuer<'static, KeyPair>,
    issued: Mutex<BTreeMap<String, Arc<CertifiedKey>>>,
}

impl Leaves {
    fn issue(&self, host: &str) -> Result<Arc<CertifiedKey>, TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![host.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, host);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer)?;
        let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let signing = ring::sign::any_supported_type(&secret)?;
        Ok(Arc::new(CertifiedKey::new(
            vec![certificate.der().clone()],
            signing,
        )))
    }
}

impl ResolvesServerCert for Leaves {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let host = hello.server_name()?.to_ascii_lowercase();
        let mut issued = self.issued.lock();
        if let Some(leaf) = issued.get(&host) {
            return Some(Arc::clone(leaf));
        }
        if issued.len() >= MAX_LEAVES {
            issued.clear();
        }
        let leaf = self.issue(&host).ok()?;
        issued.insert(host, Arc::clone(&leaf));
        Some(leaf)
    }
}

impl fmt::Debug for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaves").finish_non_exhaustive()
    }
}
