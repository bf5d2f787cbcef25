//! Replacement of the key of a one-time invite (docs/protocol/session.md section 11).
use bincode::{Decode, Encode};

/// The gateway wants the agent to replace the key of its one-time invite (session.md section 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct KeyWanted {}

/// The key that the agent has made for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct NewKey {
    /// Static public key.
    pub key: [u8; 32],
}
