//! Identifiers, each with its own type.
use std::fmt;

/// A stream of one session. Streams are unidirectional; the agent's have even numbers, the gateway's odd
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A client of an agent: an operating-system user, or a proxy credential.
///
/// Zero is the user who runs the agent. Other numbers only identify requests of the same client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

impl ClientId {
    /// The user who runs the agent.
    pub const OWNER: Self = Self(0);

    /// The client with this description; never the owner.
    pub fn of(description: &str) -> Self {
        let hash = blake3::hash(description.as_bytes());
        let mut id = [0; 8];
        id.copy_from_slice(&hash.as_bytes()[..8]);
        Self(u64::from_le_bytes(id).max(1))
    }
}

/// Public short name of a device: the first 8 bytes of the BLAKE3 hash of its public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub [u8; 8]);

impl DeviceId {
    /// The name of the device with public key `key`.
    pub fn of(key: &crate::PublicKey) -> Self {
        let hash = blake3::hash(key.as_bytes());
        let mut id = [0; 8];
        id.copy_from_slice(&hash.as_bytes()[..8]);
        Self(id)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceId({self})")
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
