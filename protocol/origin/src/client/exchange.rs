//! One exchange: a request on a connection, and its response.
use std::{future::pending, sync::Arc};

use http::{
    HeaderMap, Method, Request, Response, StatusCode, Version,
    header::{CONTENT_TYPE, HOST},
    request::Parts,
};
use hyper::body::Incoming;

use super::Inner;
use crate::{
    body::{InUse, OriginBody},
    classify::request_failure,
    connection::{Connection, SendError},
    connection_use::ConnectionUse,
    error::{BadUrl, FetchError},
    host_scheduler::RequestPermit,
    http2_life::Http2Life,
    keep_alive,
    owner::RequestProperties,
    processing::{Processing, processing},
    target::Target,
    upload::Upload,
};

/// Failure of one exchange.
pub(super) struct ExchangeFailure {
    pub(super) error: FetchError,
    pub(super) processing: Processing,
    /// True if the origin had answered on the connection before, so that the connection may have been dead.
    pub(super) was_reused: bool,
}

/// Response head, and the connection that delivers the body.
pub(super) struct Answer {
    response: Response<Incoming>,
    connection: Connection,
    connection_use: ConnectionUse,
}

impl Answer {
    /// True if the origin says that this connection is not for the host (RFC 9110 section 15.5.20).
    pub(super) fn is_misdirected(&self) -> bool {
        self.response.status() == StatusCode::MISDIRECTED_REQUEST
    }

    /// Drops the response, and its connection for further requests.
    pub(super) fn discard(self) {
        if let Connection::Http2(stream) = &self.connection {
            stream.guard.retire();
        }
    }
}

impl Inner {
    /// Sends a request on a connection.
    pub(super) async fn send_on(
        &self,
        mut connection: Connection,
        target: &Target,
        properties: &RequestProperties,
        request: Request<Upload>,
        permit: &mut RequestPermit,
    ) -> Result<Answer, ExchangeFailure> {
        let is_h2 = connection.is_h2();
        permit.connected(is_h2);
        let was_reused = connection.is_reused();
        let connection_use = match is_h2 || !was_reused {
            true => ConnectionUse::First,
            false => ConnectionUse::Any,
        };
        let watch = request.body().watch();
        watch.start();
        let response_head = self.connector.rules().timeouts().response_head;
        let at_risk = connection.life_at_risk().filter(|_| properties.is_repeatable);
        let sent = tokio::select! {
            biased;
            sent = connection.send(target, request) => sent,
            () = watch.stalled(response_head) => return Err(FetchError::ResponseTimeout.into()),
            () = died(at_risk) => return Err(dead(connection)),
        };
        let failed = |error: &hyper::Error, processing| ExchangeFailure {
            // HTTP/2 reports a body that broke off as a reset stream.
            error: match watch.has_broken_off() {
                true => FetchError::Upload,
                false => request_failure(error),
            },
            processing,
            was_reused,
        };
        let failure = match sent {
            Ok(response) => {
                return Ok(Answer {
                    response,
                    connection,
                    connection_use,
                });
            }
            Err(SendError::Unsent(error)) => failed(&error, Processing::Not),
            Err(SendError::Failed(error)) => failed(&error, processing(&error, is_h2)),
            Err(SendError::Proxy(error)) => FetchError::from(error).into(),
        };
        if let Connection::Http2(stream) = connection {
            match failure.processing {
                Processing::Not => stream.guard.retire(),
                Processing::RequiresHttp11 => stream.guard.use_http11(),
                Processing::ConnectionLost
                | Processing::Refused
                | Processing::UnknownOverHttp2
                | Processing::Unknown => {}
            }
        }
        Err(failure)
    }

    /// Checks the head of a response, and returns the response with its body.
    pub(super) fn receive(
        &self,
        answer: Answer,
        target: &Target,
        permit: RequestPermit,
    ) -> Result<Response<OriginBody>, FetchError> {
        let Answer {
            mut response,
            connection,
            connection_use,
        } = answer;
        response.extensions_mut().insert(connection_use);
        let headers = response.headers();
        // The limits of the libraries apply to their buffers, which are larger than the header sections that
        // they accept.
        let header_bytes: usize = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len())
            .sum();
        if header_bytes > self.limits.header_bytes.as_usize() {
            return Err(FetchError::HeaderTooLarge);
        }
        if is_event_stream(headers) {
            permit.mark_long_lived();
        }
        let in_use = match connection {
            Connection::Http1(mut connection) => {
                connection.usable_for = keep_alive::usable_for(headers);
                self.pool.give_back(target, connection, permit);
                None
            }
            Connection::Http2(stream) => Some(InUse {
                stream: stream.guard,
                _permit: permit,
            }),
        };
        let idle = self.connector.rules().timeouts().body_idle;
        Ok(response.map(|body| OriginBody::new(body, in_use, idle)))
    }
}

/// Returns when a connection that is at risk shows to be dead.
async fn died(life: Option<Arc<Http2Life>>) {
    match life {
        Some(life) => life.died().await,
        None => pending().await,
    }
}

/// The failure of a request on a connection that died while it was idle.
fn dead(connection: Connection) -> ExchangeFailure {
    if let Connection::Http2(stream) = connection {
        stream.guard.retire();
    }
    ExchangeFailure {
        error: FetchError::Reset,
        processing: Processing::ConnectionLost,
        was_reused: true,
    }
}

/// Event streams have no end (HTML standard section 9.2).
fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| {
        let essence = kind.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("text/event-stream")
    })
}

impl From<FetchError> for ExchangeFailure {
    fn from(error: FetchError) -> Self {
        Self {
            error,
            processing: Processing::Unknown,
            was_reused: false,
        }
    }
}

/// Returns the head as the pool sends it: with the canonical URL, and without a `Host` field that could
/// contradict the URL (RFC 9112 section 3.2.2).
pub(super) fn outgoing(target: &Target, parts: Parts) -> Result<Parts, FetchError> {
    if parts.method == Method::CONNECT {
        return Err(BadUrl::Method.into());
    }
    let (mut outgoing, ()) = Request::new(()).into_parts();
    outgoing.uri = target.uri(parts.uri.path_and_query())?;
    outgoing.method = parts.method;
    outgoing.headers = parts.headers;
    outgoing.headers.remove(HOST);
    outgoing.version = Version::HTTP_11;
    Ok(outgoing)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn event_streams_are_known_by_their_type() {
        for (kind, expected) in [
            ("text/event-stream", true),
            ("Text/Event-Stream ; charset=utf-8", true),
            ("text/event-streams", false),
            ("text/html", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
            assert_eq!(is_event_stream(&headers), expected, "{kind}");
        }
        assert!(!is_event_stream(&HeaderMap::new()));
    }
}
