//! `/metrics` for Prometheus, `/healthz` and `/readyz` for service managers and load balancers, on a loopback address.
use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use futures_util::future::BoxFuture;
use longhaul_gateway_core::{
    admin::{handshakes, process},
    admission::devices::DeviceState,
    device_register::DeviceRegister,
    gateway::Gateway,
};
use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    metrics::{
        counter::ConstCounter,
        family::Family,
        gauge::{ConstGauge, Gauge},
    },
    registry::Registry,
};
use tokio::time::timeout;

/// Media type of the text that `prometheus_client` writes.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Longest wait for the answer of the tasks on which every session depends.
const ALIVE_WITHIN: Duration = Duration::from_secs(5);

/// Asks whether the gateway runs.
pub(crate) type Answered = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// What the pages need of the gateway.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) register: Arc<DeviceRegister>,
    /// Completes when the tasks on which every session depends have answered.
    pub(crate) answered: Answered,
}

pub(crate) fn router(source: Source) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .with_state(source)
}

/// The answer says nothing about the gateway but this, so everybody on the machine may ask.
async fn health(State(source): State<Source>) -> (StatusCode, &'static str) {
    match timeout(ALIVE_WITHIN, (source.answered)()).await {
        Ok(()) => (StatusCode::OK, "alive\n"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "a task does not answer\n"),
    }
}

async fn readiness(State(source): State<Source>) -> (StatusCode, &'static str) {
    if source.gateway.drain.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n");
    }
    match health(State(source)).await {
        (StatusCode::OK, _) => (StatusCode::OK, "ready\n"),
        not_alive => not_alive,
    }
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
        .register(&mut registry, &origin, &gateway.ledger.totals());
    handshakes::register(&gateway.handshakes.borrow(), &mut registry);
    register_build(&mut registry);
    register_devices(&source, &mut registry).await;
    gateway.store.counters().register(&mut registry, usage.as_ref());
    registry.register(
        "session_buffer_bytes",
        "Bytes of sessions that are not read or not acknowledged yet",
        ConstGauge::new(gateway.ledger.buffered()),
    );
    registry.register(
        "draining",
        "1 while the gateway drains",
        ConstGauge::new(i64::from(gateway.drain.is_draining())),
    );
    registry.register(
        "away_bytes",
        "Bytes on disk that wait for devices whose hop is away",
        ConstGauge::new(gateway.store.overflow_bytes()),
    );
    let budgets = Family::<[(&'static str, &'static str); 1], Gauge>::default();
    for (of, used) in [
        ("decoders", gateway.store.decoder_memory()),
        ("images", gateway.images.memory()),
        ("bases", gateway.base_memory.used()),
        ("mixing", gateway.mix_memory.used()),
        ("results", gateway.encoded_cache.memory()),
    ] {
        let used = i64::try_from(used.bytes()).unwrap_or(i64::MAX);
        budgets.get_or_create(&[("of", of)]).set(used);
    }
    registry.register(
        "budget_bytes",
        "Memory whose amount origins and pages choose, by what uses it",
        budgets,
    );
    registry.register(
        "page_searches_stopped",
        "Pages that were passed on without being searched to the end because they took too long",
        ConstCounter::new(gateway.parser_pool.stopped()),
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
    let mut unprefixed = Registry::default();
    process::register(&mut unprefixed, gateway.started);
    let mut text = String::new();
    encode_registry(&mut text, &registry)
        .and_then(|()| encode_registry(&mut text, &unprefixed))
        .and_then(|()| encode_eof(&mut text))
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(([(header::CONTENT_TYPE, OPENMETRICS)], text))
}

fn register_build(registry: &mut Registry) {
    let build = Family::<[(&'static str, &'static str); 1], Gauge>::default();
    build
        .get_or_create(&[("version", env!("CARGO_PKG_VERSION"))])
        .set(1);
    registry.register("build_info", "Version of the gateway", build);
}

/// Numbers of devices by state; nothing about a single one, because metrics are kept for long and by others.
async fn register_devices(source: &Source, registry: &mut Registry) {
    let activity = source.gateway.ledger.activity();
    let (listed, now) = (source.register.devices().await, SystemTime::now());
    let devices = Family::<[(&'static str, &'static str); 1], Gauge>::default();
    for state in ["open", "away", "invited", "expired", "revoked"] {
        drop(devices.get_or_create(&[("state", state)]));
    }
    for device in listed.iter() {
        let is_open = activity.get(&device.key).is_some_and(|known| known.is_open);
        let state = match device.state(now) {
            DeviceState::Admitted if is_open => "open",
            DeviceState::Admitted => "away",
            other @ (DeviceState::Invited | DeviceState::Expired | DeviceState::Revoked) => other.word(),
        };
        devices.get_or_create(&[("state", state)]).inc();
    }
    registry.register("devices", "Devices by state", devices);
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
