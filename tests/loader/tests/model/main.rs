//! The scripted browser with real servers on loopback.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot be set up fails, and one that is skipped says so"
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
