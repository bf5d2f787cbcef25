//! Uploads: requests that must not be repeated, requests that may travel in early data, and complete transfer
//! of bodies.
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use parking_lot::Mutex;

use anyhow::{Context, Result};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{Ending, RawClient, ask, get, request},
    origin::{AnswerBody, Origin, Seen},
    relay::{Direction, Passage},
};
use tokio::{sync::watch, time::timeout};

use crate::{
    content::{noise, ok, whole},
    pair::{LIMIT, Link, Pair, Setup, control, status_until},
};

fn site(address: SocketAddr) -> Setup {
    Setup::resolving(&[("site.test", address)])
}

/// An origin that counts requests and does not answer while `deaf` is set.
#[derive(Clone)]
struct UnresponsiveOrigin {
    deaf: Arc<AtomicBool>,
    got: watch::Sender<usize>,
}

impl UnresponsiveOrigin {
    fn new() -> Self {
        Self {
            deaf: Arc::new(AtomicBool::new(true)),
            got: watch::Sender::new(0),
        }
    }

    async fn origin(&self) -> Result<Origin> {
        let state = self.clone();
        Origin::start(
            None,
            |_| {},
            move |request: Request<Incoming>| {
                let state = state.clone();
                async move {
                    let _whole = request.into_body().collect().await;
                    state.got.send_modify(|got| *got += 1);
                    if state.deaf.load(SeqCst) {
                        std::future::pending::<()>().await;
                    }
                    ok("text/plain", "done")
                }
            },
        )
        .await
    }

    async fn wait_for_requests(&self, requests: usize) -> Result<()> {
        let mut got = self.got.subscribe();
        timeout(LIMIT, got.wait_for(|got| *got >= requests))
            .await
            .context("no request reached the origin")??;
        Ok(())
    }
}

fn count(origin: &Origin, method: &str) -> usize {
    origin.seen().iter().filter(|seen| seen.method == method).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_lost_response_a_get_is_repeated_and_a_post_is_not() -> Result<()> {
    let state = UnresponsiveOrigin::new();
    let origin = state.origin().await?;
    let mut pair = Pair::start(site(origin.address())).await?;
    let mut poster = RawClient::connect(pair.proxy()).await?;
    poster
        .send(request("POST", "http://site.test/order", &[("Content-Length", "5")]) + "1 egg")
        .await?;
    let mut getter = RawClient::connect(pair.proxy()).await?;
    getter.send(get("http://site.test/page", &[])).await?;
    state.wait_for_requests(2).await?;

    pair.kill_gateway().await?;
    state.deaf.store(false, SeqCst);
    pair.start_gateway().await?;

    let got = getter.response().await?;
    assert_eq!((got.status, got.text().as_str()), (200, "done"), "{got:?}");
    let lost = poster.response().await?;
    println!("the lost POST:\n{}", lost.text());
    assert_eq!(lost.status, 502, "{lost:?}");
    assert!(
        lost.text().contains("may or may not have received it"),
        "{}",
        lost.text()
    );
    assert!(lost.text().contains("Check whether"), "{}", lost.text());

    // Both programs run again; a stored POST would have been repeated by now.
    assert_eq!(pair.get("http://site.test/after").await?.status, 200);
    assert_eq!(count(&origin, "POST"), 1, "the POST reached the origin once");
    assert_eq!(count(&origin, "GET"), 3, "the GET was repeated");
    let posted = ask(
        pair.proxy(),
        request("POST", "http://site.test/order", &[("Content-Length", "0")]),
    )
    .await?;
    assert_eq!(posted.status, 200, "a new POST succeeds");
    assert_eq!(count(&origin, "POST"), 2);
    Ok(())
}

fn early(seen: &Seen) -> bool {
    seen.headers.get("early-data").is_some_and(|value| value == "1")
}

#[tokio::test(flavor = "multi_thread")]
async fn only_safe_requests_travel_in_early_data() -> Result<()> {
    let got = watch::Sender::new(0);
    let counter = got.clone();
    let origin = Origin::start(
        None,
        |_| {},
        move |request: Request<Incoming>| {
            let counter = counter.clone();
            async move {
                let is_early = request.headers().contains_key("early-data");
                let mut response = ok("text/plain", "done");
                if request.uri().path() == "/unwilling" && is_early {
                    *response.status_mut() = StatusCode::TOO_EARLY;
                }
                counter.send_modify(|got| *got += 1);
                response
            }
        },
    )
    .await?;
    let pair = Pair::start(site(origin.address()).over(Link::Relayed)).await?;
    let relay = pair.relay();
    // The agent has connected before and starts again while the gateway's datagrams are blocked, so all its
    // requests at the origin arrived in early data. (A token of an invite can be older than the gateway's
    // start and is then not valid for early data.)
    let agent = pair.second_agent("early").await?;
    status_until(control(&pair.folder().join("early"))?, |status| {
        status["state"] == "open"
    })
    .await?;
    agent.end("TERM", LIMIT).await?;
    relay.set(Direction::Down, Passage::Blocked);
    let agent = pair.second_agent("early").await?;
    let mut clients = Vec::new();
    for (method, path, field) in [
        ("POST", "/post", ("Content-Length", "0")),
        ("DELETE", "/delete", ("X-Any", "1")),
        ("GET", "/secret", ("Authorization", "Basic dTpw")),
        ("GET", "/unwilling", ("X-Any", "1")),
        ("GET", "/page", ("X-Any", "1")),
    ] {
        let mut client = RawClient::connect(agent.address()).await?;
        client
            .send(request(method, &format!("http://site.test{path}"), &[field]))
            .await?;
        clients.push((path, client));
    }
    let mut arrived = got.subscribe();
    timeout(LIMIT, arrived.wait_for(|got| *got >= 2))
        .await
        .context("no early request reached the origin")??;
    let mut first: Vec<_> = origin
        .seen()
        .into_iter()
        .map(|seen| (seen.path.clone(), early(&seen)))
        .collect();
    first.sort();
    assert_eq!(
        first,
        [("/page".to_owned(), true), ("/unwilling".to_owned(), true)]
    );

    relay.set(Direction::Down, Passage::Open);
    for (path, mut client) in clients {
        let response = client.response().await?;
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, "done"),
            "{path}: {response:?}"
        );
    }
    let seen = origin.seen();
    for path in ["/post", "/delete", "/secret"] {
        let of_path: Vec<bool> = seen.iter().filter(|seen| seen.path == path).map(early).collect();
        assert_eq!(of_path, [false], "{path}");
    }
    let unwilling: Vec<bool> = seen
        .iter()
        .filter(|seen| seen.path == "/unwilling")
        .map(early)
        .collect();
    assert_eq!(
        unwilling,
        [true, false],
        "the gateway repeats a refused request without early data"
    );
    let page: Vec<bool> = seen
        .iter()
        .filter(|seen| seen.path == "/page")
        .map(early)
        .collect();
    assert_eq!(page, [true], "once");
    Ok(())
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
async fn the_agent_answers_expect_100_continue() -> Result<()> {
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
    assert!(
        origin.seen()[0].headers.get("expect").is_none(),
        "the agent does not forward `Expect`"
    );
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
