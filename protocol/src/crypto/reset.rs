//! Reset tags (transport.md section 3.5), by which a gateway that lost a session proves that the session was
//! its own.
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::wire::resp::RESET_TAG_LEN;

/// Reset secret of the gateway. It survives restarts; otherwise agents would ignore RESETs after a restart.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct ResetKey([u8; 32]);

impl std::fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResetKey(<secret>)")
    }
}

impl ResetKey {
    /// Creates a key from 32 secret random bytes.
    pub const fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }
    /// Reset tag of the session with this gateway index.
    pub fn tag(&self, gateway_index: u32) -> [u8; RESET_TAG_LEN] {
        super::keyed(&self.0, &[&gateway_index.to_be_bytes()])
    }
}

/// Returns true if `received` equals the tag `promised` in the gateway's RESP.
pub fn matches(promised: &[u8; RESET_TAG_LEN], received: &[u8; RESET_TAG_LEN]) -> bool {
    super::tags_equal(promised, received)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reset_tags_differ_by_index_and_secret() {
        let key = ResetKey::new([1; 32]);
        assert!(matches(&key.tag(1), &key.tag(1)));
        assert!(!matches(&key.tag(1), &key.tag(2)));
        assert!(!matches(&key.tag(1), &ResetKey::new([2; 32]).tag(1)));
    }
}
