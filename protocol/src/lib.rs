//! Transport of Longhaul, sans-IO: without sockets, clocks, threads or randomness of the
//! operating system.
//!
//! Data passes the modules in this order: [`wire`] (formats), [`crypto`] (keys, replay protection, tokens),
//! [`endpoint`] (handshakes and demultiplexing), [`connection`] (timers, path and packets of one peer),
//! [`path`] (ways to the peer), [`recovery`], [`congestion`], [`streams`]. `docs/protocol/` specifies the protocol.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod congestion;
pub mod connection;
pub mod crypto;
pub mod endpoint;
pub mod path;
pub mod recovery;
pub mod streams;
pub mod wire;
