//! Mirrors: the gateway's records of the bodies that devices hold.
use longhaul_types::ContentHash;

use crate::Partition;

/// Maximum number of bodies in a device's mirror; beyond it arbitrary ones are removed, and such a body is
/// sent twice.
pub const MAX_HELD: usize = 200_000;
/// Maximum number of mirrors; beyond it the mirror of the device that was absent longest is removed.
pub const MAX_DEVICES: usize = 1_000;

/// The mirror of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    /// State id of the device's cache to which this mirror belongs.
    pub state: u64,
    /// The held bodies with the partitions in which the device received them, ordered by hash.
    pub held: Vec<(ContentHash, PartitionLabel)>,
}

/// A short hash of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionLabel([u8; 8]);

impl PartitionLabel {
    /// The smallest label.
    pub const FIRST: Self = Self([0; 8]);
    /// The greatest label.
    pub const LAST: Self = Self([0xff; 8]);

    pub(crate) const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl Partition {
    /// Label of the partition: the beginning of a hash.
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
