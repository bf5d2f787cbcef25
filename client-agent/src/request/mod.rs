//! The life of a request, from the browser to its answer.
//!
//! ```text
//! Looking --fresh--> Cached          WaitingForManifest --announced--> Promised
//!    |  +--the page is known--> WaitingForManifest |                      ^ | |
//!    |  +--announced-----------------------------> | -------- Promised ---+ | head fits
//!    |                                             | not found, time        v
//! other                                            |       +--withdrawn,-- Arriving --body--> Promised (answered)
//!    v                                             v       v   mismatch,... |
//! Waiting --session--> Sent --head--> Forwarded  Waiting <------------------+ broken, stuck, lost
//!    |  ^                | |  +--Promised--> Promised
//!    |  +-- repeated ----+ +-- the gateway's Failed --> Refused
//!    +--- gateway silent for long ---> Direct
//! ```
//! Why a request left a phase is counted ([`PhaseExit`]). No phase loses a request: whatever a promise, a push or a
//! session comes to, the request is then sent on its own.
//!
//! What is safe may be repeated in another session, or go around a silent gateway. Everything else reaches the origin
//! at most once, and its failure is told.
mod body;
mod draft;
mod framed;
mod known;
mod life;
mod looking;
mod page_use;
mod phase;
mod promised;
mod relay;
mod response;
mod sent;
mod upload;

use std::{net::SocketAddr, sync::Arc};

use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_http::request_context::CredentialsSecret;
use longhaul_origin::OriginClient;
use longhaul_protocol::session::FailureReason;
use tracing::debug;

pub use body::{BodyBroken, ProxyBody};
pub use framed::FramedSites;
pub use phase::PhaseExit;

use crate::{
    bundle::Loads,
    config::{Fallback, PushSettings},
    counters::Counters,
    forget::Forgetting,
    https::Https,
    listener::ConnectionScope,
    pages::{Failure, Page},
    pictures::Pictures,
    session::Gateway,
    store::Store,
    tunnel::WorkingHosts,
};

/// What all requests share.
#[derive(Debug)]
pub struct Context {
    /// The gateway.
    pub gateway: Gateway,
    /// The way around it.
    pub direct: OriginClient,
    /// When to take that way.
    pub fallback: Fallback,
    /// What the user wants of pictures.
    pub pictures: Pictures,
    /// What is counted.
    pub counters: Arc<Counters>,
    /// The cache.
    pub store: Store,
    /// Page loads under way.
    pub loads: Loads,
    /// Whether pages are loaded in bundles.
    pub push: PushSettings,
    /// What HTTPS is accelerated.
    pub https: Https,
    /// Where tunnels have worked lately.
    pub working_hosts: WorkingHosts,
    /// Where browsers connect.
    pub proxy: SocketAddr,
    /// What keys of credentials are made with.
    pub secret: CredentialsSecret,
    /// Sites that were lately loaded in frames of others.
    pub framed: FramedSites,
    /// Forgets at both ends.
    pub forgetting: Forgetting,
}

/// How a request ended, as far as its head.
#[derive(Debug)]
pub enum Exit {
    /// The gateway's response.
    Forwarded(Response<ProxyBody>),
    /// A fresh response of the agent's cache.
    Cached(Response<ProxyBody>),
    /// A response that a manifest promised.
    Promised(Response<ProxyBody>),
    /// The origin's response, around the gateway.
    Direct(Response<ProxyBody>),
    /// Somebody's rules, or the request itself, stand against it.
    Refused(Failure),
    /// There is no response.
    Failed(Failure),
}

impl Exit {
    /// An exit without response.
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

/// Answers a request in absolute form that came on this connection.
pub async fn answer(
    context: &Arc<Context>,
    scope: &Arc<ConnectionScope>,
    request: Request<Incoming>,
) -> Response<ProxyBody> {
    context.counters.requests.one();
    scope.asked(request.headers());
    let exit = match life::Life::new(context, scope, request) {
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

/// A page as the answer to a request.
pub(crate) fn page_response(page: &Page) -> Response<ProxyBody> {
    page.to_response().map(ProxyBody::full)
}
