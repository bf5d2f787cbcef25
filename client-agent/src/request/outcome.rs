//! The outcome of a request.
use http::Response;
use longhaul_session::FailureReason;

use crate::{pages::Failure, proxy_body::ProxyBody};

/// Result of a request, up to the response's head.
#[derive(Debug)]
pub(crate) enum RequestOutcome {
    /// The gateway's response.
    Forwarded(Response<ProxyBody>),
    /// A fresh response from the agent's cache.
    Cached(Response<ProxyBody>),
    /// A response that a manifest announced.
    Promised(Response<ProxyBody>),
    /// The origin's response to a direct fetch.
    Direct(Response<ProxyBody>),
    /// A page of the agent itself.
    Own(Response<ProxyBody>),
    /// A request that a rule of the agent or the gateway rejects, or that is invalid.
    Refused(Failure),
    /// A failure without a response.
    Failed(Failure),
}

impl RequestOutcome {
    /// Creates the exit for a failure.
    pub(crate) fn of_failure(failure: Failure) -> Self {
        let refused = match &failure {
            Failure::Request(_) => true,
            Failure::Gateway { reason, .. } => matches!(
                reason,
                FailureReason::AddressRefused | FailureReason::TargetRefused | FailureReason::BadUrl
            ),
            Failure::NoGateway { .. }
            | Failure::Refused(_)
            | Failure::Direct { .. }
            | Failure::Local(_)
            | Failure::Lost(_) => false,
        };
        if refused {
            Self::Refused(failure)
        } else {
            Self::Failed(failure)
        }
    }
}
