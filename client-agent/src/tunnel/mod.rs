//! Tunnels: raw bytes to a host, multiplexed in the session.
//!
//! If a tunnel to the host worked recently, the browser gets its 200 at once and its first bytes (a
//! ClientHello) travel with `TunnelOpen`. For other hosts the 200 is sent only after the gateway has
//! connected, so that a failure can still be answered with an error page.
mod accepted;
mod connect;
mod open;
mod relay;

pub(crate) use accepted::{open_secure, tunnel_accepted};
pub(crate) use connect::{connect, refuse};
