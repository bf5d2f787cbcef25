//! Checks of a session at each datagram: packet numbers, credit, memory and timers.
use std::time::Duration;

use longhaul_protocol::{connection::ConnectionStats, endpoint::Transmit};
use longhaul_types::Timestamp;

use super::stats;
use crate::{
    application::User,
    side::{Bounds, Side},
};

/// Maximum time to the next timer of an agent that is not done.
pub(super) const LONGEST_TIMER: Duration = Duration::from_secs(60);

pub(super) fn check_datagram(side: &mut Side, user: User, transmit: &Transmit, datagram: &[u8]) {
    assert_eq!(transmit.len, datagram.len());
    assert!(transmit.len <= 1472, "a datagram of {} bytes", transmit.len);
    side.packet_numbers.check(user, datagram);
    side.sent += 1;
    side.sent_after_close += usize::from(side.closed.is_some());
    // CLOSE, and at most three repetitions in response to late packets.
    assert!(side.sent_after_close <= 4, "{user:?} sends after CLOSE");
}

/// Packets that elicit feedback stay within the credit, except for probes. No address changes in this
/// topology.
pub(super) fn check_credit(
    user: User,
    at: Timestamp,
    before: Option<ConnectionStats>,
    after: Option<ConnectionStats>,
) {
    let (Some(before), Some(after)) = (before, after) else {
        return;
    };
    let counts = after.outstanding > before.outstanding && after.probes == before.probes;
    assert!(
        !counts || after.outstanding <= after.send_credit,
        "{user:?} at {at:?}: {} outstanding, credit {}",
        after.outstanding,
        after.send_credit
    );
}

pub(super) fn check_memory(side: &Side, bounds: Bounds) {
    let Some(stats) = stats(side) else { return };
    let (received, to_send) = (stats.receive_buffered, stats.send_buffered);
    assert!(
        received <= bounds.received,
        "{received} bytes received and not read"
    );
    assert!(to_send <= bounds.to_send, "{to_send} bytes to be sent");
}

/// A gateway that only expects data may wait without a timer, because the agent sends keepalives.
pub(super) fn check_timer(side: &Side, user: User, local: Timestamp) {
    if user == User::Gateway || side.handle.is_none() || side.closed.is_some() || side.application.is_done() {
        return;
    }
    let own = side.application.next_action();
    let next = side.endpoint.poll_timeout().into_iter().chain(own).min();
    assert!(
        next.is_some_and(|at| at - local <= LONGEST_TIMER),
        "{user:?}'s next timer is {next:?} at {local:?}"
    );
}
