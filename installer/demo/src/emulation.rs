//! The emulated hop of `longhaul demo --link`: the testbed's link model in this process, without root.
//!
//! Two equal hops with the same rate, delay, queue, loss and seed: [`DatagramRelay`] carries the datagrams between
//! agent and gateway, and [`DirectProxy`] carries the bytes between a browser and origins, without Longhaul.
//!
//! # Fairness
//! Direct connections pay what they pay in a real network: a round trip for the name of each host, one for each TCP
//! connection, and those of TLS handshakes, whose bytes cross the link; headers of IP and TCP; and a congestion window
//! (RFC 6928, RFC 5681) that begins with ten segments, doubles each round trip and shrinks after a loss.
//!
//! What the emulation leaves out, or counts only for Longhaul:
//! * acknowledgements of direct connections have no bytes;
//! * a lost segment is repeated after one round trip, never after a timeout;
//! * a full queue delays direct connections; datagrams that do not fit are dropped.
mod clock;
mod datagrams;
mod direct_proxy;
mod lane;
mod names;
mod streams;
mod window;

use longhaul_netem::{HopConfig, Profile};
use longhaul_types::ByteCount;

pub(crate) use datagrams::DatagramRelay;
pub(crate) use direct_proxy::DirectProxy;
pub(crate) use names::Names;

/// Seed of both hops, so that they draw the same jitter and losses.
const SEED: u64 = 14;
/// Largest IP packet, that of Ethernet.
const MTU: ByteCount = ByteCount::new(1500);

/// Returns both directions of the emulated hop.
pub(crate) fn hop(profile: Profile) -> HopConfig {
    let mut hop = HopConfig::from(profile);
    hop.down.mtu = Some(MTU);
    hop.up.mtu = Some(MTU);
    hop
}
