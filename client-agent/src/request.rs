//! Handling of a browser's request, from its arrival to its response.
//!
//! ```text
//! Lookup  --fresh--> Cached          WaitingForManifest --announced--> Promised
//!    |  +--the page is known--> WaitingForManifest |                      ^ | |
//!    |  +--announced-----------------------------> | -------- Promised ---+ | head fits
//!    |                                             | open, not found, time  v
//! other                                            |       +--withdrawn,-- Arriving -body-> Promised (exit)
//!    v                                             v       v   mismatch,... |
//! Waiting --session--> Sent --head--> Forwarded  Waiting <------------------+ broken, stuck, lost
//!    |  ^                | |  +--Promised, announced--> Promised
//!    |  +-- repeated ----+ +-- the gateway's Failed --> Refused
//!    +--- gateway silent for long ---> Direct; hosts of the local network at once
//! ```
//! The reason for each change of phase is counted ([`PhaseExit`]). No phase drops a request: if a promise, a
//! push or a session fails, the agent sends the request as an ordinary fetch.
//!
//! The agent may repeat a safe request in another session, or send it directly if the gateway is silent.
//! Every other request reaches the origin at most once, and its failure is reported to the browser.
mod announced_body;
mod announced_response;
mod body_relay;
mod cached_page;
mod gateway_answer;
mod local_host;
mod lookup;
mod open_manifest;
mod outcome;
mod page_membership;
mod phase;
mod response;
mod rest_request;
mod resume_check;
mod send;
mod stall_timeout;
mod task;
mod unreachable_host;
mod upload;
mod upstream_request;
mod waiting_page;

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use tracing::debug;

use outcome::RequestOutcome;

use crate::{
    connection::ConnectionScope,
    handles::Handles,
    pages::{Failure, Page, page_response},
    proxy_body::ProxyBody,
};

/// Answers a request in absolute form that arrived on this connection.
pub(crate) async fn answer(
    handles: &Handles,
    scope: &Arc<ConnectionScope>,
    request: Request<Incoming>,
) -> Response<ProxyBody> {
    handles.counters.requests.increment();
    scope.observe_request(request.headers());
    let response = match task::RequestTask::new(handles, scope, request) {
        Ok(task) => match waiting_page::page_key(&task, scope) {
            Some(key) => Box::pin(waiting_page::answer(handles, scope, task, key)).await,
            None => run(handles, task).await,
        },
        Err(bad) => finish(handles, RequestOutcome::Refused(Failure::Request(bad))),
    };
    scope.observe_response(&response);
    response
}

/// Runs a request to its response, and records both.
async fn run(handles: &Handles, task: task::RequestTask) -> Response<ProxyBody> {
    let recording = task.recording.clone();
    let page_request = task.page_request.clone();
    let response = finish(handles, task.run().await);
    if let Some(page) = response.extensions().get::<Page>() {
        recording.failed(&page.title, page.whose);
    }
    recording.answered(response.status(), response.headers());
    response.map(|body| body.recorded(recording.of_body()).guarded_by(page_request))
}

/// Makes the response of an outcome, and counts it.
fn finish(handles: &Handles, outcome: RequestOutcome) -> Response<ProxyBody> {
    match outcome {
        RequestOutcome::Forwarded(response)
        | RequestOutcome::Cached(response)
        | RequestOutcome::Own(response)
        | RequestOutcome::Promised(response) => response,
        RequestOutcome::Direct(response) => {
            handles.counters.direct_requests.increment();
            response
        }
        RequestOutcome::Refused(failure) | RequestOutcome::Failed(failure) => {
            handles.counters.failures.increment();
            debug!(?failure, "request without response");
            let page = failure.page();
            let mut response = page_response(&page);
            response.extensions_mut().insert(page);
            response
        }
    }
}
