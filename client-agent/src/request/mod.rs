//! Handling of a browser's request, from its arrival to its response.
//!
//! ```text
//! Looking --fresh--> Cached          WaitingForManifest --announced--> Promised
//!    |  +--the page is known--> WaitingForManifest |                      ^ | |
//!    |  +--announced-----------------------------> | -------- Promised ---+ | head fits
//!    |                                             | not found, time        v
//! other                                            |       +--withdrawn,-- Arriving -body-> Promised (exit)
//!    v                                             v       v   mismatch,... |
//! Waiting --session--> Sent --head--> Forwarded  Waiting <------------------+ broken, stuck, lost
//!    |  ^                | |  +--Promised--> Promised
//!    |  +-- repeated ----+ +-- the gateway's Failed --> Refused
//!    +--- gateway silent for long ---> Direct
//! ```
//! The reason for each change of phase is counted ([`PhaseExit`]). No phase drops a request: if a promise, a
//! push or a session fails, the agent sends the request as an ordinary fetch.
//!
//! The agent may repeat a safe request in another session, or send it directly if the gateway is silent.
//! Every other request reaches the origin at most once, and its failure is reported to the browser.
mod body;
mod framed;
mod looking;
mod page_use;
mod phase;
mod promised;
mod relay;
mod response;
mod resume_check;
mod sent;
mod task;
mod upload;
mod upstream;

use std::{net::SocketAddr, sync::Arc};

use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_http::request_context::CredentialsSecret;
use longhaul_origin::OriginClient;
use longhaul_session::FailureReason;
use tracing::debug;

pub use body::{BodyBroken, ProxyBody};
pub use framed::FramedSites;
pub use phase::PhaseExit;

use crate::{
    config::{EarlyCredentials, Fallback, PushSettings},
    counters::Counters,
    forget::Forgetting,
    gateway::Gateway,
    https::Https,
    listener::ConnectionScope,
    pageload::Loads,
    pages::{Failure, Page},
    pictures::Pictures,
    store::Store,
    tunnel::WorkingHosts,
};

/// State that all requests share.
#[derive(Debug)]
pub struct Context {
    /// Handle of the gateway session.
    pub gateway: Gateway,
    /// HTTP client for direct fetches.
    pub direct: OriginClient,
    /// Conditions of the direct fallback.
    pub fallback: Fallback,
    /// The user's image settings.
    pub pictures: Pictures,
    /// Counters of the status page.
    pub counters: Arc<Counters>,
    /// The agent's cache.
    pub store: Store,
    /// Page loads in progress.
    pub loads: Loads,
    /// Settings of page bundles.
    pub push: PushSettings,
    /// Permission for requests with cookies in early data.
    pub early_credentials: EarlyCredentials,
    /// State of accelerated HTTPS.
    pub https: Https,
    /// Hosts to which tunnels were opened recently.
    pub working_hosts: WorkingHosts,
    /// Address of the proxy's listener.
    pub proxy: SocketAddr,
    /// Secret of the credentials keys.
    pub secret: CredentialsSecret,
    /// Sites that were recently loaded in frames of other sites.
    pub framed: FramedSites,
    /// Deletion of data at both ends.
    pub forgetting: Forgetting,
}

/// Result of a request, up to the response's head.
#[derive(Debug)]
pub enum Exit {
    /// The gateway's response.
    Forwarded(Response<ProxyBody>),
    /// A fresh response from the agent's cache.
    Cached(Response<ProxyBody>),
    /// A response that a manifest announced.
    Promised(Response<ProxyBody>),
    /// The origin's response to a direct fetch.
    Direct(Response<ProxyBody>),
    /// A request that a rule of the agent or the gateway rejects, or that is invalid.
    Refused(Failure),
    /// A failure without a response.
    Failed(Failure),
}

impl Exit {
    /// Creates the exit for a failure.
    pub(crate) fn without_response(failure: Failure) -> Self {
        let refused = match &failure {
            Failure::Request(_) => true,
            Failure::Gateway { reason, .. } => matches!(
                reason,
                FailureReason::AddressRefused | FailureReason::TargetRefused | FailureReason::BadUrl
            ),
            Failure::NoGateway { .. } | Failure::Refused(_) | Failure::Direct(_) | Failure::Lost(_) => false,
        };
        if refused {
            Self::Refused(failure)
        } else {
            Self::Failed(failure)
        }
    }
}

/// Answers a request in absolute form that arrived on this connection.
pub async fn answer(
    context: &Arc<Context>,
    scope: &Arc<ConnectionScope>,
    request: Request<Incoming>,
) -> Response<ProxyBody> {
    context.counters.requests.one();
    scope.asked(request.headers());
    let exit = match task::RequestTask::new(context, scope, request) {
        Ok(life) => life.run().await,
        Err(bad) => Exit::Refused(Failure::Request(bad)),
    };
    let response = match exit {
        Exit::Forwarded(response) | Exit::Cached(response) | Exit::Promised(response) => response,
        Exit::Direct(response) => {
            context.counters.direct_requests.one();
            response
        }
        Exit::Refused(failure) | Exit::Failed(failure) => {
            context.counters.failures.one();
            debug!(?failure, "request without response");
            let page = failure.page();
            let mut response = page_response(&page);
            response.extensions_mut().insert(page);
            response
        }
    };
    scope.answered(&response);
    response
}

/// Converts an error page into a response.
pub(crate) fn page_response(page: &Page) -> Response<ProxyBody> {
    page.to_response().map(ProxyBody::full)
}
