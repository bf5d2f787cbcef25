//! The hop is away: what was asked for is fetched, waits, and arrives; no origin is asked twice. `make away-long` takes
//! the hop away for five minutes.
use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Request, Response, header};
use hyper::body::Incoming;
use longhaul_chromium::{Browser, BrowserOptions};
use longhaul_tests::{
    authority::TestAuthority,
    client::{RawResponse, ask, get},
    origin::{AnswerBody, Origin},
    relay::{Direction, Passage, Relay},
};
use longhaul_types::BitRate;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
    time::{Instant, timeout},
};

use crate::{
    content::{noise, ok, pieces},
    https::{Accelerated, LOAD_LIMIT},
    pair::{LIMIT, Link, Pair, Setup},
};

/// More than all buffers between origin and hop hold together (the send buffer of a session alone is 8 MiB), and what
/// passes before the outage is noticed.
const SIZE: usize = 32 * 1024 * 1024;
const PIECE: usize = 64 * 1024;
/// Bytes of the download after which the hop goes away.
const BYTES_BEFORE: u64 = 1_000_000;
const SEED: u64 = 34;
const FILE: &str = "http://files.test/file";

/// An origin with a file that nobody may store, in a response of its own for each request.
struct FileOrigin {
    origin: Origin,
    /// Bytes of the file that the gateway has taken, over all requests.
    taken: watch::Receiver<usize>,
}

impl FileOrigin {
    async fn start() -> Result<Self> {
        let (taking, taken) = watch::channel(0);
        let origin = Origin::start(
            None,
            |_| {},
            move |request: Request<Incoming>| {
                let taking = taking.clone();
                async move {
                    match request.uri().path() {
                        "/file" => file(taking),
                        _ => ok("text/html", "<!doctype html><title>Files</title><p>A file"),
                    }
                }
            },
        )
        .await?;
        Ok(Self { origin, taken })
    }

    fn requests(&self) -> usize {
        let seen = self.origin.seen();
        seen.iter().filter(|seen| seen.path == "/file").count()
    }

    /// Waits until the gateway has taken this many bytes of the file.
    async fn has_sent(&self, bytes: usize) -> Result<()> {
        let mut taken = self.taken.clone();
        let sent = timeout(LIMIT, taken.wait_for(|taken| *taken >= bytes)).await;
        let so_far = *self.taken.borrow();
        sent.with_context(|| format!("the gateway took only {so_far} bytes"))??;
        Ok(())
    }
}

fn file(taking: watch::Sender<usize>) -> Response<AnswerBody> {
    let (sender, body) = pieces();
    tokio::spawn(async move {
        let file = Bytes::from(noise(SIZE, SEED));
        for start in (0..SIZE).step_by(PIECE) {
            let piece = file.slice(start..(start + PIECE).min(SIZE));
            let length = piece.len();
            if sender.send(Ok(piece)).await.is_err() {
                return;
            }
            taking.send_modify(|taken| *taken += length);
        }
    });
    Response::builder()
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_LENGTH, SIZE)
        .header(header::CACHE_CONTROL, "no-store")
        .body(body)
        .expect("a valid response")
}

fn set(relay: &Relay, passage: Passage) {
    relay.set(Direction::Down, passage);
    relay.set(Direction::Up, passage);
}

/// Takes the hop away in the midst of a download, until the gateway has the whole file and this time has passed.
async fn away_in_a_download(pair: &Pair, origin: &FileOrigin, least: Duration) -> Result<Duration> {
    let relay = pair.relay();
    relay.has_passed(Direction::Down, BYTES_BEFORE, LIMIT).await?;
    set(relay, Passage::Blocked);
    let began = Instant::now();
    origin.has_sent(SIZE).await?;
    pair.status_until(|status| status["state"] == "stalled").await?;
    // Only the end of this time ends the wait.
    let waited = timeout(
        least.saturating_sub(began.elapsed()),
        std::future::pending::<()>(),
    );
    ensure!(waited.await.is_err());
    set(relay, Passage::Open);
    Ok(began.elapsed())
}

/// Downloads the file, however long it takes; returns the response's head and body. HTTP/1.0 has no chunks: on a busy
/// machine, the agent may answer before it knows the length.
async fn download(proxy: SocketAddr) -> Result<(String, Vec<u8>)> {
    let mut stream = TcpStream::connect(proxy).await?;
    stream
        .write_all(
            get(FILE, &[])
                .replace(" HTTP/1.1\r\n", " HTTP/1.0\r\n")
                .as_bytes(),
        )
        .await?;
    let mut response = Vec::with_capacity(SIZE + 4096);
    stream.read_to_end(&mut response).await?;
    let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let body = response.split_off(end.context("a head")? + 4);
    Ok((String::from_utf8_lossy(&response).into_owned(), body))
}

/// Time for which the hop stays away at least.
fn least_time() -> Duration {
    let seconds = std::env::var("LONGHAUL_AWAY_SECONDS").unwrap_or_default();
    Duration::from_secs(seconds.parse().unwrap_or(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_goes_on_fetching_while_the_hop_is_away() -> Result<()> {
    let origin = FileOrigin::start().await?;
    let setup = Setup::resolving(&[("files.test", origin.origin.address())]);
    let pair = Pair::start(setup.over(Link::Paced(BitRate::kbps(100_000)))).await?;
    let away = away_in_a_download(&pair, &origin, least_time());
    let ((head, body), away) = tokio::try_join!(download(pair.proxy()), away)?;
    println!("the hop was away for {:.1} s", away.as_secs_f64());
    assert!(head.starts_with("HTTP/1.0 200 "), "{head}");
    assert!(
        body == noise(SIZE, SEED),
        "{} bytes that are not the file",
        body.len()
    );
    assert_eq!(origin.requests(), 1, "requests at the origin");
    let status = pair.status().await?;
    println!("sessions {}, repeated {}", status["sessions"], status["repeated"]);
    assert_eq!(status["sessions"], 1, "{status:#}");
    assert_eq!(
        (&status["truncated"], &status["repeated"]),
        (&0.into(), &0.into()),
        "{status:#}"
    );
    Ok(())
}

/// A navigation, as browsers send it over plain http.
async fn navigate(pair: &Pair, path: &str, fields: &[(&str, &str)]) -> Result<RawResponse> {
    let mut all = vec![("Upgrade-Insecure-Requests", "1"), ("Accept", "text/html")];
    all.extend(fields);
    ask(pair.proxy(), get(&format!("http://files.test{path}"), &all)).await
}

fn shown_page(response: &RawResponse) {
    assert_eq!(response.status, 503, "{response:?}");
    assert!(response.text().contains("The link is away"), "{response:?}");
    assert_eq!(response.field("cache-control"), Some("no-store"));
    assert_eq!(response.field("refresh"), Some("2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_waits_for_the_hop_gets_the_answer_to_its_first_request() -> Result<()> {
    let (asked, mut asking) = watch::channel(false);
    let (release, released) = watch::channel(false);
    let answer = move |request: Request<Incoming>| {
        let (asked, mut released) = (asked.clone(), released.clone());
        async move {
            let path = request.uri().path().to_owned();
            if path == "/slow" {
                asked.send_replace(true);
                let _gone = released.wait_for(|released| *released).await;
            }
            let cookie = request.headers().get(header::COOKIE);
            ok("text/html", format!("<!doctype html><p>{path} {cookie:?}"))
        }
    };
    let origin = Origin::start(None, |_| {}, answer).await?;
    let mut setup = Setup::resolving(&[("files.test", origin.address())]);
    setup
        .agent_arguments
        .extend(["--away-page-after", "1s"].map(str::to_owned));
    let pair = Pair::start(setup.over(Link::Relayed)).await?;
    assert_eq!(pair.get("http://files.test/").await?.status, 200);

    // One page is asked for before the hop goes away, the others afterwards.
    let blocked = async {
        asking.wait_for(|asked| *asked).await?;
        set(pair.relay(), Passage::Blocked);
        Ok(())
    };
    let (early, ()) = tokio::try_join!(navigate(&pair, "/slow", &[]), blocked)?;
    shown_page(&early);
    shown_page(&navigate(&pair, "/late", &[]).await?);
    shown_page(&navigate(&pair, "/late", &[("Cookie", "a=1")]).await?);
    let status = pair.status().await?;
    assert_eq!(status["waiting"].as_array().map(Vec::len), Some(3), "{status:#}");
    // The answer waits at the gateway.
    release.send_replace(true);
    let again = |path| navigate(&pair, path, &[("Referer", "http://files.test/")]);
    let began = Instant::now();
    while began.elapsed() < least_time() {
        let cookie = navigate(&pair, "/late", &[("Cookie", "a=1")]);
        let (slow, late, own) = tokio::try_join!(again("/slow"), again("/late"), cookie)?;
        [slow, late, own].iter().for_each(shown_page);
    }
    println!("the pages waited for {:.1} s", began.elapsed().as_secs_f64());
    set(pair.relay(), Passage::Open);

    let slow = again("/slow").await?;
    assert_eq!(
        (slow.status, slow.text().contains("/slow None")),
        (200, true),
        "{slow:?}"
    );
    let late = again("/late").await?;
    assert_eq!(
        (late.status, late.text().contains("/late None")),
        (200, true),
        "{late:?}"
    );
    let own = navigate(&pair, "/late", &[("Cookie", "a=1")]).await?;
    assert!(own.text().contains("a=1"), "{own:?}");
    let status = pair.status().await?;
    assert_eq!(status["waiting"].as_array().map(Vec::len), Some(0), "{status:#}");
    let paths: Vec<String> = origin.seen().into_iter().map(|seen| seen.path).collect();
    let count = |path: &str| paths.iter().filter(|seen| *seen == path).count();
    assert_eq!((count("/slow"), count("/late")), (1, 2), "{paths:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_page_is_loaded_although_its_tab_is_closed() -> Result<()> {
    let answer = |request: Request<Incoming>| async move { ok("text/html", request.uri().path().to_owned()) };
    let origin = Origin::start(None, |_| {}, answer).await?;
    let mut setup = Setup::resolving(&[("files.test", origin.address())]);
    let flags = ["--away-page-after", "1s", "--away-queue", "yes"];
    setup.agent_arguments.extend(flags.map(str::to_owned));
    let pair = Pair::start(setup.over(Link::Relayed)).await?;
    assert_eq!(pair.get("http://files.test/").await?.status, 200);
    set(pair.relay(), Passage::Blocked);
    shown_page(&navigate(&pair, "/later", &[]).await?);
    set(pair.relay(), Passage::Open);
    let status = pair
        .status_until(|status| status["waiting"][0]["ready"] == true)
        .await?;
    assert_eq!(
        status["waiting"][0]["url"], "http://files.test/later",
        "{status:#}"
    );
    let asked = || origin.seen().iter().filter(|seen| seen.path == "/later").count();
    assert_eq!(asked(), 1, "asked for without a browser");
    let opened = navigate(&pair, "/later", &[]).await?;
    assert_eq!((opened.status, opened.text().as_str()), (200, "/later"));
    assert_eq!(asked(), 1, "answered by what was waiting");
    Ok(())
}

/// The page of the origin, whose script asks for [`SEEN`] where it runs.
const PAGE: &str = "<!doctype html><title>The page</title><script>fetch('/seen')</script>";
const SEEN: &str = "/seen";

/// Settings of a hop that can be taken away, and of a page that says so soon.
fn short(setup: &mut Setup) {
    setup.link = Link::Relayed;
    let flags = ["--away-page-after", "1s"];
    setup.agent_arguments.extend(flags.map(str::to_owned));
}

async fn page_and_seen(request: Request<Incoming>) -> Response<AnswerBody> {
    match request.uri().path() {
        "/page" => ok("text/html", PAGE),
        _ => ok("text/plain", "seen"),
    }
}

/// Opens a page while the hop is away; the browser shows it when the hop is back, without anything that its user does.
async fn completes_in_a_browser(pair: &Pair, mut browser: Browser, origin: &Origin, url: &str) -> Result<()> {
    let title = browser.evaluate(url, "document.title", LOAD_LIMIT).await?;
    assert_eq!(title, "The page", "before the hop goes away");
    let count = |path: &str| origin.seen().iter().filter(|seen| seen.path == path).count();
    set(pair.relay(), Passage::Blocked);
    browser.open(&format!("{url}?later")).await?;
    let waits = |status: &Value| status["waiting"].as_array().is_some_and(|pages| pages.len() == 1);
    pair.status_until(waits).await?;
    set(pair.relay(), Passage::Open);
    let shown = async {
        while count(SEEN) < 2 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, shown)
        .await
        .context("the browser did not show the page")?;
    assert_eq!(count("/page?later"), 1, "requests for the page");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn chromium_shows_a_page_of_http_when_the_hop_is_back() -> Result<()> {
    let origin = Origin::start(None, |_| {}, page_and_seen).await?;
    let mut setup = Setup::resolving(&[("files.test", origin.address())]);
    short(&mut setup);
    let pair = Pair::start(setup).await?;
    let browser = Browser::start(&BrowserOptions::behind(pair.proxy())).await?;
    completes_in_a_browser(&pair, browser, &origin, "http://files.test/page").await
}

#[tokio::test(flavor = "multi_thread")]
async fn chromium_shows_a_page_of_accelerated_https_when_the_hop_is_back() -> Result<()> {
    let authority = TestAuthority::new()?;
    let origin = Origin::start(Some(authority.server(&["files.test"])?), |_| {}, page_and_seen).await?;
    let names = [("files.test", origin.address())];
    let site = Accelerated::start_with(&names, &authority, "files.test", short).await?;
    let browser = site.browser(&[]).await?;
    completes_in_a_browser(&site.pair, browser, &origin, "https://files.test/page").await
}
