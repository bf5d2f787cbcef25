//! Page loads of pages that the agent's cache answers.
//!
//! The gateway plans the objects of a page from the page's body. It gets a fetch of the page with `only-if-cached` (RFC
//! 9111 section 5.2.1.7): it answers from its own cache, with the hash of the body that the agent holds, and the origin
//! is not asked. The browser does not wait for it.
use std::sync::Arc;

use http::{StatusCode, header};
use longhaul_http::field_list;
use longhaul_session::HeaderField;
use tracing::debug;

use super::{local_host::LocalWay, page_membership::PageUse, task::RequestTask, upload::Transmission};
use crate::{
    gateway::{Exchange, GatewayAnswer},
    pageload::PageResponse,
};

impl RequestTask {
    /// Begins the page load of a navigation that the cache has answered, while the browser gets the answer.
    pub(super) fn begin_load_of_cached_page(&mut self) {
        let task = Self {
            upstream: Arc::clone(&self.upstream),
            storage: Arc::clone(&self.storage),
            acceleration: Arc::clone(&self.acceleration),
            counters: Arc::clone(&self.counters),
            recording: self.recording.clone(),
            scope: Arc::clone(&self.scope),
            turn: None,
            request: self.request.clone(),
            images: self.images,
            is_paused: self.is_paused,
            is_held_out: false,
            page_request: None,
            upload: None,
            policy: self.policy,
            repeats: 0,
            fallback: self.upstream.fallback_clock(),
            local: LocalWay::Over,
            page: None,
            previous_page: self.previous_page.take(),
            held_version: self.held_version,
            kept_manifest: None,
            held_bodies: Vec::new(),
        };
        tokio::spawn(task.load_cached_page());
    }

    /// Begins the page load if there is a session for it, and follows it to the gateway's answer.
    async fn load_cached_page(mut self) {
        self.prepare_page().await;
        let Some((session, send_phase)) = self.upstream.gateway.usable_session(self.request.required_state)
        else {
            return;
        };
        self.complete_fetch(&session);
        self.request.fetch.fields.push(only_if_cached());
        let (exchange, wire) = match session.encode_fetch(&self.request.fetch, None, self.policy) {
            Ok(encoded) => encoded,
            Err(error) => {
                debug!(%error, "the page load of a cached page does not begin");
                return;
            }
        };
        self.begin_page(&exchange);
        let Some(page) = self.page.take() else {
            return;
        };
        if let Some(before) = self.previous_page.take() {
            let time = self.acceleration.push.load().leaving;
            tokio::spawn(async move { before.leave_if_idle(time).await });
        }
        let transmission = Transmission {
            session,
            class: self.request.class,
            send_phase,
            fetch: wire,
        };
        if transmission.bodyless().await.is_ok() {
            follow(page, exchange).await;
        }
    }
}

/// Handles the gateway's answer. Without a stored response of the page there is no page load.
async fn follow(page: PageUse, mut exchange: Exchange) {
    let load = &page.load;
    let response = match exchange.answer().await {
        Ok(GatewayAnswer::Head { status, fields, .. }) => response_of(&load.url, status, &fields),
        Ok(
            GatewayAnswer::Promised { .. }
            | GatewayAnswer::Failed { .. }
            | GatewayAnswer::Tunnel(_)
            | GatewayAnswer::Malformed,
        ) => None,
        Err(reason) => {
            debug!(%reason, "session lost while the page load of a cached page began");
            return;
        }
    };
    match response {
        Some(response) => load.handle_response(response),
        None => load.abort_page(),
    }
}

/// The direction of the response that the gateway has stored, or `None` if it has none.
fn response_of(url: &str, status: u16, fields: &[HeaderField]) -> Option<PageResponse> {
    let status = StatusCode::from_u16(status).ok()?;
    let fields = field_list::to_map(fields).ok()?;
    (status.is_success() || status.is_redirection()).then(|| PageResponse::of(url, status, &fields))
}

fn only_if_cached() -> HeaderField {
    (
        header::CACHE_CONTROL.as_str().to_owned(),
        b"only-if-cached".to_vec(),
    )
}
