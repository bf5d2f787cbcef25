//! Names of bodies and manifests: the first bytes of their CHKs, each with its own type.
//!
//! A name is encoded as the bytes that it contains.
use bincode::{Decode, Encode};
use longhaul_types::ContentHash;

/// Name of a body: the first 6 bytes of its CHK, used where a collision costs only a repeated transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct ShortHash([u8; Self::LENGTH]);

impl ShortHash {
    /// Length in bytes.
    pub const LENGTH: usize = 6;

    /// The name of the body with this CHK.
    pub fn of(hash: &ContentHash) -> Self {
        let mut short = [0; Self::LENGTH];
        short.copy_from_slice(&hash.as_bytes()[..Self::LENGTH]);
        Self(short)
    }

    /// The name with these bytes.
    pub const fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}

/// Id of a manifest: the first 8 bytes of the CHK of its kept form (docs/protocol/session.md section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct ManifestId([u8; Self::LENGTH]);

impl ManifestId {
    /// Length in bytes.
    pub const LENGTH: usize = 8;

    /// The id of the manifest with these bytes as its kept form ([`crate::keepable`]).
    pub fn of(kept: &[u8]) -> Self {
        let mut id = [0; Self::LENGTH];
        id.copy_from_slice(&ContentHash::of(kept).as_bytes()[..Self::LENGTH]);
        Self(id)
    }

    /// The id with these bytes.
    pub const fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }
}
