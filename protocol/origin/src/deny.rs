//! Deny list of public keys: keys of authorities that are no longer trusted, and of certificates that are
//! known to be stolen. The operator configures the list.
use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use ring::digest::{SHA256, digest};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime},
    server::ParsedCertificate,
};
use thiserror::Error;

use crate::config::OriginConfigError;

/// Base64 with or without padding, as common tools print it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// SHA-256 hash of a certificate's subject public key info (RFC 5280 section 4.1), which identifies the key
/// in all its certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash([u8; 32]);

/// Text that is not a key hash.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no SHA-256 of a public key; write 64 hexadecimal digits, or its 44 characters in base64")]
pub struct KeyHashError(pub String);

impl FromStr for KeyHash {
    type Err = KeyHashError;

    /// Parses 64 hexadecimal digits, with or without colons between the bytes, or base64, with or without the
    /// prefix `sha256/` (RFC 7469 section 2.1.1 and the output of common tools).
    fn from_str(text: &str) -> Result<Self, KeyHashError> {
        let error = || KeyHashError(text.to_owned());
        let digits: String = text.chars().filter(|character| *character != ':').collect();
        if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let mut hash = [0; 32];
            for (index, byte) in hash.iter_mut().enumerate() {
                let pair = digits.get(2 * index..2 * index + 2).ok_or_else(error)?;
                *byte = u8::from_str_radix(pair, 16).map_err(|_| error())?;
            }
            return Ok(Self(hash));
        }
        let encoded = text.strip_prefix("sha256/").unwrap_or(text);
        let bytes = BASE64.decode(encoded).map_err(|_| error())?;
        bytes.try_into().map(Self).map_err(|_| error())
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl KeyHash {
    fn of(info: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, info).as_ref());
        Self(hash)
    }

    /// Returns the hash of a certificate's key; `None` if the data is not a certificate.
    fn of_certificate(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = ParsedCertificate::try_from(certificate).ok()?;
        Some(Self::of(&parsed.subject_public_key_info()))
    }

    /// Returns the hash of an authority's key. The library stores the key info without its outermost tag.
    fn of_anchor(anchor: &TrustAnchor<'_>) -> Self {
        let contents = anchor.subject_public_key_info.as_ref();
        let length = contents.len().to_be_bytes();
        let significant: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
        let mut info = vec![0x30];
        if contents.len() >= 0x80 {
            info.push(0x80 | u8::try_from(significant.len()).unwrap_or(u8::MAX));
        }
        info.extend_from_slice(&significant);
        info.extend_from_slice(contents);
        Self::of(&info)
    }
}

/// Keys that no certificate of a chain may have, from the origin's certificate to the authority's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DenyList(BTreeSet<KeyHash>);

impl DenyList {
    /// Returns true if the list contains no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the key of a certificate is on the list.
    pub(crate) fn denies(&self, certificate: &CertificateDer<'_>) -> bool {
        !self.is_empty() && KeyHash::of_certificate(certificate).is_some_and(|hash| self.0.contains(&hash))
    }

    /// The key hashes.
    pub fn iter(&self) -> impl Iterator<Item = &KeyHash> {
        self.0.iter()
    }
}

impl FromIterator<KeyHash> for DenyList {
    fn from_iter<I: IntoIterator<Item = KeyHash>>(hashes: I) -> Self {
        Self(hashes.into_iter().collect())
    }
}

#[derive(Debug, Error)]
#[error("a key of the chain is denied by the operator")]
struct Denial;

/// Returns true if a certificate was rejected because of its key.
pub(crate) fn is_denial(error: &OtherError) -> bool {
    error.0.is::<Denial>()
}

/// The error of a chain with a denied key.
pub(crate) fn denial() -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(Denial))))
}

/// The library's certificate verifier, followed by the deny list.
#[derive(Debug)]
pub(crate) struct DenyingVerifier {
    verifier: Arc<WebPkiServerVerifier>,
    /// Includes the denied authorities: a chain that leads only to a denied authority is reported as denied,
    /// not as unknown.
    all: Arc<WebPkiServerVerifier>,
    deny: DenyList,
}

impl DenyingVerifier {
    pub(crate) fn new(
        roots: RootCertStore,
        deny: DenyList,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, OriginConfigError> {
        let mut permitted = roots.clone();
        permitted
            .roots
            .retain(|anchor| !deny.0.contains(&KeyHash::of_anchor(anchor)));
        Ok(Self {
            verifier: verifier(permitted, provider)?,
            all: verifier(roots, provider)?,
            deny,
        })
    }
}

/// The library's certificate verifier.
pub(crate) fn verifier(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, OriginConfigError> {
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    builder.build().map_err(|error| OriginConfigError::Tls {
        detail: error.to_string(),
    })
}

impl ServerCertVerifier for DenyingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verify = |verifier: &WebPkiServerVerifier| {
            verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        };
        let verified = match verify(&self.verifier) {
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) if verify(&self.all).is_ok() => {
                return Err(denial());
            }
            verified => verified?,
        };
        // Also if another chain leads to a trusted authority: an origin that presents a denied key is not
        // trusted.
        let mut shown = std::iter::once(end_entity).chain(intermediates);
        if shown.any(|certificate| self.deny.denies(certificate)) {
            return Err(denial());
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_read_as_tools_print_them() {
        // ISRG Root X1, in forms that common tools print.
        let hex = "0b9fa5a59eed715c26c1020c711b4f6ec42d58b0015e14337a39dad301c5afc3";
        let hash: KeyHash = hex.parse().unwrap();
        for text in [
            "0B:9F:A5:A5:9E:ED:71:5C:26:C1:02:0C:71:1B:4F:6E:C4:2D:58:B0:01:5E:14:33:7A:39:DA:D3:01:C5:AF:C3",
            "C5+lpZ7tcVwmwQIMcRtPbsQtWLABXhQzejna0wHFr8M=",
            "sha256/C5+lpZ7tcVwmwQIMcRtPbsQtWLABXhQzejna0wHFr8M",
        ] {
            assert_eq!(text.parse::<KeyHash>(), Ok(hash), "{text}");
        }
        assert_eq!(hash.to_string(), hex);
        let is_root = webpki_roots::TLS_SERVER_ROOTS
            .iter()
            .any(|anchor| KeyHash::of_anchor(anchor) == hash);
        assert!(
            is_root,
            "the hash of an authority's key is that of its certificates"
        );
        for text in [
            "",
            "0b9f",
            &hex[2..],
            "sha256/AAAA",
            "sha1/C5+lpZ7tcVwmwQIMcRtPbsQtWLABXhQzejna0wHFr8M",
            &"+1".repeat(32),
        ] {
            assert_eq!(text.parse::<KeyHash>(), Err(KeyHashError(text.to_owned())));
        }
        // Base64 whose characters are all hexadecimal digits.
        assert_eq!("A".repeat(43).parse(), Ok(KeyHash([0; 32])));
    }
}
