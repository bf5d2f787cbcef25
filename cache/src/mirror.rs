//! What the gateway believes a device to hold.
use longhaul_types::ContentHash;

/// The most bodies remembered for one device; beyond it arbitrary ones are forgotten, which costs a body sent twice.
pub const MAX_HELD: usize = 200_000;
/// The most devices remembered; beyond it the one that was absent longest is forgotten.
pub const MAX_DEVICES: usize = 1_000;

/// What a device is believed to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    /// The state id of the device's cache that this belongs to.
    pub state: u64,
    /// The bodies, in the order of their hashes.
    pub held: Vec<ContentHash>,
}
