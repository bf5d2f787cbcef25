//! Counters of the proxy for clients without an agent.
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::metrics::{UnderWay, under_way};

/// What became of an intercepted connection or request.
#[derive(Clone, Copy, Debug)]
pub enum Intercepted {
    /// A request whose host is at its destination, which is fetched.
    Fetched,
    /// A connection of HTTP that is relayed to its destination.
    Relayed,
    /// A connection of TLS or of another protocol.
    Tls,
}

impl Intercepted {
    const fn name(self) -> &'static str {
        match self {
            Self::Fetched => "fetched",
            Self::Relayed => "relayed",
            Self::Tls => "tls",
        }
    }
}

/// Counters of the proxy.
#[derive(Debug, Default)]
pub struct ClientlessCounters {
    connections: Counter,
    connections_open: Gauge,
    http2: Counter,
    prefetched: Counter,
    denied: Family<[(&'static str, &'static str); 1], Counter>,
    intercepted: Family<[(&'static str, &'static str); 1], Counter>,
}

impl ClientlessCounters {
    /// Counts a connection until the guard is dropped.
    pub fn connection(&self) -> UnderWay<'_> {
        self.connections.inc();
        under_way(&self.connections_open)
    }

    /// Counts a connection with HTTP/2.
    pub fn http2(&self) {
        self.http2.inc();
    }

    /// Counts an object that was fetched ahead of the browser.
    pub fn prefetched(&self) {
        self.prefetched.inc();
    }

    /// Counts a request of a client that is not served.
    pub fn denied(&self, reason: &'static str) {
        self.denied.get_or_create(&[("reason", reason)]).inc();
    }

    /// Counts what was redirected to the gateway.
    pub fn intercepted(&self, what: Intercepted) {
        self.intercepted.get_or_create(&[("way", what.name())]).inc();
    }

    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        for (name, help, counter) in [
            (
                "clientless_connections",
                "Connections of clients without an agent",
                &self.connections,
            ),
            (
                "clientless_http2",
                "Connections of clients without an agent that use HTTP/2",
                &self.http2,
            ),
            (
                "clientless_prefetched",
                "Objects of pages that were fetched ahead of the requests of clients without an agent",
                &self.prefetched,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        registry.register(
            "clientless_connections_open",
            "Open connections of clients without an agent",
            self.connections_open.clone(),
        );
        registry.register(
            "clientless_denied",
            "Requests of clients without an agent that were refused, by reason",
            self.denied.clone(),
        );
        registry.register(
            "clientless_intercepted",
            "Redirected requests of HTTP that were fetched, and redirected connections that were relayed",
            self.intercepted.clone(),
        );
    }
}
