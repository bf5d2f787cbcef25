//! Savings: the agent's numbers agree with the bytes of the origin's sockets and of the hop, and their causes
//! are right.
use std::{
    io::Write as _,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use anyhow::{Context as _, Result};
use flate2::{Compression, write::GzEncoder};
use longhaul_tests::{client::RawClient, origin::Origin};
use longhaul_types::BitRate;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{answer, body, images, origin, page, visitor::Visitor};
use crate::{
    content::{noise, prose},
    contracts::assert_savings,
    pair::{Link, Pair, Setup},
};

const PAGE: &str = "http://site.test/";
/// Maximum number of visits until the gateway knows that the agent holds a page.
const MAX_VISITS: u32 = 50;

/// A TCP relay before an origin, which counts the bytes that the origin sends.
pub(super) struct CountingRelay {
    address: SocketAddr,
    pub(super) sent: Arc<AtomicU64>,
}

impl CountingRelay {
    pub(super) async fn start(origin: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let sent = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&sent);
        tokio::spawn(async move {
            while let Ok((gateway, _)) = listener.accept().await {
                tokio::spawn(relay(gateway, origin, Arc::clone(&count)));
            }
        });
        Ok(Self { address, sent })
    }

    /// Options of a pair that resolves `site.test` to the origin.
    pub(super) fn setup(&self) -> Setup {
        Setup::resolving(&[("site.test", self.address)])
    }

    /// The same on a known link: the measurement of an unknown one costs up to 41 kB once.
    fn setup_on_known_link(&self) -> Setup {
        on_known_link(self.setup())
    }
}

fn on_known_link(mut setup: Setup) -> Setup {
    let link = ["--link", "lan-fast"].map(str::to_owned);
    setup.agent_arguments.extend(link);
    setup
}

async fn relay(mut gateway: TcpStream, origin: SocketAddr, count: Arc<AtomicU64>) -> Result<()> {
    let mut origin = TcpStream::connect(origin).await?;
    let (mut from_origin, mut to_origin) = origin.split();
    let (mut from_gateway, mut to_gateway) = gateway.split();
    let up = async {
        tokio::io::copy(&mut from_gateway, &mut to_origin).await?;
        to_origin.shutdown().await
    };
    let down = async {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = from_origin.read(&mut buffer).await?;
            if read == 0 {
                return to_gateway.shutdown().await;
            }
            count.fetch_add(read as u64, Relaxed);
            to_gateway.write_all(&buffer[..read]).await?;
        }
    };
    tokio::try_join!(up, down)?;
    Ok(())
}

/// The agent's numbers and the origin's bytes at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Balance {
    /// Bytes that the origin's sockets sent.
    origin: i64,
    /// Bytes of the datagrams towards the agent.
    hop: i64,
    saved: i64,
    coding: i64,
    base: i64,
    pictures: i64,
    cache: i64,
    unchanged: i64,
}

impl Balance {
    fn of(status: &Value, relay: &CountingRelay) -> Self {
        let savings = &status["savings"];
        assert_savings(savings);
        assert_eq!(savings["reported"], true, "{savings}");
        let number = |value: &Value| value.as_i64().expect("an integer");
        let cause = |cause: &str| number(&savings["by_cause"][cause]);
        Self {
            origin: i64::try_from(relay.sent.load(Relaxed)).expect("a small number"),
            hop: number(&status["bytes_down"]),
            saved: number(&savings["bytes"]),
            coding: cause("coding"),
            base: cause("base"),
            pictures: cause("pictures"),
            cache: cause("cache"),
            unchanged: cause("unchanged"),
        }
    }

    /// True if the saved bytes are within 1 % of what the origin sent, less the hop's bytes, plus `cached`.
    fn is_right(&self, cached: i64) -> bool {
        let expected = self.origin - self.hop + cached;
        (self.saved - expected).abs() <= expected.abs() / 100
    }
}

/// Waits until the agent has the gateway's last report, and the numbers are right. `cached` returns the part of
/// the savings that comes from the agent's cache.
async fn balance(pair: &Pair, relay: &CountingRelay, cached: impl Fn(&Balance) -> i64) -> Result<Balance> {
    let right = |balance: &Balance| balance.is_right(cached(balance));
    let status = pair
        .status_until(|status| {
            let balance = Balance::of(status, relay);
            right(&balance)
        })
        .await
        .with_context(|| format!("origin's sockets sent {:?} B", relay.sent))?;
    let balance = Balance::of(&status, relay);
    println!("{balance:?}");
    Ok(balance)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

const NAMES: [&str; 4] = ["a.css", "b.js", "c.gif", "d.gif"];

fn document() -> Vec<u8> {
    [page(&NAMES).into_bytes(), prose(90_000, 23)].concat()
}

fn object(name: &str) -> Vec<u8> {
    let seed: u64 = name.bytes().map(u64::from).sum();
    if name.ends_with("gif") {
        noise(30_000, seed)
    } else {
        prose(80_000, seed)
    }
}

/// An origin that compresses its page and style sheet with gzip, and whose responses are fresh for an hour.
async fn fresh_origin() -> Result<Origin> {
    origin(|request| {
        let name = request.uri().path().trim_start_matches('/');
        let fresh = ("Cache-Control", "max-age=3600");
        let gzipped = ("Content-Encoding", "gzip");
        match name {
            "" => answer(
                200,
                &[("Content-Type", "text/html"), fresh, gzipped],
                gzip(&document()),
            ),
            _ if name.ends_with("css") => answer(
                200,
                &[("Content-Type", "text/css"), fresh, gzipped],
                gzip(&object(name)),
            ),
            _ => {
                let media = if name.ends_with("js") {
                    "text/javascript"
                } else {
                    "image/x-other"
                };
                answer(200, &[("Content-Type", media), fresh], object(name))
            }
        }
    })
    .await
}

async fn visit(pair: &Pair) -> Result<()> {
    let urls = NAMES.map(|name| format!("{PAGE}{name}"));
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let visit = Visitor::new(pair.proxy()).visit(PAGE, &urls).await?;
    assert!(body(&visit.page) == document());
    for (name, url) in NAMES.iter().zip(&urls) {
        assert!(body(visit.object(url)) == object(name), "{name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_saves_what_its_origin_sent_less_what_crossed_the_hop() -> Result<()> {
    let origin = fresh_origin().await?;
    let relay = CountingRelay::start(origin.address()).await?;
    let pair = Pair::start(relay.setup_on_known_link()).await?;
    visit(&pair).await?;
    let first = balance(&pair, &relay, |_| 0).await?;
    assert!(first.origin > 100_000 && first.coding > 0, "{first:?}");
    assert_eq!(
        (first.pictures, first.cache, first.unchanged),
        (0, 0, 0),
        "{first:?}"
    );
    Ok(())
}

/// Answers of the agent's cache. The gateway plans the objects of the cached page again, from a response of its own cache,
/// which nobody sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_cached_page_saves_no_more_than_it_cost() -> Result<()> {
    let origin = fresh_origin().await?;
    let relay = CountingRelay::start(origin.address()).await?;
    let pair = Pair::start(relay.setup_on_known_link()).await?;
    visit(&pair).await?;
    let first = balance(&pair, &relay, |_| 0).await?;

    // The bodies are stored while the browser receives them.
    let bodies = document().len() + NAMES.iter().map(|name| object(name).len()).sum::<usize>();
    pair.status_until(|status| status["cache_bytes"].as_u64() >= Some(bodies as u64))
        .await?;
    visit(&pair).await?;
    // The agent answers from its cache as it finds the response there, or by the manifest, which says that it holds
    // the body.
    let cached = |now: &Balance| now.cache;
    let second = balance(&pair, &relay, cached).await?;
    assert_eq!(second.origin, first.origin, "{second:?}");
    let saved = second.saved - first.saved;
    assert!(
        saved <= first.hop && cached(&second) > first.hop * 3 / 4,
        "the cached page saved {saved} B, first {first:?}, now {second:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_and_changed_content_have_their_own_causes() -> Result<()> {
    let editions = Arc::new(AtomicU64::new(0));
    let origin = origin(move |request| {
        let html = [("Content-Type", "text/html"), ("Cache-Control", "no-cache")];
        let mut text = prose(100_000, 7);
        if request.uri().path() == "/news" {
            text.splice(40_000..40_100, prose(900, editions.fetch_add(1, Relaxed)));
        }
        answer(200, &html, text)
    })
    .await?;
    let relay = CountingRelay::start(origin.address()).await?;
    let pair = Pair::start(relay.setup()).await?;
    let visitor = Visitor::new(pair.proxy());
    let url = format!("{PAGE}same");
    body(&visitor.page(&url).await?);
    let mut before = balance(&pair, &relay, |_| 0).await?;
    for visits in 1.. {
        body(&visitor.page(&url).await?);
        let after = balance(&pair, &relay, |_| 0).await?;
        let unchanged = after.unchanged - before.unchanged;
        if unchanged >= 100_000 {
            assert_eq!(unchanged, 100_000, "{after:?}");
            assert!(after.hop - before.hop < 1_000, "{after:?}");
            break;
        }
        assert!(visits < MAX_VISITS, "the page is never held: {after:?}");
        before = after;
    }
    // Each edition of this page differs a little from the one before.
    let url = format!("{PAGE}news");
    for _ in 0..MAX_VISITS {
        let before = balance(&pair, &relay, |_| 0).await?;
        body(&visitor.page(&url).await?);
        let after = balance(&pair, &relay, |_| 0).await?;
        if after.base - before.base > 90_000 {
            return Ok(());
        }
    }
    anyhow::bail!("no edition is encoded against another one")
}

#[tokio::test(flavor = "multi_thread")]
async fn smaller_images_count_as_pictures() -> Result<()> {
    let (origin, picture) = images::gallery().await?;
    let relay = CountingRelay::start(origin.address()).await?;
    let mut setup = relay.setup().counted().over(Link::Paced(BitRate::kbps(1_000)));
    setup
        .agent_arguments
        .extend(["--image-level".to_owned(), "medium".to_owned()]);
    let pair = Pair::start(setup).await?;
    let visitor = Visitor::new(pair.proxy());
    let names = ["a.jpg", "kept.jpg", "broken.jpg"].map(|name| format!("{PAGE}{name}"));
    let urls: Vec<&str> = names.iter().map(String::as_str).collect();
    let visit = visitor.visit(PAGE, &urls).await?;
    let smaller = body(visit.object(&names[0])).len();
    assert!(smaller < picture.len() / 2, "{smaller} of {} B", picture.len());
    let balance = balance(&pair, &relay, |_| 0).await?;
    let expected = i64::try_from(picture.len() - smaller)?;
    let overhead = i64::try_from(smaller)? / 4;
    assert!(
        (expected - overhead..=expected).contains(&balance.pictures),
        "{balance:?} of {expected}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_saves_about_nothing() -> Result<()> {
    const SIZE: usize = 600_000;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4];
            stream.read_exact(&mut request).await?;
            stream.write_all(&noise(SIZE, 9)).await?;
        }
        anyhow::Ok(())
    });
    let relay = CountingRelay::start(address).await?;
    let setup = on_known_link(Setup::resolving(&[("site.test:443", relay.address)]));
    let pair = Pair::start(setup).await?;
    let mut client = RawClient::connect(pair.proxy()).await?;
    client
        .send("CONNECT site.test:443 HTTP/1.1\r\nHost: site.test:443\r\n\r\n")
        .await?;
    assert_eq!(client.head().await?.status, 200);
    client.send(b"ping").await?;
    assert!(client.read_exact(SIZE).await? == noise(SIZE, 9));
    // All bytes of the tunnel are reported; the difference is the overhead of the transport.
    let status = pair
        .status_until(|status| {
            let balance = Balance::of(status, &relay);
            balance.saved == balance.origin - balance.hop
        })
        .await?;
    let balance = Balance::of(&status, &relay);
    println!("{balance:?}");
    let tenth = i64::try_from(SIZE)? / 10;
    assert!((-tenth..=0).contains(&balance.saved), "{balance:?}");
    assert_eq!(
        (balance.coding, balance.pictures, balance.cache, balance.unchanged),
        (0, 0, 0, 0)
    );
    Ok(())
}
