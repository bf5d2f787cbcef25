//! VCDIFF (RFC 3284): round trips, hostile deltas, interoperation with xdelta3, and sizes compared with
//! xdelta3.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test reports by panicking and printing, in its helpers too"
)]

mod delta;
mod hostile;
mod interoperation;
mod pairs;
mod recorded;
mod round_trips;
mod sizes;
mod windows;
mod xdelta;
