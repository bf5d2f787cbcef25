//! The gateway with real origins and real sessions over loopback.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on fails"
)]

mod agent;
mod asking;
mod associations;
mod bundles;
mod bundles_correctness;
mod bundles_failures;
mod bundles_initiators;
mod bundles_learned;
mod bundles_load;
mod bundles_revisit;
mod bundles_taught;
mod bundles_unused;
#[cfg(feature = "clientless")]
mod clientless;
#[cfg(not(feature = "clientless"))]
mod clientless_absent;
mod coalesced_fetches;
mod coded;
mod dictionaries;
mod fetches;
mod forgetting;
mod gateway;
mod held_bodies;
mod origin;
mod origin_reports;
mod reload;
mod sessions;
mod sharing;
mod store;
mod store_bodies;
mod store_files;
mod store_validation;
mod tunnels;
