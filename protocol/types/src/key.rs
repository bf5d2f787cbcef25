//! Static X25519 keys of gateways and devices (RFC 7748), with a text form in base64url without padding.
use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use curve25519_dalek::montgomery::MontgomeryPoint;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A static public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Creates a key from its 32 bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// A static secret key. It is erased from memory when dropped and never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SecretKey([u8; 32]);

impl SecretKey {
    /// Creates a key from 32 bytes of cryptographic randomness (or from a key file).
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
    /// The public key of this secret key.
    pub fn public(&self) -> PublicKey {
        PublicKey(MontgomeryPoint::mul_base_clamped(self.0).to_bytes())
    }
    /// The secret as text, for a key file or an invite. Handle with care.
    pub fn to_secret_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }
}

/// Error: a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key is written as 43 characters of base64url")]
pub struct ParseKeyError;

fn decode(text: &str) -> Result<[u8; 32], ParseKeyError> {
    let bytes = URL_SAFE_NO_PAD.decode(text.trim()).map_err(|_| ParseKeyError)?;
    bytes.try_into().map_err(|_| ParseKeyError)
}

impl FromStr for PublicKey {
    type Err = ParseKeyError;
    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        decode(text).map(Self)
    }
}

impl FromStr for SecretKey {
    type Err = ParseKeyError;
    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        decode(text).map(Self)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(<secret>)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_key_is_that_of_rfc_7748_section_6_1() {
        let alice = SecretKey::from_bytes([
            0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2, 0x66, 0x45,
            0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9, 0x2c, 0x2a,
        ]);
        let public = alice.public();
        assert_eq!(public.as_bytes()[..4], [0x85, 0x20, 0xf0, 0x09]);
        assert_eq!(public.to_string().parse(), Ok(public));
        assert_eq!(format!("{alice:?}"), "SecretKey(<secret>)");
    }
}
