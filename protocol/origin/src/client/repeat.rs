//! Requests that are sent once more: those that the origin did not process, and idempotent ones.
//!
//! A request with a method that is not idempotent is sent once more only if the protocol says that the origin did not
//! process it (RFC 9110 section 9.2.2, RFC 9113 section 8.7). Browsers repeat it also if a kept connection was closed
//! before the response; here such a request takes a connection that was used a moment ago, or a new one.
use http::{Request, Response, request::Parts};
use tracing::debug;

use longhaul_types::Pii;

use super::{
    Inner,
    exchange::{Answer, ExchangeFailure},
};
use crate::{
    body::OriginBody, connector::Versions, error::FetchError, host_scheduler::RequestPermit,
    owner::RequestProperties, processing::Processing, target::Target, upload::Upload,
};

/// Maximum number of times that a request is sent once more. Chromium permits two for the same reasons together, and
/// one more for each of HTTP/1.1, 421 and a dead connection.
const MAX_REPEATS: u8 = 3;

/// The connection of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// A pooled one, if there is one.
    Any,
    /// A new one: the pool may have lost all its connections at once.
    New(Versions),
}

/// The attempts of one request so far.
#[derive(Debug, Default)]
struct Attempts {
    repeats: u8,
    had_dead_connection: bool,
    was_misdirected: bool,
    /// The error because of which the request is sent over HTTP/1.1.
    of_http2: Option<FetchError>,
}

impl Inner {
    /// Sends a request, if need be several times, and returns its response.
    pub(super) async fn exchange(
        &self,
        target: &Target,
        properties: &RequestProperties,
        (parts, mut upload): (Parts, Upload),
        mut permit: RequestPermit,
    ) -> Result<Response<OriginBody>, FetchError> {
        let watch = upload.watch();
        let (mut attempts, mut route) = (Attempts::default(), Route::Any);
        loop {
            let request = Request::from_parts(parts.clone(), upload);
            let sent = self
                .attempt(route, target, properties, request, &mut permit)
                .await;
            let next = match &sent {
                Ok(answer) => attempts.after_answer(answer),
                Err(failure) => attempts.after_failure(failure, parts.method.is_idempotent()),
            };
            let next = next.and_then(|next| Some((next, watch.again()?)));
            (route, upload) = match (sent, next) {
                (Ok(answer), None) => {
                    watch.answered();
                    if attempts.of_http2.is_some() {
                        self.pool.use_http11(target);
                    }
                    return self.receive(answer, target, permit);
                }
                (Err(failure), None) => {
                    if failure.processing == Processing::UnknownOverHttp2 {
                        // This request may not be sent over HTTP/1.1; the next one will be.
                        self.pool.use_http11(target);
                    }
                    return Err(attempts.error(failure.error));
                }
                (Ok(answer), Some(next)) => {
                    answer.discard();
                    next
                }
                (Err(_), Some(next)) => next,
            };
            debug!(host = ?Pii(&target.host), ?route, "a request is sent once more");
            self.stats.retry();
        }
    }

    async fn attempt(
        &self,
        route: Route,
        target: &Target,
        properties: &RequestProperties,
        request: Request<Upload>,
        permit: &mut RequestPermit,
    ) -> Result<Answer, ExchangeFailure> {
        let connection = match route {
            Route::Any => self.connection(target, properties).await?,
            Route::New(versions) => self.fresh(target, properties, versions).await?,
        };
        self.send_on(connection, target, properties, request, permit)
            .await
    }
}

impl Attempts {
    fn after_answer(&mut self, answer: &Answer) -> Option<Route> {
        let is_first = !std::mem::replace(&mut self.was_misdirected, true);
        (answer.is_misdirected() && is_first).then_some(Route::New(Versions::Any))
    }

    fn after_failure(&mut self, failure: &ExchangeFailure, is_idempotent: bool) -> Option<Route> {
        if self.repeats == MAX_REPEATS {
            return None;
        }
        self.repeats += 1;
        match failure.processing {
            // A refused stream may fit on the same connection as soon as the origin's limits are known.
            Processing::Not | Processing::Refused if self.repeats == 1 => Some(Route::Any),
            Processing::Not | Processing::Refused | Processing::RequiresHttp11 => {
                Some(Route::New(Versions::Any))
            }
            _ if !is_idempotent => None,
            Processing::ConnectionLost | Processing::Unknown if failure.is_of_dead_connection() => {
                let is_first = !std::mem::replace(&mut self.had_dead_connection, true);
                is_first.then_some(Route::New(Versions::Any))
            }
            // A new HTTP/2 connection that ends without a response is not understood, either.
            Processing::UnknownOverHttp2 | Processing::ConnectionLost if self.of_http2.is_none() => {
                self.of_http2 = Some(failure.error.clone());
                Some(Route::New(Versions::Http11))
            }
            Processing::UnknownOverHttp2 | Processing::ConnectionLost | Processing::Unknown => None,
        }
    }

    /// The error of the request: that of HTTP/2, if the origin speaks no HTTP/1.1 at all.
    fn error(self, last: FetchError) -> FetchError {
        match (self.of_http2, last) {
            (Some(error), FetchError::Tls(_)) => error,
            (_, last) => last,
        }
    }
}

impl ExchangeFailure {
    fn is_of_dead_connection(&self) -> bool {
        self.was_reused && self.error == FetchError::Reset
    }
}
