//! Cryptography: the handshake, packet protection, replay protection, and the keyed hashes of handshake
//! packets, stateless resets and address tokens.
//!
//! No function draws randomness: seeds are arguments, so that a simulation is repeatable.
pub mod aead;
pub mod mac1;
pub mod noise;
pub mod phase;
pub mod replay;
pub mod reset;
pub mod token;

pub use aead::{OpenError, PacketKey};
pub use mac1::Mac1Key;
pub use noise::{EarlyKey, Initiator, NoiseError, Responder, SessionKeys};
pub use phase::{KeyPhases, OLD_KEY_KEPT, RekeyLimits};
pub use replay::{Replay, ReplayWindow};
pub use reset::ResetKey;
pub use token::{EpochKeys, TokenError};

/// Compares two tags of 16 bytes in constant time.
fn tags_equal(a: &[u8; 16], b: &[u8; 16]) -> bool {
    // `blake3::Hash` compares in constant time and requires 32 bytes.
    let widen = |tag: &[u8; 16]| {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(tag);
        blake3::Hash::from_bytes(bytes)
    };
    widen(a) == widen(b)
}

/// The first `N` bytes of keyed BLAKE3.
fn keyed<const N: usize>(key: &[u8; 32], parts: &[&[u8]]) -> [u8; N] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    for part in parts {
        hasher.update(part);
    }
    let mut out = [0; N];
    hasher.finalize_xof().fill(&mut out);
    out
}
