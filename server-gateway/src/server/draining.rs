//! Draining: closes sessions in which nothing is in progress, until none is left or the time is over.
use std::time::Duration;

use longhaul_gateway_core::gateway::Gateway;
use tokio::time::Instant;

/// Error code with which a session is closed: going away (docs/protocol/transport.md section 7.4).
const GOING_AWAY: u64 = 1;
/// A session without a request ends after this time without a packet, so that the next request of a page that is being
/// loaded still finds it.
const QUIET: Duration = Duration::from_secs(2);

/// Closes sessions in which nothing is in progress. Called about twice a second.
pub(super) fn step(gateway: &Gateway) {
    let Some(until) = gateway.drain.until() else {
        return;
    };
    let open = gateway.ledger.open_sessions();
    if open.is_empty() || Instant::now() >= until {
        return gateway.drain.end();
    }
    for session in open {
        let is_busy = gateway.has_requests(&session.device);
        let waits = session.session.stats().send_buffered.bytes() > 0;
        if !is_busy && !waits && session.quiet >= QUIET {
            session.session.close(GOING_AWAY, "the gateway is about to end");
        }
    }
}
