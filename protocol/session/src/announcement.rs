//! What a gateway announces of itself, for the time in which there is no session (docs/protocol/session.md section 13).
use bincode::{Decode, Encode};

/// Maximum number of ports in an announcement.
pub const MAX_UDP_PORTS: usize = 8;

/// What an agent should find on the way to the gateway, outside of sessions. Only the session authenticates it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Announcement {
    /// TCP port on which the gateway proves that no captive portal is in the way.
    pub portal_port: Option<u16>,
    /// SHA-256 of the subject public key info of the gateway's TLS certificate, if it has a carrier with TLS.
    pub certificate: Option<[u8; 32]>,
    /// UDP ports on which the gateway listens, if there are several. A receiver ignores those after
    /// [`MAX_UDP_PORTS`].
    pub udp_ports: Vec<u16>,
}
