//! Navigations while the hop is away: the browser gets a page that says so, while the request goes on waiting for its
//! answer. The page asks again, and gets the answer to the first request.
use std::{sync::Arc, time::Duration};

use http::{HeaderMap, Response, header};
use tokio::{sync::watch, time::sleep};

use super::{run, task::RequestTask};
use crate::{
    connection::ConnectionScope,
    gateway::Gateway,
    handles::Handles,
    pages::{AwayPage, away_response},
    proxy_body::ProxyBody,
    upstream::{PageKey, WaitingPage},
};

/// Time for which a request that asks again waits for the answer, so that it arrives as soon as the hop is back.
/// Shorter than what browsers and people take for a failure.
const HOLD: Duration = Duration::from_secs(20);

/// Fields that make an answer depend on what the browser holds: another request cannot use such an answer.
const CONDITIONS: [header::HeaderName; 6] = [
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
    header::RANGE,
];

/// The key of a navigation that may wait with a page; `None` for other requests.
pub(super) fn page_key(task: &RequestTask, scope: &ConnectionScope) -> Option<PageKey> {
    let request = &task.request;
    let may_wait = request.is_navigation
        && task.upload.is_none()
        && scope.bound_number().is_none()
        && !has_conditions(&request.headers);
    may_wait.then(|| PageKey::of(&request.context, &request.fetch.url, &request.headers))
}

fn has_conditions(headers: &HeaderMap) -> bool {
    CONDITIONS.iter().any(|name| headers.contains_key(name))
}

/// Answers a navigation.
pub(super) async fn answer(
    handles: &Handles,
    scope: &ConnectionScope,
    mut task: RequestTask,
    key: PageKey,
) -> Response<ProxyBody> {
    let upstream = &handles.upstream;
    let (gateway, pages) = (&upstream.gateway, &upstream.waiting_pages);
    let rules = upstream.rules.load().away;
    if let Some((id, page)) = pages.find(&key) {
        tokio::select! {
            biased;
            answer = page.answer() => if let Some(answer) = answer {
                pages.remove(id);
                return answer;
            },
            () = still_away(gateway, rules.page_after) => {
                pages.renew(id);
                return away(gateway, &page);
            }
        }
    }
    // The connection may end long before the request.
    task.detach_from(scope);
    let (exhausted, patience) = (task.fallback.exhausted(), task.fallback.patience());
    let running = {
        let handles = handles.clone();
        tokio::spawn(async move { run(&handles, task).await })
    };
    let page = Arc::new(WaitingPage::new(key, running));
    tokio::select! {
        biased;
        answer = page.answer() => return answer.unwrap_or_else(|| away(gateway, &page)),
        () = until_away(gateway, exhausted, rules.page_after) => {}
    }
    if pages.keep(Arc::clone(&page), rules.queue) {
        patience.begin();
        return away(gateway, &page);
    }
    // Too many pages wait: this one waits as other requests do.
    page.answer().await.unwrap_or_else(|| away(gateway, &page))
}

/// Waits until the gateway has been silent for a time and the request cannot go another way. A gateway that has not
/// answered since the agent started may be a wrong one: then the request fails with a page that says what is wrong.
async fn until_away(gateway: &Gateway, mut exhausted: watch::Receiver<bool>, after: Option<Duration>) {
    let Some(after) = after else {
        return std::future::pending().await;
    };
    // The guards of both receivers must not live across the next await. Both senders live as long as the request.
    drop(exhausted.wait_for(|exhausted| *exhausted).await);
    let mut view = gateway.watch();
    drop(view.wait_for(|view| view.has_answered).await);
    gateway.silent_for(after).await;
}

async fn still_away(gateway: &Gateway, after: Option<Duration>) {
    sleep(HOLD).await;
    gateway.silent_for(after.unwrap_or_default()).await;
}

fn away(gateway: &Gateway, page: &WaitingPage) -> Response<ProxyBody> {
    let view = gateway.view();
    away_response(&AwayPage {
        silent: view.silent_since.map(|since| since.elapsed()),
        waited: page.since.elapsed(),
        url: page.url(),
        trouble: view.trouble(),
    })
    .map(ProxyBody::full)
}
