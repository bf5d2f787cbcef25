//! A new start of a [`Dialer`] whose network has just opened.
use tokio::sync::{Notify, watch};

use super::{
    dialer::Dialer,
    state::{GatewayState, SessionSnapshot},
};

impl Dialer {
    /// Gives up the attempt in progress and its pauses: the network has just opened.
    pub(super) fn start_over(&mut self) {
        let session = self.view.borrow().session.clone();
        if let Some(session) = session {
            if !session.is_counted() {
                self.traffic_totals.add_closed(&session);
            }
            session.close("the network has opened");
        }
        self.failures = 0;
        self.publish_no_session(GatewayState::Connecting);
    }
}

/// Waits until an attempt in progress is to be begun anew: the network has just opened. Cancel safe.
pub(super) async fn network_opened(retry: &Notify, view: &watch::Sender<SessionSnapshot>) {
    loop {
        retry.notified().await;
        if matches!(view.borrow().state, GatewayState::Connecting | GatewayState::Down) {
            return;
        }
    }
}
