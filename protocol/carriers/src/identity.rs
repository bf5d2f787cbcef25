//! Certificate and key of the carriers.
use std::sync::Arc;

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    version::TLS13,
};

use crate::KeyPin;

/// Errors of a certificate and key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The file of the certificate contains none.
    #[error("the certificate is not in PEM form: {0}")]
    Certificate(rustls::pki_types::pem::Error),
    /// The file of the certificate is empty.
    #[error("the file contains no certificate")]
    NoCertificate,
    /// The file of the key contains none.
    #[error("the key is not in PEM form: {0}")]
    Key(rustls::pki_types::pem::Error),
    /// A certificate cannot be made.
    #[error("a certificate cannot be made: {0}")]
    Make(#[from] rcgen::Error),
}

/// Certificate chain and private key. Agents do not verify them.
#[derive(Debug)]
pub struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

/// A certificate and its key as texts of files.
#[derive(Clone)]
pub struct PemIdentity {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl std::fmt::Debug for PemIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PemIdentity").finish_non_exhaustive()
    }
}

impl PemIdentity {
    /// Makes a self-signed certificate for `name`, a host name or an address.
    ///
    /// # Errors
    /// The name is no name, or the system has no randomness.
    pub fn self_signed(name: &str) -> Result<Self, IdentityError> {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()])?;
        Ok(Self {
            certificate: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
        })
    }

    /// Parses the texts.
    ///
    /// # Errors
    /// See [`IdentityError`].
    pub fn parse(&self) -> Result<Identity, IdentityError> {
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(IdentityError::Certificate)?;
        if chain.is_empty() {
            return Err(IdentityError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(IdentityError::Key)?;
        Ok(Identity { chain, key })
    }
}

impl Identity {
    /// Settings of TLS 1.3 of a port whose application protocol is `alpn`.
    pub(crate) fn server_config(self, alpn: &[u8]) -> Result<ServerConfig, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(self.chain, self.key)?;
        config.alpn_protocols = vec![alpn.to_vec()];
        Ok(config)
    }

    /// The key of the certificate, for agents to compare; `None` if the certificate cannot be parsed.
    pub fn pin(&self) -> Option<KeyPin> {
        self.chain.first().and_then(KeyPin::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_was_made_can_be_parsed() {
        let made = PemIdentity::self_signed("gw.example.org").unwrap();
        assert_eq!(made.parse().unwrap().chain.len(), 1);
        let swapped = PemIdentity {
            certificate: made.key.clone(),
            key: made.certificate.clone(),
        };
        assert!(matches!(swapped.parse(), Err(IdentityError::NoCertificate)));
        let keyless = PemIdentity {
            key: made.certificate.clone(),
            ..made
        };
        assert!(matches!(keyless.parse(), Err(IdentityError::Key(_))));
    }
}
