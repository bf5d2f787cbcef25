//! Tunnels: raw bytes to a host, multiplexed in the session.
//!
//! If a tunnel to the host worked recently, the client (CONNECT or SOCKS) is told that it is open at once and its first bytes (a
//! ClientHello) travel with `TunnelOpen`. Other clients are told only after the gateway has
//! connected, so that a failure can still be answered with an error page.
mod accepted;
mod connect;
mod local;
mod observed;
mod open;
mod prepared;
mod relay;
mod upgrade;

pub(crate) use accepted::tunnel_accepted;
pub(crate) use connect::{connect, refuse};
pub(crate) use prepared::{PreparedTunnel, prepare};
pub(crate) use relay::relay_local;
pub(crate) use upgrade::{is_wanted, is_websocket, upgrade_plain, upgrade_secure};
