//! Tunnels (docs/protocol/session.md section 2).
use bincode::{Decode, Encode};

use crate::{failure::FailureReason, id::FetchId};

/// Opens a tunnel (CONNECT). Bytes that the browser has already sent follow on the stream.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TunnelOpen {
    /// Number, from the same sequence as the fetches.
    pub id: FetchId,
    /// Host name or address literal, IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Protection of the connection between gateway and host.
    pub security: TunnelSecurity,
}

/// Protection of a tunnel's bytes between gateway and host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum TunnelSecurity {
    /// Raw bytes of browser and host, unchanged.
    #[default]
    Untouched,
    /// Plaintext of a TLS connection (ALPN http/1.1) that the gateway opens and verifies as for fetches; used
    /// for upgraded connections of accelerated hosts.
    Tls,
}

/// The gateway has connected to the tunnel's host, whose bytes follow on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TunnelAccept {
    /// Number of the tunnel.
    pub id: FetchId,
}

/// The gateway could not open the tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TunnelFailed {
    /// Number of the tunnel.
    pub id: FetchId,
    /// Reason.
    pub reason: FailureReason,
    /// Details, as in [`crate::Failed`].
    pub detail: String,
}
