//! Servers for given names, which may deviate from usual ones, and their clients.
use std::{fmt, sync::Arc};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use rustls::{ServerConfig, crypto::ring, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{AuthorityError, TestAuthority};

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

/// Files of a server, PEM.
#[derive(Clone)]
pub struct ServerFiles {
    /// Its certificate and that of the authority.
    pub chain: String,
    /// Its private key.
    pub key: String,
}

impl fmt::Debug for ServerFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerFiles").finish_non_exhaustive()
    }
}

impl TestAuthority {
    /// Returns the configuration of a server with a certificate for these names.
    ///
    /// # Errors
    /// A key or certificate cannot be created, or TLS cannot be configured.
    pub fn server(&self, names: &[&str]) -> Result<Arc<ServerConfig>, AuthorityError> {
        self.server_with(names, &ServerOptions::default())
    }

    /// The same for a server that deviates from a usual one.
    ///
    /// # Errors
    /// A key or certificate cannot be created, or TLS cannot be configured.
    pub fn server_with(
        &self,
        names: &[&str],
        options: &ServerOptions,
    ) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        (params.not_before, params.not_after) = match options.validity {
            Validity::Now => (params.not_before, params.not_after),
            Validity::Over => (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1)),
            Validity::ToCome => (date_time_ymd(2090, 1, 1), date_time_ymd(2091, 1, 1)),
        };
        let key = KeyPair::generate()?;
        let key = options.key.as_ref().unwrap_or(&key);
        let chain = match options.issuer {
            ServerIssuer::Authority => {
                let certificate = params.signed_by(key, &self.leaves.issuer)?;
                vec![certificate.der().clone(), self.certificate().clone()]
            }
            ServerIssuer::Itself => vec![params.self_signed(key)?.der().clone()],
        };
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots()?), provider);
        let builder = match options.clients {
            Clients::Anybody => builder.with_no_client_auth(),
            Clients::Asked => builder.with_client_cert_verifier(clients.allow_unauthenticated().build()?),
            Clients::Certified => builder.with_client_cert_verifier(clients.build()?),
        };
        Ok(Arc::new(builder.with_single_cert(chain, private(key))?))
    }

    /// Returns a certificate for these names with its key as files, for another program.
    ///
    /// # Errors
    /// The key or the certificate cannot be created.
    pub fn server_files(&self, names: &[&str]) -> Result<ServerFiles, AuthorityError> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(names)?.signed_by(&key, &self.leaves.issuer)?;
        Ok(ServerFiles {
            chain: format!("{}{}", certificate.pem(), self.pem()),
            key: key.serialize_pem(),
        })
    }

    /// Returns a certificate for a client, and its key.
    ///
    /// # Errors
    /// The key or the certificate cannot be created.
    pub fn client(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), AuthorityError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "A client");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.leaves.issuer)?;
        Ok((vec![certificate.der().clone()], private(&key)))
    }
}

fn private(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()))
}
