//! mac1: shows with one hash that the sender of an INIT knows the gateway's public key (transport.md section
//! 3.1).
use longhaul_types::PublicKey;

use crate::wire::init::MAC1_LEN;

/// Key of mac1 for one gateway. The key is as public as the gateway's key: it rejects scanners, not informed
/// attackers.
#[derive(Clone)]
pub struct Mac1Key([u8; 32]);

impl Mac1Key {
    /// Creates the key for INITs to the gateway with public key `gateway`.
    pub fn new(gateway: &PublicKey) -> Self {
        Self(blake3::derive_key("longhaul 1 mac1", gateway.as_bytes()))
    }
    /// mac1 of `covered`, the bytes before mac1.
    pub fn tag(&self, covered: &[u8]) -> [u8; MAC1_LEN] {
        super::keyed(&self.0, &[covered])
    }
    /// Returns true if `mac1` is valid.
    pub fn verify(&self, covered: &[u8], mac1: &[u8; MAC1_LEN]) -> bool {
        super::tags_equal(&self.tag(covered), mac1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac1_depends_on_key_and_bytes() {
        let key = Mac1Key::new(&PublicKey::from_bytes([1; 32]));
        let tag = key.tag(b"init");
        assert!(key.verify(b"init", &tag));
        assert!(!key.verify(b"inis", &tag));
        assert!(!Mac1Key::new(&PublicKey::from_bytes([2; 32])).verify(b"init", &tag));
    }
}
