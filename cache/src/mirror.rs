//! What the gateway believes a device to hold.
use longhaul_types::ContentHash;

use crate::Partition;

/// The most bodies remembered for one device; beyond it arbitrary ones are forgotten, which costs a body sent twice.
pub const MAX_HELD: usize = 200_000;
/// The most devices remembered; beyond it the one that was absent longest is forgotten.
pub const MAX_DEVICES: usize = 1_000;

/// What a device is believed to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    /// The state id of the device's cache that this belongs to.
    pub state: u64,
    /// The bodies with the partitions for which it got them, in the order of their hashes.
    pub held: Vec<(ContentHash, PartitionLabel)>,
}

/// A short name of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionLabel([u8; 8]);

impl PartitionLabel {
    /// The least.
    pub const FIRST: Self = Self([0; 8]);
    /// The greatest.
    pub const LAST: Self = Self([0xff; 8]);

    pub(crate) const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl Partition {
    /// Its short name: the beginning of a hash.
    pub fn label(&self) -> PartitionLabel {
        let mut hasher = blake3::Hasher::new_derive_key("longhaul cache partition label");
        if let Self::Private(private) = self {
            hasher.update(&private.owner.device);
            hasher.update(&private.owner.client.0.to_le_bytes());
            hasher.update(private.key.as_bytes());
        }
        let mut label = [0; 8];
        hasher.finalize_xof().fill(&mut label);
        PartitionLabel(label)
    }
}
