//! The transport as a whole system in virtual time: an agent's and a gateway's endpoint, users on both, and a modelled link between
//! them that loses, reorders, duplicates, corrupts, stalls and moves.
//!
//! A run is a function of its seed. `LONGHAUL_SIM_SEEDS` sets the number of seeds for each condition; a failure names its seed, and
//! `LONGHAUL_SIM_SEED=n cargo test --test sim CONDITION` repeats it (with `LONGHAUL_SIM_TRACE=1` and `--nocapture`, datagram by
//! datagram). The tables that `--nocapture` shows are measurements, not bars, unless a test says so.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test that cannot be set up fails")]

mod amplification;
mod application;
mod bottlenecks;
mod bulk;
mod clock;
mod conditions;
mod content;
mod crossing;
mod cubic;
mod datagram;
mod dumbbell;
mod flows;
mod hostile;
mod links;
mod long;
mod measure;
mod packets;
mod plan;
mod priority;
mod profiles;
mod random;
mod rekey;
mod report;
mod restart;
mod seeds;
mod sharing;
mod side;
mod skew;
mod stall;
mod tail;
mod timing;
mod traces;
mod uplink;
mod world;
