//! What an endpoint is made with.
use std::net::SocketAddr;

use longhaul_types::{LinkProfile, PublicKey, SecretKey, UnixTime};

use crate::{
    connection::TransportConfig,
    crypto::{EpochKeys, ResetKey},
    wire::init::TOKEN_LEN,
};

/// How an agent's endpoint is made.
#[derive(Clone, Debug)]
pub struct AgentEndpointConfig {
    /// The device's key.
    pub secret: SecretKey,
    /// Limits and windows of its sessions.
    pub transport: TransportConfig,
}

/// How a gateway's endpoint is made.
#[derive(Clone, Debug)]
pub struct GatewayEndpointConfig {
    /// The gateway's key.
    pub secret: SecretKey,
    /// The token key, kept on disk, and the epoch: one more than at the last start.
    pub epoch: EpochKeys,
    /// By it agents believe a RESET; kept on disk.
    pub reset_key: ResetKey,
    /// Limits and windows of its sessions.
    pub transport: TransportConfig,
    /// The most sessions at a time.
    pub max_sessions: usize,
}

/// Whether a device may open sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceStatus {
    /// It may.
    Admitted,
    /// It may no more.
    Revoked,
}

/// Where an agent connects to.
#[derive(Clone, Debug)]
pub struct ConnectTo {
    /// The gateway's key, known since enrolment.
    pub gateway: PublicKey,
    /// The gateway's address.
    pub remote: SocketAddr,
    /// The newest token of this gateway; without one there is no early data.
    pub token: Option<[u8; TOKEN_LEN]>,
    /// What is known of the hop; `None` takes the profile of the [`TransportConfig`].
    pub profile: Option<LinkProfile>,
    /// The stamp of the device's last session (`Endpoint::last_stamp`), kept on disk: should the wall clock have been set back, the next
    /// stamp is still greater.
    pub last_stamp: Option<UnixTime>,
}

/// A session cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// An agent has at most 256 sessions.
    #[error("all 256 session indices are in use")]
    TooManySessions,
    /// The endpoint is a gateway's: agents open sessions.
    #[error("a gateway does not open sessions")]
    NotAnAgent,
}
