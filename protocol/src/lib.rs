//! The Longhaul transport and session without sockets, clocks, threads or OS randomness.
//!
//! Data flows through the modules in this order: [`wire`] (bytes), [`crypto`] (keys, replay, tokens), [`endpoint`] (handshakes and
//! demultiplexing), [`connection`] (one peer's timers, path and packets), [`recovery`], [`credit`], [`streams`], [`session`] (messages).
//! The contract with the peer is `docs/protocol/`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod connection;
pub mod credit;
pub mod crypto;
pub mod endpoint;
pub mod recovery;
pub mod session;
pub mod streams;
pub mod wire;
