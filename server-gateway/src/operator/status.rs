//! State of the gateway for its operator.
use std::collections::BTreeMap;

use longhaul_gateway_core::{admin::handshakes, gateway::Gateway, rfc3339::rfc3339};
use tokio::time::Instant;

use super::orders::GatewayStatus;

/// Version of the object; a new version may remove fields or change their meaning.
const VERSION: u32 = 1;

/// The state at present.
pub(crate) fn status(gateway: &Gateway) -> GatewayStatus {
    let counters = *gateway.handshakes.borrow();
    let refusals = gateway.metrics.refusals();
    let dropped = handshakes::dropped(&counters);
    let refused: BTreeMap<String, u64> = refusals
        .into_iter()
        .chain(dropped)
        .map(|(reason, count)| (reason.to_owned(), count))
        .collect();
    let left = gateway
        .drain
        .until()
        .map(|until| until.saturating_duration_since(Instant::now()));
    GatewayStatus {
        version: VERSION,
        software: concat!("longhaul-gateway/", env!("CARGO_PKG_VERSION")).to_owned(),
        since: rfc3339(gateway.started),
        draining: gateway.drain.is_draining(),
        sessions: gateway.ledger.open_sessions().len(),
        ends_within_s: left.map(|left| left.as_secs()),
        handshakes_refused: refused,
        handshakes_accepted: counters.accepted,
    }
}
