//! Sessions that devices opened.
use longhaul_types::{LinkProfile, PublicKey};

use crate::session::Session;

/// A session that a device opened.
#[derive(Debug)]
pub struct Incoming {
    /// The session.
    pub session: Session,
    /// Public key of the device.
    pub device: PublicKey,
    /// Link profile of the agent.
    pub profile: Option<LinkProfile>,
}
