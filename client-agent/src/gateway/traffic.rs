//! Bytes on the hop, of the current and of earlier sessions.
use std::sync::{Mutex, PoisonError};

use super::gateway_session::GatewaySession;

/// Bytes on the hop, including IP and UDP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From the gateway.
    pub down: u64,
    /// To the gateway.
    pub up: u64,
    /// Number of sessions that reached the open state.
    pub sessions: u64,
}

/// Traffic of the closed sessions.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Traffic>);

impl Ledger {
    /// Adds a closed session.
    pub(super) fn settle(&self, hop: &GatewaySession) {
        let of_hop = hop.traffic();
        let mut total = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        total.down += of_hop.down;
        total.up += of_hop.up;
        hop.mark_settled();
    }

    /// Counts an opened session.
    pub(super) fn opened(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).sessions += 1;
    }

    /// Returns the traffic of all sessions, including the current one.
    pub(super) fn traffic(&self, hop: Option<&GatewaySession>) -> Traffic {
        let mut total = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hop) = hop
            && !hop.is_settled()
        {
            let of_hop = hop.traffic();
            total.down += of_hop.down;
            total.up += of_hop.up;
        }
        total
    }
}
