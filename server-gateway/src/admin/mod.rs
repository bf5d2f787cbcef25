//! Counters of a running gateway for its operator, and the page that serves them to Prometheus.
pub(crate) mod clientless_counters;
pub(crate) mod metrics;
pub(crate) mod metrics_server;
pub(crate) mod session_ledger;
