//! One exchange: a request on a connection, and its response.
use http::{
    HeaderMap, Method, Request, Response, Version,
    header::{CONTENT_TYPE, HOST},
    request::Parts,
};
use hyper::body::Incoming;

use super::Inner;
use crate::{
    body::{InUse, OriginBody},
    classify::request_failure,
    connection::{Connection, SendError},
    error::{BadUrl, FetchError},
    host_scheduler::RequestPermit,
    owner::RequestProperties,
    target::Target,
    upload::Upload,
};

/// Error of a request, after all attempts.
pub(super) struct SendFailure {
    pub(super) error: FetchError,
    /// True if a pooled connection was closed before the response.
    pub(super) lost_with_pooled_connection: bool,
}

/// Errors of a request without a response.
pub(super) enum Unanswered {
    /// A pooled connection was closed before it took any part of the request.
    Unsent(Box<Request<Upload>>, SendFailure),
    Failed(SendFailure),
}

impl Unanswered {
    pub(super) fn settled(self) -> SendFailure {
        match self {
            Self::Unsent(_, failure) | Self::Failed(failure) => failure,
        }
    }
}

/// Response head, and the connection that delivers the body.
pub(super) struct Answer {
    response: Response<Incoming>,
    connection: Connection,
}

impl Inner {
    /// Sends a request on a pooled or new connection. The loop repeats the request only if the connection
    /// returned the request before writing any of it, which is safe for every method.
    pub(super) async fn send(
        &self,
        target: &Target,
        properties: &RequestProperties,
        mut request: Request<Upload>,
        permit: &mut RequestPermit,
    ) -> Result<Answer, SendFailure> {
        loop {
            let connection = self.connection(target, properties).await?;
            let was_reused = connection.is_reused();
            match self.send_on(connection, target, request, permit).await {
                Ok(answer) => return Ok(answer),
                Err(Unanswered::Unsent(unsent, _)) if was_reused => request = *unsent,
                Err(failure) => return Err(failure.settled()),
            }
        }
    }

    /// Sends a request on a connection.
    pub(super) async fn send_on(
        &self,
        mut connection: Connection,
        target: &Target,
        request: Request<Upload>,
        permit: &mut RequestPermit,
    ) -> Result<Answer, Unanswered> {
        permit.connected(connection.is_h2());
        let was_reused = connection.is_reused();
        let watch = request.body().watch();
        watch.start();
        let response_head = self.connector.rules().timeouts().response_head;
        let sent = tokio::select! {
            biased;
            sent = connection.send(target, request) => sent,
            () = watch.stalled(response_head) => {
                return Err(Unanswered::Failed(FetchError::ResponseTimeout.into()));
            }
        };
        let failed = |error: &hyper::Error| {
            let error = request_failure(error);
            SendFailure {
                lost_with_pooled_connection: was_reused && error == FetchError::Reset,
                error,
            }
        };
        match sent {
            Ok(response) => Ok(Answer { response, connection }),
            Err(SendError::Unsent(request, error)) => Err(Unanswered::Unsent(request, failed(&error))),
            Err(SendError::Failed(error)) => Err(Unanswered::Failed(failed(&error))),
            Err(SendError::Proxy(error)) => Err(Unanswered::Failed(FetchError::from(error).into())),
        }
    }

    /// Checks the head of a response, and returns the response with its body.
    pub(super) fn receive(
        &self,
        answer: Answer,
        target: &Target,
        permit: RequestPermit,
    ) -> Result<Response<OriginBody>, FetchError> {
        let Answer { response, connection } = answer;
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
            Connection::Http1(connection) => {
                self.pool.give_back(target, connection, permit);
                None
            }
            Connection::Http2(stream) => Some(InUse {
                _stream: stream.guard,
                _permit: permit,
            }),
        };
        let idle = self.connector.rules().timeouts().body_idle;
        Ok(response.map(|body| OriginBody::new(body, in_use, idle)))
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

impl From<FetchError> for SendFailure {
    fn from(error: FetchError) -> Self {
        Self {
            error,
            lost_with_pooled_connection: false,
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
