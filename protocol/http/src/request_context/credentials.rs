//! Keys of a request's credentials.
use std::fmt;

use http::{HeaderMap, header};

use super::own_fields::{is_own_field, is_trace};
use crate::cookies;

/// Key of `Cookie`, `Authorization` and of the fields that scripts add: equal keys mean equal credentials.
/// Comparable only with keys of the same secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CredentialsKey([u8; 16]);

impl CredentialsKey {
    /// Restores a stored key.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the key as bytes, for storage.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for CredentialsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CredentialsKey({:02x}{:02x}..)", self.0[0], self.0[1])
    }
}

/// Secret for the keys of credentials: without it, a reader of the cache file cannot test guessed
/// credentials.
#[derive(Clone)]
pub struct CredentialsSecret([u8; 32]);

impl CredentialsSecret {
    /// Derives the secret from a private key of the program.
    pub fn derived_from(private_key: &[u8]) -> Self {
        Self(blake3::derive_key("longhaul 1 credentials key", private_key))
    }

    /// Restores a stored secret, or takes random bytes as one.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the secret as bytes, for storage in a file that only its owner can read.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the key of a request's credentials; none without credentials.
    pub(super) fn key(&self, headers: &HeaderMap) -> Option<CredentialsKey> {
        hash(blake3::Hasher::new_keyed(&self.0), headers).map(CredentialsKey)
    }
}

impl fmt::Debug for CredentialsSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialsSecret(..)")
    }
}

/// Returns a key of a request's credentials that is equal at both ends: in a manifest it identifies the
/// credentials with which a response was fetched. None without credentials.
pub fn identity_key(headers: &HeaderMap) -> Option<[u8; 8]> {
    let hash = hash(blake3::Hasher::new_derive_key("longhaul 1 identity key"), headers)?;
    let mut key = [0; 8];
    key.copy_from_slice(&hash[..8]);
    Some(key)
}

fn hash(mut hasher: blake3::Hasher, headers: &HeaderMap) -> Option<[u8; 16]> {
    let mut any = false;
    let mut part = |kind: u8, bytes: &[u8]| {
        any = true;
        hasher.update(&[kind]);
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    for value in headers.get_all(header::AUTHORIZATION) {
        part(b'a', value.as_bytes());
    }
    let cookies = cookies::joined(headers).unwrap_or_default();
    let mut pairs: Vec<_> = cookies::pairs(&cookies)
        .filter(|(name, _)| !is_measurement(name))
        .collect();
    // Browsers order cookies by path and age, which does not depend on the identity.
    pairs.sort_unstable();
    for (name, value) in pairs {
        part(b'n', name);
        part(b'v', value);
    }
    let mut own: Vec<_> = headers
        .iter()
        .filter(|(name, value)| is_own_field(name, value) && !is_trace(name))
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    own.sort_unstable();
    for (name, value) in own {
        part(b'f', name.as_bytes());
        part(b'v', value);
    }
    let mut key = [0; 16];
    hasher.finalize_xof().fill(&mut key);
    any.then_some(key)
}

/// True for visit counters' cookies: Google Analytics, Google Ads, Matomo, Meta, Hotjar and Clarity. They
/// change within a visit and do not authenticate users; with them in the key, almost nothing would be reused.
fn is_measurement(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 12] = [
        b"_ga", b"_gid", b"_gat", b"_gcl_au", b"__utma", b"__utmb", b"__utmc", b"__utmz", b"_fbp", b"_clck",
        b"_clsk", b"__gads",
    ];
    const FAMILIES: [&[u8]; 6] = [
        b"_ga_",
        b"_gat_",
        b"_pk_id.",
        b"_pk_ses.",
        b"_hjSession_",
        b"_hjSessionUser_",
    ];
    NAMES.contains(&name) || FAMILIES.iter().any(|prefix| name.starts_with(prefix))
}
