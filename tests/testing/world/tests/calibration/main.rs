//! Calibration of the emulated links, with the TCP, UDP and ICMP of real kernels.
//!
//! All tests hold [`traffic::machine`] and therefore run one after the other: the load of one must not affect
//! the figures of another. Tests that may not build a world print `SKIPPED` and the reason.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]
#![expect(clippy::expect_used, reason = "a failed setup fails the test")]
#![expect(
    clippy::print_stderr,
    reason = "tests print measurements and the reason for skipping"
)]

mod delay;
mod loss;
mod namespaces;
mod outage;
mod parallel;
mod profiles;
mod queue;
mod rate;
mod readings;
mod routes;
mod trace;
mod traffic;
