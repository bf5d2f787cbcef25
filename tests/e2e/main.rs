//! End-to-end tests: separate agent and gateway processes, real origins, a real browser.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "functions that tests share are tests, too: clippy's own exemption ends at #[test]"
)]

mod away;
mod bodies;
mod browser;
mod carriers;
mod clientless;
mod connections;
mod content;
mod contracts;
mod doctor;
mod error_messages;
mod hop_bytes;
mod hostile;
mod http;
mod https;
mod isolation;
mod journal;
mod life;
mod metered;
mod monitoring;
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
