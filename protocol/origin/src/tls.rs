//! TLS to origins: as strict as browsers, without a switch that relaxes it.
use std::{io, sync::Arc};

use rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, PeerIncompatible, RootCertStore,
    client::{Resumption, danger::ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

use crate::{
    chains::Chains,
    client_certificate_request::{NoClientCertificate, TlsSessionCache},
    config::OriginConfigError,
    deny::{self, DenyList, DenyingVerifier, is_denial},
    error::TlsDefect,
    target::Host,
};

/// ALPN names of HTTP/2 and HTTP/1.1, in order of preference (RFC 7301, RFC 9113 section 3.2).
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// TLS 1.2 and 1.3 with the public authorities of Mozilla's list and those of `extra_ca` (PEM texts), except
/// chains that contain a key of `deny`. With the configuration comes what completes chains that lack certificates.
pub(crate) fn client_config(
    extra_ca: &[Vec<u8>],
    deny: &DenyList,
) -> Result<(ClientConfig, Arc<Chains>), OriginConfigError> {
    let roots = roots(extra_ca)?;
    let authorities = roots.roots.iter().map(|anchor| anchor.subject.to_vec()).collect();
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| OriginConfigError::Tls {
            detail: error.to_string(),
        })?;
    let verifier: Arc<dyn ServerCertVerifier> = if deny.is_empty() {
        deny::verifier(roots, &provider)?
    } else {
        Arc::new(DenyingVerifier::new(roots, deny.clone(), &provider)?)
    };
    let chains = Arc::new(Chains::new(verifier, deny.clone(), authorities));
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::<Chains>::clone(&chains))
        .with_client_cert_resolver(Arc::new(NoClientCertificate));
    config.resumption = Resumption::store(Arc::new(TlsSessionCache::new()));
    config.alpn_protocols = ALPN.iter().map(|name| name.to_vec()).collect();
    Ok((config, chains))
}

fn roots(extra_ca: &[Vec<u8>]) -> Result<RootCertStore, OriginConfigError> {
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    for (index, pem) in extra_ca.iter().enumerate() {
        let file = index + 1;
        let mut is_empty = true;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|_| OriginConfigError::NoCertificate { file })?;
            roots
                .add(certificate)
                .map_err(|_| OriginConfigError::BadCertificate { file })?;
            is_empty = false;
        }
        if is_empty {
            return Err(OriginConfigError::NoCertificate { file });
        }
    }
    Ok(roots)
}

/// Returns the name that the origin's certificate must contain.
pub(crate) fn server_name(host: &Host) -> Option<ServerName<'static>> {
    match host {
        Host::Address(address) => Some(ServerName::IpAddress((*address).into())),
        Host::Name(name) => ServerName::try_from(name.clone()).ok(),
    }
}

/// Returns the TLS defect of an I/O error, if it is one.
pub(crate) fn defect_of(error: &io::Error) -> Option<TlsDefect> {
    error.get_ref()?.downcast_ref::<Error>().map(defect)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum is the library's and grows; all that is not named here means the same to us"
)]
fn defect(error: &Error) -> TlsDefect {
    match error {
        Error::InvalidCertificate(certificate) => certificate_defect(certificate),
        Error::AlertReceived(AlertDescription::CertificateRequired) => TlsDefect::ClientCertificate,
        Error::AlertReceived(AlertDescription::ProtocolVersion)
        | Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => TlsDefect::Version,
        Error::InvalidMessage(_) => TlsDefect::NotTls,
        _ => TlsDefect::Other,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum is the library's and grows; all that is not named here means the same to us"
)]
fn certificate_defect(error: &CertificateError) -> TlsDefect {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsDefect::Expired,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            TlsDefect::NameMismatch
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => TlsDefect::NotValidYet,
        CertificateError::Revoked => TlsDefect::Revoked,
        CertificateError::Other(error) if is_denial(error) => TlsDefect::DeniedKey,
        // A signature that does not verify: the issuer only has the name of an authority.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => TlsDefect::UnknownIssuer,
        _ => TlsDefect::Other,
    }
}

#[cfg(test)]
mod tests {
    use rustls::OtherError;

    use super::*;

    #[test]
    fn defects_of_certificates_are_distinguished() {
        let foreign = CertificateError::Other(OtherError(Arc::new(io::Error::other("x"))));
        for (error, expected) in [
            (
                Error::InvalidCertificate(CertificateError::Revoked),
                TlsDefect::Revoked,
            ),
            (
                Error::InvalidCertificate(CertificateError::Expired),
                TlsDefect::Expired,
            ),
            (deny::denial(), TlsDefect::DeniedKey),
            (Error::InvalidCertificate(foreign), TlsDefect::Other),
            (
                Error::AlertReceived(AlertDescription::CertificateRequired),
                TlsDefect::ClientCertificate,
            ),
            (
                Error::AlertReceived(AlertDescription::HandshakeFailure),
                TlsDefect::Other,
            ),
        ] {
            assert_eq!(defect(&error), expected, "{error:?}");
        }
    }
}
