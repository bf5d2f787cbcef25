//! The complete transport in virtual time: endpoints of an agent and a gateway, users at both, and a modelled
//! link between them that loses, reorders, duplicates and corrupts packets, has outages, and changes
//! addresses.
//!
//! The seed determines a run. `LONGHAUL_SIM_SEEDS` sets the number of seeds for each condition. A failure
//! prints its seed, and `LONGHAUL_SIM_SEED=n cargo test --test sim CONDITION` repeats the run (with
//! `LONGHAUL_SIM_TRACE=1` and `--nocapture` it prints each datagram). The tables of `--nocapture` are
//! measurements; only tests with `Bars` compare them with design targets, whose numbers are those of
//! docs/benchmarks/transport.md. `LONGHAUL_SIM_SENSITIVITY=1` varies the constants of congestion control
//! (`sensitivity.rs`).
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test that cannot be set up fails")]

mod amplification;
mod application;
mod bbr;
mod bottlenecks;
mod bulk;
mod calls;
mod carriers;
mod clock;
mod conditions;
mod content;
mod crossing;
mod crowds;
mod cubic;
mod datagram;
mod dumbbell;
mod flows;
mod hostile;
mod links;
mod long;
mod loss_bursts;
mod measure;
mod packets;
mod pause;
mod plan;
mod priority;
mod profiles;
mod random;
mod random_links;
mod rekey;
mod report;
mod restart;
mod seeds;
mod sensitivity;
mod sharing;
mod side;
mod skew;
mod stall;
mod start;
mod tail;
mod tcp;
mod timing;
mod traces;
mod unused_window;
mod uplink;
mod world;
