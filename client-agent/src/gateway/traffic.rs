//! Bytes on the hop, of the current and of earlier sessions.
use parking_lot::Mutex;

use super::gateway_session::GatewaySession;

/// Bytes on the hop, including IP and UDP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From the gateway.
    pub down: u64,
    /// From the gateway in sessions whose gateway reports what origins sent.
    pub reported_down: u64,
    /// To the gateway.
    pub up: u64,
    /// Number of sessions that reached the open state.
    pub sessions: u64,
}

/// Traffic of the closed sessions.
#[derive(Debug, Default)]
pub(super) struct TrafficTotals(Mutex<Traffic>);

impl TrafficTotals {
    /// Adds a closed session.
    pub(super) fn add_closed(&self, session: &GatewaySession) {
        let of_session = session.traffic();
        let mut total = self.0.lock();
        total.down += of_session.down;
        total.reported_down += of_session.reported_down;
        total.up += of_session.up;
        session.mark_counted();
    }

    /// Counts an opened session.
    pub(super) fn count_opened(&self) {
        self.0.lock().sessions += 1;
    }

    /// Returns the traffic of all sessions, including the current one.
    pub(super) fn traffic(&self, session: Option<&GatewaySession>) -> Traffic {
        let mut total = *self.0.lock();
        if let Some(session) = session
            && !session.is_counted()
        {
            let of_session = session.traffic();
            total.down += of_session.down;
            total.reported_down += of_session.reported_down;
            total.up += of_session.up;
        }
        total
    }
}
