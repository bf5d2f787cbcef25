//! A fetch or tunnel that waits for its answer.
use std::sync::Arc;

use longhaul_driver::{CloseReason, Expectation};
use longhaul_session::{Cancel, FetchId, Message};
use tokio::sync::oneshot;

use super::{answer::GatewayAnswer, gateway_session::GatewaySession};

/// A fetch or tunnel that waits for its answer. Dropping it before the answer cancels it.
#[derive(Debug)]
pub struct Exchange {
    pub(super) session: Arc<GatewaySession>,
    pub(super) id: FetchId,
    pub(super) answer: oneshot::Receiver<GatewayAnswer>,
    pub(super) settled: bool,
    pub(super) _expectation: Expectation,
}

impl Exchange {
    /// Waits for the answer. Cancel safe.
    ///
    /// # Errors
    /// The session was lost first.
    pub async fn answer(&mut self) -> Result<GatewayAnswer, CloseReason> {
        let answer = (&mut self.answer).await;
        self.settled = true;
        match answer {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self
                .session
                .requests()
                .table()
                .check_open()
                .err()
                .unwrap_or(CloseReason::Reset)),
        }
    }

    /// Returns a receiver of the gateway's `Continue`; it ends without a message once there is an answer.
    pub(crate) fn continuation(&self) -> oneshot::Receiver<()> {
        self.session.requests().table().expect_continue(self.id)
    }

    /// The session.
    pub const fn session(&self) -> &Arc<GatewaySession> {
        &self.session
    }

    /// The number of the fetch or tunnel.
    pub const fn id(&self) -> FetchId {
        self.id
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.settled {
            self.session.requests().table().take_receiver(self.id);
            self.session
                .send_control(Message::Cancel(Cancel { fetch: self.id }));
        }
    }
}
