//! Uploads: complete transfer of bodies, and requests that must not be repeated.
mod repetition;

use std::{net::SocketAddr, sync::Arc};

use parking_lot::Mutex;

use anyhow::{Context, Result};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{Ending, RawClient, request},
    origin::{AnswerBody, Origin},
};
use tokio::{sync::watch, time::timeout};

use crate::{
    content::{noise, ok, whole},
    pair::{LIMIT, Pair, Setup},
};

fn site(address: SocketAddr) -> Setup {
    Setup::resolving(&[("site.test", address)])
}

/// Stores uploads and reports how many bytes have arrived.
#[derive(Clone)]
struct UploadStore {
    bytes: Arc<Mutex<Vec<u8>>>,
    length: watch::Sender<usize>,
}

impl UploadStore {
    fn new() -> Self {
        Self {
            bytes: Arc::default(),
            length: watch::Sender::new(0),
        }
    }

    async fn take(self, request: Request<Incoming>) -> Response<AnswerBody> {
        let method = request.method().clone();
        let mut body = request.into_body();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return Response::builder()
                    .status(StatusCode::BAD_REQUEST)
                    .body(whole("broken"))
                    .expect("valid");
            };
            if let Ok(data) = frame.into_data() {
                let mut bytes = self.bytes.lock();
                bytes.extend_from_slice(&data);
                self.length.send_replace(bytes.len());
            }
        }
        assert_eq!(method, Method::POST);
        ok("text/plain", self.length.borrow().to_string())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_upload_is_streamed_and_arrives_exactly() -> Result<()> {
    const SIZE: usize = 5_000_000;
    const PART: usize = 1_000_000;
    for framing in ["length", "chunked"] {
        let store = UploadStore::new();
        let taker = store.clone();
        let origin = Origin::start(None, |_| {}, move |request| taker.clone().take(request)).await?;
        let pair = Pair::start(site(origin.address())).await?;
        let body = noise(SIZE, 11);
        let mut client = RawClient::connect(pair.proxy()).await?;
        let length = SIZE.to_string();
        let field = if framing == "length" {
            ("Content-Length", length.as_str())
        } else {
            ("Transfer-Encoding", "chunked")
        };
        client
            .send(request("POST", "http://site.test/upload", &[field]))
            .await?;
        for (number, part) in body.chunks(PART).enumerate() {
            if framing == "chunked" {
                client.send(format!("{:x}\r\n", part.len())).await?;
            }
            client.send(part).await?;
            if framing == "chunked" {
                client.send("\r\n").await?;
            }
            // The next part is sent when most of this one has reached the origin: no component waits for the
            // end of the upload.
            let wanted = (number + 1) * PART - PART / 4;
            let mut length = store.length.subscribe();
            let arrived = timeout(LIMIT, length.wait_for(|length| *length >= wanted)).await;
            arrived.with_context(|| {
                format!("{framing}: part {number} of the upload did not reach the origin")
            })??;
        }
        if framing == "chunked" {
            client.send("0\r\n\r\n").await?;
        }
        let response = client.response().await?;
        assert_eq!(
            (response.status, response.text()),
            (200, SIZE.to_string()),
            "{framing}"
        );
        assert!(
            *store.bytes.lock() == body,
            "{framing}: the bytes differ from those sent"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_body_that_is_asked_for_is_sent() -> Result<()> {
    let store = UploadStore::new();
    let taker = store.clone();
    let origin = Origin::start(None, |_| {}, move |request| taker.clone().take(request)).await?;
    let pair = Pair::start(site(origin.address())).await?;
    let mut client = RawClient::connect(pair.proxy()).await?;
    let fields = [("Content-Length", "9"), ("Expect", "100-continue")];
    client
        .send(request("POST", "http://site.test/upload", &fields))
        .await?;
    assert_eq!(client.head().await?.status, 100);
    client.send("expected!").await?;
    let response = client.response().await?;
    assert_eq!((response.status, response.text().as_str()), (200, "9"));
    assert_eq!(*store.bytes.lock(), b"expected!");
    assert_eq!(origin.seen()[0].headers["expect"], "100-continue");
    Ok(())
}

#[tokio::test]
async fn a_response_before_the_end_of_the_upload_is_forwarded() -> Result<()> {
    let origin = Origin::start(
        None,
        |_| {},
        |_request: Request<Incoming>| async {
            Response::builder()
                .status(StatusCode::PAYLOAD_TOO_LARGE)
                .body(whole("too large"))
                .expect("valid")
        },
    )
    .await?;
    let pair = Pair::start(site(origin.address())).await?;
    let mut client = RawClient::connect(pair.proxy()).await?;
    client
        .send(request(
            "POST",
            "http://site.test/upload",
            &[("Content-Length", "100000000")],
        ))
        .await?;
    client.send(noise(50_000, 1)).await?;
    let response = client.response().await?;
    assert_eq!(
        (response.status, response.text().as_str(), response.ending),
        (413, "too large", Ending::Whole)
    );
    Ok(())
}

/// Reports how the handling of a request ended, also when the end of the connection cancels it.
struct CompletionReport(watch::Sender<Option<bool>>);

impl Drop for CompletionReport {
    fn drop(&mut self) {
        self.0
            .send_if_modified(|verdict| verdict.is_none() && verdict.replace(false).is_none());
    }
}

#[tokio::test]
async fn a_truncated_upload_is_not_completed() -> Result<()> {
    let begun = watch::Sender::new(false);
    let was_whole = watch::Sender::new(None);
    let (beginning, verdict) = (begun.clone(), was_whole.clone());
    let origin = Origin::start(
        None,
        |_| {},
        move |request: Request<Incoming>| {
            let (beginning, verdict) = (beginning.clone(), CompletionReport(verdict.clone()));
            async move {
                beginning.send_replace(true);
                let whole = request.into_body().collect().await.is_ok();
                verdict.0.send_replace(Some(whole));
                ok("text/plain", "done")
            }
        },
    )
    .await?;
    let pair = Pair::start(site(origin.address())).await?;
    let mut client = RawClient::connect(pair.proxy()).await?;
    client
        .send(request(
            "POST",
            "http://site.test/upload",
            &[("Transfer-Encoding", "chunked")],
        ))
        .await?;
    client.send("5\r\nhello\r\n").await?;
    let mut beginning = begun.subscribe();
    timeout(LIMIT, beginning.wait_for(|begun| *begun))
        .await
        .context("the upload did not reach the origin")??;
    drop(client);
    let mut verdict = was_whole.subscribe();
    let whole = timeout(LIMIT, verdict.wait_for(Option::is_some)).await;
    assert_eq!(
        *whole.context("the origin did not notice the end of the upload")??,
        Some(false),
        "the origin received a complete request"
    );
    Ok(())
}
