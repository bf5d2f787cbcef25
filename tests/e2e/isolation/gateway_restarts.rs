//! Downloads during which the gateway is killed and restarted.
mod download;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    authority::TestAuthority,
    client::{Ending, ask, get},
    origin::Origin,
    relay::{Direction, Relay},
};
use longhaul_types::BitRate;
use tokio::{net::TcpStream, sync::watch, time::timeout};

use self::download::{RANGE_START, kill_during_download, slow_origin};
use crate::{
    content::{noise, ok},
    https::Accelerated,
    pair::{LIMIT, Link, Pair, Setup},
};

/// Maximum time from the restart to the next byte. The aim is 3 s, as the printed medians show; the limit
/// allows for a busy machine.
const MAX_RESUME_TIME: Duration = Duration::from_secs(10);

/// Validators in the origin's responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    EntityTag,
    LastModified,
    Nothing,
}

const VERSIONS: [Version; 3] = [Version::EntityTag, Version::LastModified, Version::Nothing];

fn request(url: &str, host: &str) -> String {
    format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

async fn plain_downloads(kind: &str, link: Link) -> Result<Vec<Duration>> {
    let origin = slow_origin(None).await?;
    let mut pair = Pair::start(Setup::resolving(&[("files.test", origin.address())]).over(link)).await?;
    let mut times = Vec::new();
    for version in VERSIONS {
        let stream = TcpStream::connect(pair.proxy()).await?;
        let request = request(&format!("http://files.test/{kind}/{version:?}"), "files.test");
        let time = kill_during_download(&mut pair, stream, request, |_| Ok(())).await;
        let time = time.with_context(|| format!("{kind}, {version:?}"))?;
        println!(
            "{kind}, {version:?}: the next byte {:.2} s after the restart",
            time.as_secs_f64()
        );
        assert!(time < MAX_RESUME_TIME, "{version:?}: {time:?}");
        times.push(time);
    }
    let status = pair.status().await?;
    assert_eq!(status["truncated"], 0, "{status:#}");
    Ok(times)
}

/// The agent only receives, with pauses: it has no unacknowledged data that would reveal the restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_from_a_slow_origin_resumes_after_a_restart() -> Result<()> {
    let times = plain_downloads("slow", Link::Direct).await?;
    println!("median {:.2} s", median(times).as_secs_f64());
    Ok(())
}

/// The hop is slow, so that the gateway always has data to send.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_over_a_slow_hop_resumes_after_a_restart() -> Result<()> {
    let times = plain_downloads("fast", Link::Paced(BitRate::kbps(2000))).await?;
    println!("median {:.2} s", median(times).as_secs_f64());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_over_accelerated_https_resumes_after_a_restart() -> Result<()> {
    let authority = TestAuthority::new()?;
    let origin = slow_origin(Some(authority.server(&["files.test"])?)).await?;
    let mut accelerated =
        Accelerated::start(&[("files.test", origin.address())], &authority, "files.test").await?;
    let trusted = accelerated.exported_authority().await?;
    let mut times = Vec::new();
    for version in VERSIONS {
        let stream = accelerated
            .connect("files.test", &trusted, &[b"http/1.1"])
            .await?;
        let request = request(&format!("/slow/{version:?}"), "files.test");
        let time = kill_during_download(&mut accelerated.pair, stream, request, |_| Ok(())).await;
        times.push(time.with_context(|| format!("{version:?}"))?);
    }
    println!(
        "https: {times:.2?}, median {:.2} s",
        median(times.clone()).as_secs_f64()
    );
    assert!(times.iter().all(|time| *time < MAX_RESUME_TIME), "{times:?}");
    Ok(())
}

/// A range request: the resumed offset is relative to the start of the range.
#[tokio::test(flavor = "multi_thread")]
async fn a_range_request_resumes_after_a_restart() -> Result<()> {
    let origin = slow_origin(None).await?;
    let mut pair = Pair::start(Setup::resolving(&[("files.test", origin.address())])).await?;
    for version in VERSIONS {
        let stream = TcpStream::connect(pair.proxy()).await?;
        let url = format!("http://files.test/slow/{version:?}");
        let request = format!(
            "GET {url} HTTP/1.1\r\nHost: files.test\r\nRange: bytes={RANGE_START}-\r\nConnection: close\r\n\r\n"
        );
        let time = kill_during_download(&mut pair, stream, request, |_| Ok(())).await;
        let time = time.with_context(|| format!("{version:?}"))?;
        println!(
            "a range, {version:?}: the next byte {:.2} s after the restart",
            time.as_secs_f64()
        );
        assert!(time < MAX_RESUME_TIME, "{version:?}: {time:?}");
    }
    Ok(())
}

/// The gateway loses the key of RESET datagrams.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_resumes_after_a_restart_without_the_reset_key() -> Result<()> {
    let origin = slow_origin(None).await?;
    let mut pair = Pair::start(Setup::resolving(&[("files.test", origin.address())])).await?;
    let stream = TcpStream::connect(pair.proxy()).await?;
    let request = request("http://files.test/slow/EntityTag", "files.test");
    let lose = |pair: &Pair| Ok(std::fs::remove_file(pair.folder().join("gateway/reset.key"))?);
    let time = kill_during_download(&mut pair, stream, request, lose).await?;
    println!("without its reset key: {:.2} s", time.as_secs_f64());
    assert!(time < MAX_RESUME_TIME, "{time:?}");
    Ok(())
}

/// A request without a response so far is repeated, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_response_is_repeated_after_a_restart() -> Result<()> {
    let (asked, mut is_asked) = watch::channel(0_usize);
    let asked = Arc::new(asked);
    let origin = Origin::start(
        None,
        |_| {},
        move |_request: Request<Incoming>| {
            let asked = Arc::clone(&asked);
            async move {
                let before = *asked.borrow();
                asked.send_modify(|asked| *asked += 1);
                if before == 0 {
                    std::future::pending::<()>().await;
                }
                ok("text/plain", "at last")
            }
        },
    )
    .await?;
    let mut pair = Pair::start(Setup::resolving(&[("late.test", origin.address())])).await?;
    let proxy = pair.proxy();
    let answered = async { Ok((ask(proxy, get("http://late.test/", &[])).await?, Instant::now())) };
    let restart = async {
        timeout(LIMIT, is_asked.wait_for(|asked| *asked == 1)).await??;
        pair.kill_gateway().await?;
        pair.start_gateway().await?;
        anyhow::Ok(Instant::now())
    };
    let ((response, at), restarted) = tokio::try_join!(answered, restart)?;
    assert_eq!((response.status, response.text().as_str()), (200, "at last"));
    let time = at.saturating_duration_since(restarted);
    println!(
        "the response arrived {:.2} s after the restart",
        time.as_secs_f64()
    );
    assert!(time < MAX_RESUME_TIME, "{time:?}");
    Ok(())
}

/// Objects that were promised or partly pushed before the restart are fetched again.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_load_with_pushes_completes_after_a_restart() -> Result<()> {
    const OBJECTS: usize = 8;
    const OBJECT: usize = 60_000;
    let origin = Origin::start(
        None,
        |_| {},
        |request: Request<Incoming>| {
            let path = request.uri().path().trim_start_matches('/').to_owned();
            let number = path.split('.').next().and_then(|name| name.parse::<u64>().ok());
            std::future::ready(match number {
                Some(number) => ok("text/css", noise(OBJECT, number)),
                None => {
                    let links: String = (0..OBJECTS)
                        .map(|number| format!("<link rel=stylesheet href=\"/{number}.css\">\n"))
                        .collect();
                    ok(
                        "text/html",
                        format!("<!doctype html><title>Page</title>\n{links}"),
                    )
                }
            })
        },
    )
    .await?;
    let link = Link::Paced(BitRate::kbps(1500));
    let mut pair = Pair::start(Setup::resolving(&[("site.test", origin.address())]).over(link)).await?;
    let page = ask(pair.proxy(), get("http://site.test/", &[("Accept", "text/html")])).await?;
    assert_eq!((page.status, page.ending), (200, Ending::Whole));
    let (proxy, relay) = (pair.proxy(), pair.take_relay()?);
    let objects = (0..OBJECTS).map(|number| async move {
        let url = format!("http://site.test/{number}.css");
        let fields = [("Accept", "text/css,*/*;q=0.1"), ("Referer", "http://site.test/")];
        let answer = ask(proxy, get(&url, &fields)).await.with_context(|| url)?;
        let expected = noise(OBJECT, u64::try_from(number)?);
        ensure!(
            (answer.status, answer.ending) == (200, Ending::Whole) && answer.body == expected,
            "{number}: {} {:?}, {} bytes",
            answer.status,
            answer.ending,
            answer.body.len()
        );
        anyhow::Ok(Instant::now())
    });
    let restart = restart_after_bytes(&mut pair, &relay, 150_000);
    let (times, restarted) = tokio::try_join!(futures_util::future::try_join_all(objects), restart)?;
    let last = times.into_iter().max().context("objects")?;
    let time = last.saturating_duration_since(restarted);
    println!(
        "the page is complete {:.2} s after the restart",
        time.as_secs_f64()
    );
    // The link needs 2.6 s for 480 kB.
    assert!(time < MAX_RESUME_TIME + Duration::from_secs(5), "{time:?}");
    let status = pair.status().await?;
    assert_eq!(status["truncated"], 0, "{status:#}");
    Ok(())
}

async fn restart_after_bytes(pair: &mut Pair, relay: &Relay, bytes: u64) -> Result<Instant> {
    relay.has_passed(Direction::Down, bytes, LIMIT).await?;
    pair.kill_gateway().await?;
    pair.start_gateway().await?;
    Ok(Instant::now())
}
