//! Counters of a running gateway for its operator, and the page that serves them to Prometheus.
pub(crate) mod clientless_counters;
pub(crate) mod device_usage;
pub(crate) mod failure_names;
pub(crate) mod handshakes;
pub(crate) mod metrics;
pub(crate) mod metrics_server;
pub(crate) mod observations;
pub(crate) mod page_load_counters;
pub(crate) mod page_load_refusal;
mod process;
pub(crate) mod session_ledger;
pub(crate) mod transport_totals;
