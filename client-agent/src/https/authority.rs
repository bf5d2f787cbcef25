//! The device's certificate authority: created on the device, never leaves it, and signs only the
//! certificates that this agent presents to the browsers of this machine.
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use longhaul_types::UnixTime;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::{
    crypto::ring::sign::any_ecdsa_type,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject},
    sign::CertifiedKey,
};

use crate::state_dir::{StateDir, StateError};

/// File of the certificate in the state directory.
const CERTIFICATE: &str = "ca.pem";
/// File of the private key, readable only by its owner.
const KEY: &str = "ca.key";
/// Validity of the authority: its use ends by removal, not by age.
const YEARS: u64 = 5;
/// Validity of a host's certificate: a stolen one is soon worthless.
const LEAF_DAYS: u64 = 7;
/// Tolerance for clocks that are behind.
const SKEW_DAYS: u64 = 1;
const DAY: u64 = 24 * 3600;

/// Errors of the certificate authority.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// The authority does not exist yet.
    #[error("this device has no certificate authority yet: `longhaul-agent ca export` creates one")]
    Missing,
    /// A file cannot be read or removed.
    #[error("{} cannot be {what}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The attempted action.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    State(#[from] StateError),
    /// A file has unexpected contents.
    #[error(
        "{} is damaged: `longhaul-agent ca remove` removes it, and `longhaul-agent ca export` creates a new one, which \
         must be added to the browsers' trust stores", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The system has no randomness.
    #[error("the system provides no random numbers")]
    Randomness,
    /// A key or certificate cannot be created.
    #[error("a certificate cannot be created: {0}")]
    Make(#[from] rcgen::Error),
    /// The key of a certificate cannot be used.
    #[error("the key of a certificate cannot be used: {0}")]
    Key(#[from] rustls::Error),
}

/// The device's certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority")
            .field("fingerprint", &self.fingerprint())
            .finish_non_exhaustive()
    }
}

impl Authority {
    /// Opens the device's authority; creates it if there is none. Returns true if it was created.
    ///
    /// # Errors
    /// The authority is damaged, or cannot be read or written.
    pub fn open_or_make(state: &StateDir, now: UnixTime) -> Result<(Self, bool), AuthorityError> {
        match Self::open(state) {
            Err(AuthorityError::Missing) => Ok((Self::make(state, now)?, true)),
            opened => Ok((opened?, false)),
        }
    }

    /// Opens the device's authority.
    ///
    /// # Errors
    /// The authority does not exist, is damaged, or cannot be read.
    pub fn open(state: &StateDir) -> Result<Self, AuthorityError> {
        let (certificate, key) = (state.path().join(CERTIFICATE), state.path().join(KEY));
        let (pem, key_pem) = (read(&certificate)?, read(&key)?);
        let damaged = |path: &Path| AuthorityError::Damaged {
            path: path.to_owned(),
        };
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| damaged(&certificate))?;
        let pair = KeyPair::from_pem(&key_pem).map_err(|_| damaged(&key))?;
        let public = pair.public_key_raw().to_vec();
        // A key that belongs to another certificate would sign certificates that no browser accepts.
        if !der.windows(public.len()).any(|window| window == public) {
            return Err(damaged(&key));
        }
        Ok(Self {
            issuer: Issuer::new(params(&pair), pair),
            certificate: der,
            pem,
        })
    }

    fn make(state: &StateDir, now: UnixTime) -> Result<Self, AuthorityError> {
        state.create()?;
        let pair = KeyPair::generate()?;
        let mut params = params(&pair);
        limit(&mut params, now, YEARS * 365);
        let key_pem = pair.serialize_pem();
        let made = CertifiedIssuer::self_signed(params, pair)?;
        // The key is written first: a certificate without key would look like damage.
        state.replace(KEY, key_pem.as_bytes())?;
        state.replace(CERTIFICATE, made.pem().as_bytes())?;
        Self::open(state)
    }

    /// Removes the authority's key and certificate from this device; returns true if one of them existed.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(state: &StateDir) -> Result<bool, AuthorityError> {
        let mut was_there = false;
        for name in [KEY, CERTIFICATE] {
            let path = state.path().join(name);
            match fs::remove_file(&path) {
                Ok(()) => was_there = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    return Err(AuthorityError::File {
                        path,
                        what: "removed",
                        source,
                    });
                }
            }
        }
        Ok(was_there)
    }

    /// The certificate in PEM, for trust stores.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// SHA-256 of the certificate, as browsers show it: bytes in hexadecimal with colons.
    pub fn fingerprint(&self) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.certificate);
        let bytes: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        bytes.join(":")
    }

    /// Signs a certificate for one host, with a key of its own.
    ///
    /// # Errors
    /// The host is not a valid name for a certificate.
    pub(super) fn leaf(&self, host: &str, now: UnixTime) -> Result<CertifiedKey, AuthorityError> {
        let pair = KeyPair::generate()?;
        let mut params = CertificateParams::new([host.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, short_name(host));
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        limit(&mut params, now, LEAF_DAYS);
        let leaf = params.signed_by(&pair, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.serialize_der()));
        // The chain includes the authority's certificate, so that clients that know only its key find it.
        let chain = vec![leaf.der().clone(), self.certificate.clone()];
        Ok(CertifiedKey::new(chain, any_ecdsa_type(&key)?))
    }
}

/// Truncates a common name to 64 characters, the maximum (RFC 5280 appendix A.1); browsers read the
/// alternative name.
fn short_name(host: &str) -> String {
    host.chars().take(64).collect()
}

/// Parameters of the authority's certificate except its validity.
fn params(pair: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    // The mark distinguishes several devices of one person without revealing the machine's or user's name.
    let mark = &blake3::hash(pair.public_key_raw()).to_hex()[..8];
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, format!("Longhaul on this device ({mark})"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Sets the validity: from shortly before `now`, for `days` days.
fn limit(params: &mut CertificateParams, now: UnixTime, days: u64) {
    let epoch = date_time_ymd(1970, 1, 1);
    let now = now.since_epoch();
    params.not_before = epoch + now.saturating_sub(Duration::from_secs(SKEW_DAYS * DAY));
    params.not_after = epoch + now + Duration::from_secs(days * DAY);
}

fn read(path: &Path) -> Result<String, AuthorityError> {
    fs::read_to_string(path).map_err(|source| {
        if source.kind() == io::ErrorKind::NotFound {
            return AuthorityError::Missing;
        }
        AuthorityError::File {
            path: path.to_owned(),
            what: "read",
            source,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::wall_clock::now;

    #[test]
    fn the_authority_is_created_once_and_only_the_owner_can_read_its_key() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::new(home.path().join("state"));
        assert!(matches!(Authority::open(&state), Err(AuthorityError::Missing)));
        let (made, is_new) = Authority::open_or_make(&state, now()).unwrap();
        assert!(is_new);
        let (opened, is_new) = Authority::open_or_make(&state, now()).unwrap();
        assert!(!is_new);
        assert_eq!(
            (made.pem(), made.fingerprint()),
            (opened.pem(), opened.fingerprint())
        );
        assert_eq!(made.fingerprint().len(), 32 * 3 - 1);
        let mode = fs::metadata(state.path().join(KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!made.pem().contains("PRIVATE"));

        let other = Authority::make(&StateDir::new(home.path().join("other")), now()).unwrap();
        assert_ne!(other.fingerprint(), made.fingerprint());
        fs::copy(home.path().join("other").join(KEY), state.path().join(KEY)).unwrap();
        assert!(
            matches!(Authority::open(&state), Err(AuthorityError::Damaged { .. })),
            "another's key"
        );
        assert!(Authority::remove(&state).unwrap() && !Authority::remove(&state).unwrap());
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
    }

    #[test]
    fn host_certificates_name_one_host_and_have_their_own_keys() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::new(home.path().to_owned());
        let (authority, _) = Authority::open_or_make(&state, now()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.certificate.clone()).unwrap();
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            rustls::client::WebPkiServerVerifier::builder_with_provider(std::sync::Arc::new(roots), provider)
                .build()
                .unwrap();
        let leaf = authority.leaf("a.test", now()).unwrap();
        let verify = |name: &'static str, days: u64| {
            use rustls::client::danger::ServerCertVerifier as _;
            let at = now().since_epoch() + Duration::from_secs(days * DAY);
            let at = rustls::pki_types::UnixTime::since_unix_epoch(at);
            verifier.verify_server_cert(&leaf.cert[0], &leaf.cert[1..], &name.try_into().unwrap(), &[], at)
        };
        assert!(verify("a.test", 0).is_ok() && verify("a.test", LEAF_DAYS - 1).is_ok());
        assert!(verify("b.a.test", 0).is_err() && verify("a.test", LEAF_DAYS + 1).is_err());
        let again = authority.leaf("a.test", now()).unwrap();
        assert_ne!(leaf.cert[0], again.cert[0]);
    }
}
