//! Configuration of an endpoint.
use longhaul_types::{LinkProfile, PublicKey, SecretKey, UnixTime};

use crate::{
    connection::TransportConfig,
    crypto::{EpochKeys, ResetKey},
    path::Path,
    wire::init::TOKEN_LEN,
};

/// Configuration of an agent's endpoint.
#[derive(Clone, Debug)]
pub struct AgentEndpointConfig {
    /// Static key of the device.
    pub secret: SecretKey,
    /// Limits and windows of the sessions.
    pub transport: TransportConfig,
}

/// Configuration of a gateway's endpoint.
#[derive(Clone, Debug)]
pub struct GatewayEndpointConfig {
    /// Static key of the gateway.
    pub secret: SecretKey,
    /// Epoch key, stored on disk, and epoch number: one more than at the previous start.
    pub epoch: EpochKeys,
    /// Key of the reset tags, by which agents verify a RESET; stored on disk.
    pub reset_key: ResetKey,
    /// Limits and windows of the sessions.
    pub transport: TransportConfig,
    /// Maximum number of concurrent sessions.
    pub max_sessions: usize,
}

/// Admission of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceStatus {
    /// The device may open sessions.
    Admitted,
    /// The device may no longer open sessions.
    Revoked,
    /// No agent used the device's invite in time.
    Expired,
}

/// Target of an agent's session.
#[derive(Clone, Debug)]
pub struct ConnectTo {
    /// Public key of the gateway, pinned at enrolment.
    pub gateway: PublicKey,
    /// Path to the gateway; a link must be open ([`Endpoint::open_link`](super::Endpoint::open_link)).
    pub remote: Path,
    /// Newest token of this gateway; without a token there is no early data.
    pub token: Option<[u8; TOKEN_LEN]>,
    /// Link profile of the hop; `None` selects the profile of the [`TransportConfig`].
    pub profile: Option<LinkProfile>,
    /// Stamp of the device's last session (`Endpoint::last_stamp`), stored on disk, so that the next stamp is
    /// greater even if the wall clock was set back.
    pub last_stamp: Option<UnixTime>,
}

/// Errors of opening a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// An agent has at most 256 sessions.
    #[error("all 256 session indices are in use")]
    TooManySessions,
    /// The endpoint belongs to a gateway; only agents open sessions.
    #[error("a gateway does not open sessions")]
    NotAnAgent,
}
