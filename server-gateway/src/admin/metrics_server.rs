//! `/metrics` for Prometheus, on a loopback address.
use std::{net::IpAddr, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use prometheus_client::{
    encoding::text::encode,
    metrics::{
        counter::ConstCounter,
        family::Family,
        gauge::{ConstGauge, Gauge},
    },
    registry::Registry,
};

use crate::gateway::Gateway;

/// Media type of the text that `prometheus_client` writes.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone)]
struct Source {
    gateway: Arc<Gateway>,
}

pub(crate) fn router(gateway: Arc<Gateway>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .with_state(Source { gateway })
}

async fn metrics(State(source): State<Source>, headers: HeaderMap) -> impl IntoResponse {
    // Neither a page in a local browser (DNS rebinding) nor a device through this gateway may read the
    // metrics.
    if !names_loopback(&headers) || headers.contains_key(header::VIA) || headers.contains_key(header::ORIGIN)
    {
        return Err(StatusCode::FORBIDDEN);
    }
    let gateway = &source.gateway;
    let usage = match gateway.store.cache() {
        Some(cache) => Some(cache.usage().await),
        None => None,
    };
    let mut registry = Registry::with_prefix("longhaul");
    let origin = gateway.origin.stats().snapshot();
    gateway
        .metrics
        .register(&mut registry, &origin, gateway.ledger.bytes());
    gateway.store.counters().register(&mut registry, usage.as_ref());
    registry.register(
        "away_bytes",
        "Bytes on disk that wait for devices whose hop is away",
        ConstGauge::new(gateway.store.overflow_bytes()),
    );
    if let Some(drops) = &gateway.quic_drops {
        registry.register(
            "quic_packets_dropped",
            "Packets of QUIC that were too many or too large, on a port that QUIC shares with sessions",
            ConstCounter::new(drops.count()),
        );
    }
    if !gateway.without.is_empty() {
        let without = Family::<[(&'static str, &'static str); 1], Gauge>::default();
        for technique in gateway.without.iter() {
            without.get_or_create(&[("technique", technique.name())]).set(1);
        }
        registry.register(
            "without",
            "Techniques that are switched off for measurements",
            without,
        );
    }
    gateway.bundles.register(&mut registry);
    gateway.clientless.register(&mut registry);
    gateway.encoded_cache.register(&mut registry);
    gateway.images.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(([(header::CONTENT_TYPE, OPENMETRICS)], text))
}

fn names_loopback(headers: &HeaderMap) -> bool {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    let name = host
        .rsplit_once(':')
        .map_or(host, |(name, port)| if port.contains(']') { host } else { name });
    let literal = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost"
        || literal
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_loopback_hosts_are_served() {
        let named = |host: &'static str| {
            names_loopback(&HeaderMap::from_iter([(
                header::HOST,
                HeaderValue::from_static(host),
            )]))
        };
        for host in [
            "127.0.0.1",
            "127.0.0.1:9",
            "[::1]:9",
            "[::1]",
            "localhost:9",
            "localhost",
        ] {
            assert!(named(host), "{host}");
        }
        for host in ["evil.test", "10.0.0.1:9", "localhost.evil.test", ""] {
            assert!(!named(host), "{host}");
        }
    }
}
