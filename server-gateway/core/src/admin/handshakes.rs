//! Handshakes by their result.
use longhaul_driver::EndpointCounters;
use prometheus_client::{
    metrics::{counter::ConstCounter, family::Family},
    registry::Registry,
};

/// Handshakes that were dropped without an answer, by reason.
pub fn dropped(counters: &EndpointCounters) -> [(&'static str, u64); 4] {
    [
        ("malformed", counters.malformed),
        ("wrong-gateway-key", counters.bad_mac1),
        ("not-authentic", counters.bad_handshake),
        ("rate-limited", counters.rate_limited),
    ]
}

/// Adds the metrics to a registry.
pub fn register(counters: &EndpointCounters, registry: &mut Registry) {
    let answered = [
        ("accepted", counters.accepted),
        ("refused", counters.refused),
        ("repeated", counters.repeated),
        ("other-version", counters.versions),
    ];
    let results =
        Family::<[(&'static str, &'static str); 1], prometheus_client::metrics::counter::Counter>::default();
    for (result, count) in answered.into_iter().chain(dropped(counters)) {
        results.get_or_create(&[("result", result)]).inc_by(count);
    }
    registry.register("handshakes", "Handshakes by result", results);
    registry.register(
        "early_data_rejected",
        "Handshakes whose early data was not accepted",
        ConstCounter::new(counters.early_rejected),
    );
}
