//! A certificate authority of one test run.
use std::sync::Arc;

use ::ring::digest::{SHA256, digest};
use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, date_time_ymd,
};
use rustls::{RootCertStore, ServerConfig, crypto::ring, server::WebPkiClientVerifier};
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
        Ok(Self {
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            pin: pin(&key),
            issuer: Issuer::new(params, key),
        })
    }

    /// Its certificate, as PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Its certificate, in DER.
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
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
        self.server_with(names, &ServerOptions::default())
    }

    /// The same as these options say.
    ///
    /// # Errors
    /// Key or certificate generation fails.
    pub fn server_with(&self, names: &[&str], options: &ServerOptions) -> Result<Arc<ServerConfig>> {
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        (params.not_before, params.not_after) = match options.validity {
            Validity::Now => (params.not_before, params.not_after),
            Validity::Over => (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1)),
            Validity::ToCome => (date_time_ymd(2090, 1, 1), date_time_ymd(2091, 1, 1)),
        };
        let key = KeyPair::generate().context("leaf key")?;
        let key = options.key.as_ref().unwrap_or(&key);
        let certificate = match options.issuer {
            ServerIssuer::Authority => params.signed_by(key, &self.issuer),
            ServerIssuer::Itself => params.self_signed(key),
        };
        let certificate = certificate.context("leaf certificate")?.der().clone();
        let chain = match options.issuer {
            ServerIssuer::Authority => vec![certificate, self.certificate.clone()],
            ServerIssuer::Itself => vec![certificate],
        };
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = match options.clients {
            Clients::Anybody => builder.with_no_client_auth(),
            Clients::Asked => builder.with_client_cert_verifier(clients.allow_unauthenticated().build()?),
            Clients::Certified => builder.with_client_cert_verifier(clients.build()?),
        };
        Ok(Arc::new(builder.with_single_cert(chain, private)?))
    }

    /// A certificate for a client, and its key.
    ///
    /// # Errors
    /// Key or certificate generation fails.
    pub fn client(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "A client");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().context("client key")?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .context("client certificate")?;
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok((vec![certificate.der().clone()], private))
    }
}

/// Deviations of a server from a usual one.
#[derive(Debug, Default)]
pub struct ServerOptions {
    /// When its certificate is valid.
    pub validity: Validity,
    /// Who signed its certificate.
    pub issuer: ServerIssuer,
    /// Its key; a new one if none.
    pub key: Option<KeyPair>,
    /// Whom it serves.
    pub clients: Clients,
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validity {
    /// Now.
    #[default]
    Now,
    /// Its time is over.
    Over,
    /// Its time has not begun.
    ToCome,
}

/// Who signed a server's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerIssuer {
    /// The authority.
    #[default]
    Authority,
    /// The server.
    Itself,
}

/// Whom a server serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clients {
    /// It does not ask.
    #[default]
    Anybody,
    /// It asks for certificates of the authority, and serves those without, too.
    Asked,
    /// Those with a certificate of the authority.
    Certified,
}

/// The hash of a key, in Base64.
pub fn pin(key: &impl PublicKeyData) -> String {
    STANDARD.encode(digest(&SHA256, &key.subject_public_key_info()))
}
