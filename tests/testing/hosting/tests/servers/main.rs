//! Tests of the servers on real sockets of the loopback interface.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod client;
mod closing;
mod hosting;
mod names;
mod secure;
mod splitting;
