//! End-to-end tests: separate agent and gateway processes, real origins, a real browser.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "functions that tests share are tests, too: clippy's own exemption ends at #[test]"
)]

mod as_direct;
mod away;
mod bodies;
mod broken_ends;
mod browser;
mod cache_rules;
mod carriers;
mod clientless;
mod connections;
mod content;
mod contracts;
mod doctor;
mod error_messages;
mod held_bodies;
mod hop_bytes;
mod hostile;
mod http;
mod https;
mod isolation;
mod journal;
mod life;
mod local_network;
mod metered;
mod monitoring;
mod names_of_hosts;
mod networks;
mod odd_origins;
mod operations;
mod operator;
mod outage;
mod page_loads;
mod pair;
mod recorded;
mod reloads;
mod services;
mod socks;
mod speed;
mod uploads;
mod url_credentials;
