//! Requests for the rest of a body whose stream ended early.
use longhaul_driver::End;
use longhaul_session::{BodyPlace, Delivery, FailureReason, FetchKind, Resume};
use tracing::debug;

use super::body_relay::{Interruption, Relay, RestOfBody};
use crate::gateway::{
    BasePolicy, FetchContext, FetchDraft, GatewayAnswer, RequiredSessionState, SendError, SendPhase,
};

impl Relay {
    /// True if the agent may request a broken body again: with a validator, the rest; without one, after a
    /// lost session, the whole body, to be compared with the delivered bytes. A body without a length may be
    /// endless and never repeat itself.
    pub(super) fn may_request_rest(&self, interruption: &Interruption) -> bool {
        self.is_get
            && match interruption {
                Interruption::BadWindow => self.validator.is_some(),
                Interruption::SessionLost => self.validator.is_some() || self.length.is_some(),
                Interruption::BrowserGone | Interruption::Broken(_) => false,
            }
    }

    /// Requests the rest, or the whole body, in the current or next session.
    pub(super) async fn request_rest(&self, resume: Option<Resume>) -> Result<RestOfBody, Interruption> {
        let _waiting = self.handles.gateway.demand();
        let mut policy = BasePolicy::Best;
        let fetch = FetchDraft {
            // A second page bundle would not help a page that has partly arrived.
            kind: FetchKind::Object,
            context: FetchContext {
                delivery: Delivery::Own,
                connection: self.fetch.context.connection,
                client: self.fetch.context.client,
                unpartitioned: self.fetch.context.unpartitioned,
                ..FetchContext::default()
            },
            ..self.fetch.clone()
        };
        loop {
            let (session, _) = self
                .handles
                .gateway
                .wait_for_session(RequiredSessionState::Open)
                .await;
            let (mut exchange, wire) = match session.encode_fetch(&fetch, resume.clone(), policy) {
                Ok(coded) => coded,
                Err(SendError::Lost(_)) => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Err(_) => return Err(Interruption::Broken("the rest cannot be requested")),
            };
            if session
                .open_stream(self.class, SendPhase::Open, wire.into(), End::Finish)
                .await
                .is_err()
            {
                tokio::task::yield_now().await;
                continue;
            }
            match exchange.answer().await {
                Ok(GatewayAnswer::Head {
                    status,
                    body: BodyPlace::Follows,
                    stream,
                    ..
                }) if status == self.status => {
                    return Ok(RestOfBody {
                        session,
                        stream,
                        body: None,
                        base: None,
                    });
                }
                Ok(GatewayAnswer::Failed {
                    reason: FailureReason::UnknownBase,
                    ..
                }) if policy == BasePolicy::Best => {
                    policy = BasePolicy::None;
                }
                Ok(GatewayAnswer::Failed { reason, .. }) => {
                    debug!(?reason, "the gateway cannot send the rest of a body");
                    return Err(Interruption::Broken(
                        "the gateway cannot resume this representation",
                    ));
                }
                Ok(
                    GatewayAnswer::Head { .. }
                    | GatewayAnswer::Tunnel(_)
                    | GatewayAnswer::Promised { .. }
                    | GatewayAnswer::Malformed,
                ) => {
                    return Err(Interruption::Broken("the rest belongs to another response"));
                }
                Err(reason) => {
                    debug!(%reason, "session lost during a request for the rest of a body")
                }
            }
        }
    }
}
