//! One connection of a browser: hyper with the agent's limits, and an orderly end.
use std::{
    convert::Infallible,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use http::{Request, Response, Version};
use http_body::Body as _;
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tracing::debug;

use super::{
    close::close_after_answer,
    departure::WatchedStream,
    error_page_stream::ExplainingIo,
    evictable_stream::{EvictableStream, InUseBody},
    request_targets::TargetStream,
};

/// Maximum size of a header section that is parsed. Above 64 KiB the request gets an error page; above this
/// limit it is refused without being read completely.
const MAX_HEAD: usize = 128 * 1024;
/// Maximum number of fields of a header section that is parsed.
const MAX_FIELDS: usize = 512;
/// Timeout of a header section, and lifetime of an idle connection. Longer than the pauses of a reader, so
/// that browsers rarely open new connections.
const HEAD_TIME: Duration = Duration::from_secs(90);

/// Serves a connection inside TLS; once `ending` is ready, requests in progress get `grace` to end.
pub(crate) async fn serve_http1<I, S>(io: I, service: S, ending: impl Future<Output = Duration>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<InUseBody>, Error = Infallible> + Unpin,
    S::Future: Send,
{
    let connection = builder()
        .serve_connection(ExplainingIo::new(TokioIo::new(TargetStream::new(io))), service)
        .with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        grace = ending => {
            connection.as_mut().graceful_shutdown();
            match timeout(grace, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        // No close_notify was sent, so a truncated response does not look complete.
        debug!(%error, "an accelerated connection of a browser failed");
    }
}

fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD)
        .max_header_size(MAX_HEAD)
        .max_headers(MAX_FIELDS);
    builder
}

/// Serves one connection to its end.
pub(crate) async fn serve_http<S>(stream: EvictableStream<TcpStream>, service: S)
where
    S: Service<Request<Incoming>, Response = Response<InUseBody>, Error = Infallible> + Unpin,
    S::Future: Send,
{
    // Tunnels carry interactive traffic, and hyper writes whole heads.
    let _best_effort = stream.get_ref().set_nodelay(true);
    let io = ExplainingIo::new(TokioIo::new(TargetStream::new(WatchedStream::new(stream))));
    let mut builder = builder();
    // `WatchedStream` ends the requests of clients that have left.
    builder.half_close(true);
    let ends_by_close = &AtomicBool::new(false);
    let service = service_fn(|request: Request<Incoming>| {
        let is_old = request.version() < Version::HTTP_11;
        let answered = service.call(request);
        async move {
            let response = answered.await;
            let has_length = |response: &Response<InUseBody>| response.body().size_hint().exact().is_some();
            ends_by_close.store(
                is_old && !response.as_ref().is_ok_and(has_length),
                Ordering::Relaxed,
            );
            response
        }
    });
    let mut connection = builder.serve_connection(io, service).with_upgrades();
    let ended = (&mut connection).await;
    // There are no parts if the connection became a tunnel.
    let Some(parts) = connection.into_parts() else {
        return;
    };
    let stream = parts.io.into_inner().into_inner().into_inner().into_inner();
    match ended {
        Err(error) if !error.is_parse() => {
            debug!(%error, "a connection of a browser failed");
            if error.is_user() && !ends_by_close.load(Ordering::Relaxed) {
                // A truncated body looks truncated, and the client gets the bytes before.
                return close_after_answer(stream).await;
            }
            // The connection is reset, not closed: a truncated body must not look complete, not even to an
            // HTTP/1.0 client that reads to the end.
            let _best_effort = stream.get_ref().set_zero_linger();
        }
        Ok(()) | Err(_) => {
            close_after_answer(stream).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Poll},
    };

    use bytes::Bytes;
    use http_body::{Body, Frame};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::proxy_body::BodyBroken;

    /// A body that ends at the second of the two polls that hyper makes in a row.
    struct EndsAtSecondPoll {
        was_polled: bool,
    }

    impl Body for EndsAtSecondPoll {
        type Data = Bytes;
        type Error = BodyBroken;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyBroken>>> {
            match std::mem::replace(&mut self.was_polled, true) {
                false => Poll::Pending,
                true => Poll::Ready(None),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pipelined_request_is_answered_after_a_body_that_ends_at_its_second_poll() {
        let (mut client, server) = tokio::io::duplex(1024);
        let service = service_fn(|_| async {
            let body = InUseBody::new(EndsAtSecondPoll { was_polled: false }, None);
            Ok::<_, Infallible>(Response::new(body))
        });
        let serving = builder().serve_connection(TokioIo::new(server), service);
        tokio::spawn(serving);
        client
            .write_all(&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3))
            .await
            .unwrap();
        let mut received = Vec::new();
        let answered = async {
            while received
                .windows(12)
                .filter(|bytes| bytes == b"HTTP/1.1 200")
                .count()
                < 3
            {
                assert_ne!(client.read_buf(&mut received).await.unwrap(), 0);
            }
        };
        timeout(Duration::from_secs(1), answered)
            .await
            .expect("three answers");
    }
}
