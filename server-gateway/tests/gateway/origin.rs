//! Real origins on loopback.
use std::{convert::Infallible, future::Future, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

pub(crate) type OriginBody = UnsyncBoxBody<Bytes, Infallible>;

/// Serves HTTP/1.1 with `handler`; returns the port.
pub(crate) async fn serve<F, R>(handler: F) -> u16
where
    F: Fn(Request<Incoming>) -> R + Send + Sync + 'static,
    R: Future<Output = Response<OriginBody>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let handler = Arc::new(handler);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let handler = Arc::clone(&handler);
            let service = service_fn(move |request| {
                let response = handler(request);
                async move { Ok::<_, Infallible>(response.await) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(connection), service));
        }
    });
    port
}

/// Sends these bytes in response to the first request of every connection, then closes it.
pub(crate) async fn serve_raw(answer: Vec<u8>) -> u16 {
    serve_tcp(move |mut connection| {
        let answer = answer.clone();
        async move {
            let mut request = [0; 4096];
            let _count = connection.read(&mut request).await.unwrap();
            let _gone = connection.write_all(&answer).await;
        }
    })
    .await
}

/// Serves TCP with `handler`; returns the port.
pub(crate) async fn serve_tcp<F, R>(handler: F) -> u16
where
    F: Fn(TcpStream) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(handler(connection));
        }
    });
    port
}

pub(crate) fn full(bytes: impl Into<Bytes>) -> OriginBody {
    Full::new(bytes.into()).boxed_unsync()
}

/// Text that compresses like pages and does not repeat.
pub(crate) fn text(length: usize) -> Vec<u8> {
    let mut text = String::new();
    let mut state = 1_u64;
    while text.len() < length {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!(
            "<p class=\"item\">number {} of the list</p>\n",
            state >> 40
        ));
    }
    text.truncate(length);
    text.into_bytes()
}
