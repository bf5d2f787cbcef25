//! Counters of a running gateway for its operator, which `server/metrics_server.rs` serves to Prometheus.
pub mod clientless_counters;
pub mod device_usage;
pub mod failure_names;
pub mod handshakes;
pub mod metrics;
pub mod observations;
pub mod page_load_counters;
pub mod page_load_refusal;
pub mod process;
pub mod session_ledger;
pub mod transport_totals;
