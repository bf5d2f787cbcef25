//! The answer to a CONNECT request whose host is not accelerated.
use std::sync::Arc;

use bytes::BytesMut;
use http::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tracing::debug;

use super::prepared::prepare;
use crate::{
    connection::ConnectionScope,
    counters::Counters,
    pages::{Failure, page_response},
    proxy_body::ProxyBody,
    upstream::{Asker, Upstream},
};

/// Answers a CONNECT request with a response without body, and starts the tunnel.
pub(crate) async fn connect(
    upstream: &Arc<Upstream>,
    counters: &Arc<Counters>,
    scope: &Arc<ConnectionScope>,
    (destination, asker): ((String, u16), Asker),
    browser: OnUpgrade,
) -> Response<ProxyBody> {
    let tunnel = match prepare(upstream, counters, scope, destination, asker).await {
        Ok(tunnel) => tunnel,
        Err(failure) => return refuse(counters, &failure),
    };
    tokio::spawn(async move {
        if let Ok(browser) = browser.await {
            tunnel.run(TokioIo::new(browser), BytesMut::new()).await;
        }
    });
    Response::new(ProxyBody::empty())
}

/// Refuses a CONNECT request with an error page.
pub(crate) fn refuse(counters: &Counters, failure: &Failure) -> Response<ProxyBody> {
    counters.failures.increment();
    debug!(?failure, "tunnel refused");
    let page = failure.page();
    let mut response = page_response(&page);
    response.extensions_mut().insert(page);
    response
}
