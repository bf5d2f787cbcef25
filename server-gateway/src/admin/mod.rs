//! What the operator sees of a running gateway: counters, and the page that serves them to Prometheus.
pub(crate) mod metrics;
pub(crate) mod metrics_server;
