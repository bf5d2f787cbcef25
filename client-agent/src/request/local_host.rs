//! The way of a request to a host of the local network: before the gateway is asked, or after it did not find the host.
use longhaul_origin::FetchError;
use tracing::debug;

use super::{outcome::RequestOutcome, phase::Phase, task::RequestTask, upstream_request::UpstreamRequest};
use crate::{
    connection::ConnectionScope,
    counters::PhaseExit,
    pages::{Failure, local_network_response},
    proxy_body::ProxyBody,
    upstream::{
        Asker,
        local::{is_local_host, is_name, may_be_known_here},
    },
};

/// The way of a request to a host of the local network.
#[derive(Debug)]
pub(super) enum LocalWay {
    /// The host is local by its form, and this is who asks.
    ByForm(Asker),
    /// The gateway may not find the host.
    NotFound(Asker),
    /// The gateway has not found the host, for this reason.
    Open { asker: Asker, found: Box<Failure> },
    /// The host is local by its form, and is being asked.
    OpenByForm,
    /// The way was tried, or there is none.
    Over,
}

impl LocalWay {
    pub(super) fn of(scope: &ConnectionScope, request: &UpstreamRequest) -> Self {
        let Some(host) = request.uri.host() else {
            return Self::Over;
        };
        let asker = Asker::of(scope.client().user(), &request.method, &request.headers);
        if is_local_host(host) {
            Self::ByForm(asker)
        } else if is_name(host) {
            Self::NotFound(asker)
        } else {
            Self::Over
        }
    }

    /// True once the request goes to the host directly, or may do so from its beginning.
    pub(super) const fn is_open(&self) -> bool {
        match self {
            Self::Open { .. } | Self::OpenByForm => true,
            Self::ByForm(asker) => asker.reaches_local_hosts(),
            Self::NotFound(_) | Self::Over => false,
        }
    }

    /// True if the request may now connect to local addresses.
    pub(super) fn permits_local_addresses(&self) -> bool {
        match self {
            Self::OpenByForm => true,
            // An attacker may own the name, and have a page under it.
            Self::Open { asker, .. } => *asker == Asker::Program,
            Self::ByForm(_) | Self::NotFound(_) | Self::Over => false,
        }
    }
}

impl RequestTask {
    /// Begins with the local network if the host is local by its form and this requester may reach it.
    pub(super) fn begin_locally(&mut self) -> Option<Phase> {
        let LocalWay::ByForm(asker) = self.local else {
            return None;
        };
        if asker == Asker::Navigation {
            let page = local_network_response(&self.request.fetch.url).map(ProxyBody::full);
            return Some(Phase::Over(RequestOutcome::Own(page)));
        }
        let is_reached = asker.reaches_local_hosts();
        self.local = if is_reached {
            LocalWay::OpenByForm
        } else {
            LocalWay::Over
        };
        is_reached.then_some(Phase::Direct)
    }

    /// The next phase after an outcome: if the gateway did not find the host, the name servers of this computer may know it.
    pub(super) fn instead_of_gateway(&mut self, outcome: RequestOutcome) -> Phase {
        let (RequestOutcome::Refused(failure) | RequestOutcome::Failed(failure)) = &outcome else {
            return Phase::Over(outcome);
        };
        let is_unknown = matches!(failure, Failure::Gateway { reason, .. } if may_be_known_here(*reason));
        let LocalWay::NotFound(asker) = self.local else {
            return Phase::Over(outcome);
        };
        if !is_unknown || !self.fallback.permits_direct() || !self.rewind() {
            return Phase::Over(outcome);
        }
        debug!("the gateway does not find a host; this computer's name servers are asked");
        let found = Box::new(failure.clone());
        self.local = LocalWay::Open { asker, found };
        Phase::Direct
    }

    /// The next phase if the host was not reached directly.
    pub(super) fn not_reached_locally(&mut self, error: FetchError) -> Phase {
        debug!(%error, "a host is not reached in the local network");
        let is_unknown = matches!(
            error,
            FetchError::DnsNotFound | FetchError::DnsFailed(_) | FetchError::GuardRefused(_)
        );
        match std::mem::replace(&mut self.local, LocalWay::Over) {
            // What the gateway says of the name is the better answer.
            LocalWay::Open { found, .. } if is_unknown => {
                self.change_phase(PhaseExit::Direct, Phase::Over(RequestOutcome::of_failure(*found)))
            }
            // The gateway's operator may know the name.
            LocalWay::OpenByForm
                if self.request.uri.host().is_some_and(is_name) && is_unknown && self.rewind() =>
            {
                Phase::Waiting
            }
            LocalWay::Open { .. }
            | LocalWay::OpenByForm
            | LocalWay::ByForm(_)
            | LocalWay::NotFound(_)
            | LocalWay::Over => Phase::Over(RequestOutcome::of_failure(Failure::Local(error))),
        }
    }
}
