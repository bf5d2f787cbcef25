//! The scripted browser with real servers on loopback.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed setup fails the test, and a skipped test prints the reason"
)]

mod discovery;
mod failures;
mod nameserver;
mod origin;
mod pages;
mod pipelining;
mod proxy;
mod recorded;
mod warm;
