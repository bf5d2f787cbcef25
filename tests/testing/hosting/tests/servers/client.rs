//! Test content, and requests for it.
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Response, StatusCode, header, request};
use longhaul_hosting::{Content, Hosting, HostingOptions, Listen, Scheme, TestAuthority};
use longhaul_raw_client::{RawClient, RawResponse};
use tokio::{io::AsyncReadExt as _, time::timeout};

/// Much longer than any operation takes here, so that a hang becomes a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds, at most [`PATIENCE`]. `what` names the condition in the failure.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = timeout(PATIENCE, async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    });
    assert!(waiting.await.is_ok(), "{what}: not within {PATIENCE:?}");
}

/// A small site on two hosts. `/N` is N bytes; `/text` is text with validators; other paths are special
/// cases.
pub(crate) struct Pages;

pub(crate) const TEXT: &str = "All work and no play makes Jack a dull boy. ";
pub(crate) const DATE: &str = "Wed, 21 Oct 2015 07:28:00 GMT";

impl Content for Pages {
    fn answer(&self, request: &request::Parts, scheme: Scheme) -> Response<Bytes> {
        assert_eq!(request.uri.scheme_str(), Some(scheme.as_str()));
        let host = request.uri.host().unwrap_or_default();
        let response = Response::builder()
            .header("x-host", host)
            .header("x-scheme", scheme.as_str());
        let path = request.uri.path().trim_start_matches('/');
        let built = match path {
            "" => response.body(Bytes::from_static(b"root")),
            "text" => response
                .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
                .header(header::ETAG, "\"v1\"")
                .header(header::LAST_MODIFIED, DATE)
                .header(header::CACHE_CONTROL, "max-age=60")
                .body(Bytes::from(TEXT.repeat(100))),
            "recorded" => response
                .header(header::DATE, DATE)
                .header(header::EXPIRES, "Wed, 21 Oct 2015 08:28:00 GMT")
                .header(header::CONNECTION, "keep-alive, X-Hop")
                .header("keep-alive", "timeout=5")
                .header("x-hop", "1")
                .header(header::TRANSFER_ENCODING, "chunked")
                .header(header::CONTENT_LENGTH, "7")
                .header(header::ALT_SVC, "h3=\":443\"")
                .header(header::SET_COOKIE, "a=1")
                .header(header::SET_COOKIE, "b=2")
                .body(Bytes::from_static(b"as recorded")),
            "nothing" => response
                .status(StatusCode::NO_CONTENT)
                .header(header::CONTENT_LENGTH, "5")
                .body(Bytes::from_static(b"stray")),
            "upgrade" => response
                .status(StatusCode::SWITCHING_PROTOCOLS)
                .body(Bytes::new()),
            "head-only" => response.header(header::CONTENT_LENGTH, "1234").body(Bytes::new()),
            number => match number.parse() {
                Ok(length) => response.body(Bytes::from(vec![b'x'; length])),
                Err(_) => response.status(StatusCode::NOT_FOUND).body(Bytes::new()),
            },
        };
        built.unwrap()
    }

    fn hosts(&self) -> Vec<String> {
        vec!["a.example".to_owned(), "B.example".to_owned()]
    }
}

pub(crate) fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Serves [`Pages`] with and without TLS.
pub(crate) async fn serve(authority: &TestAuthority, options: HostingOptions) -> Result<Hosting> {
    let listen = Listen {
        plain: vec![loopback()],
        tls: vec![loopback()],
    };
    Ok(Hosting::start(Arc::new(Pages), &listen, authority, options).await?)
}

pub(crate) struct Server {
    pub(crate) hosting: Hosting,
    pub(crate) authority: TestAuthority,
}

pub(crate) async fn server(options: HostingOptions) -> Result<Server> {
    let authority = TestAuthority::new()?;
    let hosting = serve(&authority, options).await?;
    Ok(Server { hosting, authority })
}

/// Sends a request on an open connection, and returns its response.
pub(crate) async fn fetch(client: &mut RawClient, path: &str) -> Result<RawResponse> {
    client.send(get(path)).await?;
    client.response().await
}

/// Waits for the server's FIN; no bytes may come before it, and no reset in its place.
pub(crate) async fn ended(mut client: RawClient) -> Result<()> {
    let (reader, _) = client.halves();
    let mut rest = Vec::new();
    timeout(PATIENCE, reader.read_to_end(&mut rest))
        .await
        .context("the connection was not closed in time")??;
    assert_eq!(String::from_utf8_lossy(&rest), "");
    assert!(client.is_closed().await?, "bytes after the last response");
    Ok(())
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n")
}
