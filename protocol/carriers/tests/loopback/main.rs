//! Sessions over the carriers on real sockets over loopback.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod quic;
mod rig;
mod tls;
