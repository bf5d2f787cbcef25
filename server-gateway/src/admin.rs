//! Counters of a running gateway for its operator, which `server/metrics_server.rs` serves to Prometheus.
pub(crate) mod clientless_counters;
pub(crate) mod device_usage;
pub(crate) mod failure_names;
pub(crate) mod handshakes;
pub(crate) mod metrics;
pub(crate) mod observations;
pub(crate) mod page_load_counters;
pub(crate) mod page_load_refusal;
pub(crate) mod process;
pub(crate) mod session_ledger;
pub(crate) mod transport_totals;
