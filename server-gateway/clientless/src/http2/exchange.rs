//! Answers one request.
use std::{future::poll_fn, io, pin::pin, sync::Arc};

use h2::{Reason, RecvStream, server::SendResponse};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use longhaul_gateway_core::admin::metrics::Outcome;
use longhaul_http::{expectation::is_continue_expected, framing::BodyLength};
use longhaul_types::PublicKey;
use tracing::debug;

use super::{
    Http2Connection, request,
    sender::{BodySender, Piece},
    tunnel,
};
use crate::{
    access::{Admitted, Denied},
    answer::{Answer, AnswerBody},
    body_time::BodyTime,
    connect::{TunnelKind, TunnelRequest},
    encoding::BodyEncoder,
    fetch::{ConnectionState, ProxyRequest, answer},
    head::{RequestHead, RequestTarget},
    pac,
    request_body::{Asked, END, Pieces, RequestBody},
};

/// Bytes of a body that are read after the origin has stopped reading it.
const MAX_UNREAD: usize = 1024 * 1024;
/// Fields of an HTTP/1.1 connection, which HTTP/2 does not have.
const OF_CONNECTIONS: [HeaderName; 5] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Sender of a response.
pub(super) type Respond = SendResponse<Piece>;

/// Serves one stream to its end.
pub(super) async fn serve(connection: Arc<Http2Connection>, request: Request<RecvStream>, respond: Respond) {
    let (parts, body) = request.into_parts();
    let has_body = !body.is_end_stream();
    let head = match request::check(Request::from_parts(parts, ()), has_body) {
        Ok(head) => head,
        Err(error) => {
            debug!(%error, "a request was rejected");
            return own(&connection, respond, Answer::of_head_error(error), false).await;
        }
    };
    let is_head = head.method == Method::HEAD;
    let admitted = match connection.shared.admit(connection.peer, &head) {
        Ok(admitted) => admitted,
        Err(denied) => {
            connection.shared.counters.denied(denied.name());
            if denied == Denied::Silent {
                return connection.resets.exhaust();
            }
            return own(&connection, respond, Answer::of_denied(denied), is_head).await;
        }
    };
    let state = connection.state(&admitted);
    match head.target.clone() {
        RequestTarget::Proxy(path) => {
            let security = connection.peer.security;
            let answer = pac::answer(security, &head.method, &path, head.headers.get(header::HOST));
            own(&connection, respond, answer, is_head).await;
        }
        RequestTarget::Tunnel(host, port) => {
            let mut headers = head.headers;
            let client = state.client(&admitted, &mut headers);
            let request = TunnelRequest {
                client,
                admitted,
                host,
                port,
                kind: TunnelKind::Asked,
            };
            tunnel::serve(&connection, &state, request, body, respond).await;
        }
        RequestTarget::Origin(_) => forward(&connection, state, (head, &admitted), body, respond).await,
    }
}

/// Sends an answer of the proxy itself.
pub(super) async fn own(connection: &Http2Connection, respond: Respond, answer: Answer, is_head: bool) {
    // Fails if the client has gone.
    let _gone = respond_with(connection, respond, answer, (is_head, None)).await;
}

/// Fetches for a client.
async fn forward(
    connection: &Http2Connection,
    state: Arc<ConnectionState>,
    (head, admitted): (RequestHead, &Admitted),
    mut body: RecvStream,
    mut respond: Respond,
) {
    let RequestTarget::Origin(target) = head.target else {
        return;
    };
    let unanswered = connection.resets.begin();
    let mut headers = head.headers;
    let expects = is_continue_expected(&headers);
    let client = state.client(admitted, &mut headers);
    let limits = client.limits;
    let is_head = head.method == Method::HEAD;
    let (pieces, mut request_body) = if head.body == BodyLength::None {
        (None, None)
    } else {
        let (pieces, body) = RequestBody::new(head.body);
        (Some(pieces), Some(body))
    };
    let asked = request_body.as_mut().filter(|_| expects).map(RequestBody::asked);
    let request = ProxyRequest {
        method: head.method,
        target,
        headers,
        body: request_body,
    };
    let mut reading = pin!(async {
        if let Some(pieces) = pieces {
            read(connection, &mut body, (pieces, limits)).await;
        }
        // The response decides when the exchange ends.
        std::future::pending::<()>().await;
    });
    let mut answering = pin!(answer(state, client, request));
    let answer = tokio::select! {
        answer = &mut answering => answer,
        () = ask(asked, &mut respond) => return,
        () = &mut reading => return,
    };
    unanswered.answered();
    let sent = tokio::select! {
        sent = respond_with(connection, respond, answer, (is_head, Some(limits))) => sent,
        () = &mut reading => return,
    };
    connection.shared.gateway.metrics.outcome(match &sent {
        Ok(()) => Outcome::Complete,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Outcome::Truncated,
        Err(_) => Outcome::Cancelled,
    });
}

/// Asks for the body once the origin does; returns when the client has cancelled the request.
async fn ask(asked: Option<Asked>, respond: &mut Respond) {
    if let Some(asked) = asked {
        let is_asked = tokio::select! {
            asked = asked => asked.is_ok(),
            () = cancelled(respond) => return,
        };
        if is_asked {
            let mut interim = Response::new(());
            *interim.status_mut() = StatusCode::CONTINUE;
            // Fails if the client has gone.
            let _gone = respond.send_informational(interim);
        }
    }
    cancelled(respond).await;
}

async fn cancelled(respond: &mut Respond) {
    let _reason = poll_fn(|cx| respond.poll_reset(cx)).await;
}

/// Passes the body of a request to the origin.
async fn read(connection: &Http2Connection, body: &mut RecvStream, (pieces, limits): (Pieces, PublicKey)) {
    let mut time = BodyTime::new(connection.shared.config.idle_timeout);
    let mut unread = 0;
    while unread <= MAX_UNREAD {
        let (next, waited) = connection.uploads.wait(time.left(), body.data()).await;
        let piece = match next {
            Ok(Some(Ok(piece))) => {
                time.read(waited, piece.len());
                piece
            }
            Ok(None) => {
                // The origin may have stopped reading, which is harmless.
                let _gone = pieces.send(Ok(END)).await;
                return;
            }
            Ok(Some(Err(error))) => return drop(pieces.send(Err(io::Error::other(error))).await),
            Err(_) => return drop(pieces.send(Err(time.error().into())).await),
        };
        if piece.is_empty() {
            continue;
        }
        let count = piece.len();
        if let Err(error) = connection.shared.count_up(limits, count) {
            return drop(pieces.send(Err(error)).await);
        }
        if connection.uploads.pass(pieces.send(Ok(piece))).await.is_err() {
            unread += count;
        }
        // Fails if the client has gone, as the next read will tell.
        let _gone = body.flow_control().release_capacity(count);
    }
}

/// Sends a response. An error of the kind `InvalidData` is a body that cannot be completed.
async fn respond_with(
    connection: &Http2Connection,
    mut respond: Respond,
    answer: Answer,
    (is_head, limits): (bool, Option<PublicKey>),
) -> io::Result<()> {
    let is_bodyless = is_head || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&answer.status);
    let length = match &answer.body {
        AnswerBody::None => Some(0),
        AnswerBody::Whole(bytes) => Some(bytes.len() as u64),
        AnswerBody::Stream(reader) => reader.length().filter(|_| answer.coding.is_none()),
    };
    let ends = is_bodyless || length == Some(0);
    let head = head(&answer, length.filter(|_| !is_bodyless), is_bodyless);
    let stream = respond.send_response(head, ends).map_err(io::Error::other)?;
    if ends {
        return Ok(());
    }
    let stall = connection.shared.config.idle_timeout;
    let mut sender = BodySender::new(stream, connection.turns.clone(), stall, answer.class);
    sender.left = length;
    match send_body(connection, &mut sender, answer, limits).await {
        Ok(()) => sender.finish(),
        Err(error) => {
            let is_cut = error.kind() == io::ErrorKind::InvalidData;
            let reason = if is_cut {
                Reason::INTERNAL_ERROR
            } else {
                Reason::CANCEL
            };
            sender.break_off(reason).await;
            Err(error)
        }
    }
}

/// The head of a response.
fn head(answer: &Answer, length: Option<u64>, is_bodyless: bool) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = answer.status;
    let mut headers: HeaderMap = answer.headers.clone();
    for name in &OF_CONNECTIONS {
        headers.remove(name);
    }
    match length {
        Some(length) => drop(headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length))),
        // Without a body, the field describes the body of a GET.
        None if is_bodyless => {}
        None => drop(headers.remove(header::CONTENT_LENGTH)),
    }
    *response.headers_mut() = headers;
    response
}

async fn send_body(
    connection: &Http2Connection,
    sender: &mut BodySender,
    answer: Answer,
    limits: Option<PublicKey>,
) -> io::Result<()> {
    let mut reader = match answer.body {
        AnswerBody::None => return Ok(()),
        AnswerBody::Whole(bytes) => return sender.send(bytes).await,
        AnswerBody::Stream(reader) => reader,
    };
    let mut tap = answer.tap;
    let limits = limits.unwrap_or_else(|| PublicKey::from_bytes([0; 32]));
    let cpu_pool = Arc::clone(&connection.shared.gateway.cpu_pool);
    let mut encoder = BodyEncoder::new(answer.coding, reader.length(), cpu_pool).map_err(broken)?;
    loop {
        let next = tokio::select! {
            next = reader.next() => next,
            () = sender.cancelled() => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        let Some(chunk) = next else { break };
        let chunk = chunk.map_err(broken)?;
        if let Some(tap) = &mut tap {
            tap.chunk(&chunk).await;
        }
        let coded = encoder.encode(chunk).await.ok_or_else(failed)?;
        connection.shared.count_down(limits, coded.len())?;
        sender.send(coded).await?;
    }
    if let Some(tap) = tap {
        tap.end().await;
    }
    sender.send(encoder.finish().ok_or_else(failed)?).await
}

/// A body that cannot be completed.
fn broken(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn failed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the encoder failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_response_without_a_body_is_that_of_a_get() {
        let answer = || {
            let mut answer = Answer::text(StatusCode::OK, "hello");
            answer
                .headers
                .insert(header::CONTENT_LENGTH, HeaderValue::from(7));
            answer
                .headers
                .insert(header::CONNECTION, HeaderValue::from_static("close"));
            answer
        };
        for (length, is_bodyless, told) in [
            (Some(5), false, Some("5")),
            (None, true, Some("7")),
            // An unknown length gives no field.
            (None, false, None),
        ] {
            let response = head(&answer(), length, is_bodyless);
            let length = response.headers().get(header::CONTENT_LENGTH);
            assert_eq!(length.map(|length| length.to_str().unwrap()), told);
            assert!(!response.headers().contains_key(header::CONNECTION));
        }
    }
}
