//! A certificate authority of one test run.
use std::sync::Arc;

use ::ring::digest::{SHA256, digest};
use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use rustls::{ServerConfig, crypto::ring};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// A CA made for one run, which nobody but the run trusts.
#[derive(Debug)]
pub struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
    pin: String,
}

impl TestAuthority {
    /// Makes one.
    ///
    /// # Errors
    /// Key or certificate generation fails.
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "Longhaul test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().context("CA key")?;
        let certificate = params.self_signed(&key).context("CA certificate")?;
        let hash = digest(&SHA256, &key.subject_public_key_info());
        Ok(Self {
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            pin: STANDARD.encode(hash),
            issuer: Issuer::new(params, key),
        })
    }

    /// Its certificate, as PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The hash of its key, as Chromium's `--ignore-certificate-errors-spki-list` takes it.
    pub fn pin(&self) -> &str {
        &self.pin
    }

    /// A server configuration with a certificate for these names.
    ///
    /// # Errors
    /// Key or certificate generation fails.
    pub fn server(&self, names: &[&str]) -> Result<Arc<ServerConfig>> {
        let params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        let key = KeyPair::generate().context("leaf key")?;
        let certificate = params.signed_by(&key, &self.issuer).context("leaf certificate")?;
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone(), self.certificate.clone()], private)?;
        Ok(Arc::new(config))
    }
}
