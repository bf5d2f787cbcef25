//! Bodies are encoded once for all devices, and with less effort under load.
use std::time::{Duration, Instant};

use http::Request;
use hyper::body::Incoming;
use longhaul_session::{BodyCoding, Message, Method};
use longhaul_udp_relay::{Passage, UdpRelay};

use crate::{
    agent::{Agent, BodyEnd, fetch_of},
    gateway::Gateway,
    origin::{full, serve},
    sessions::scrape,
    store::reply,
};

const PUBLIC: (&str, &str) = ("cache-control", "public, max-age=600");
/// Maximum wait for a condition of the metrics.
const LIMIT: Duration = Duration::from_secs(60);
/// Duration of a burst of jobs that does not count as overload; the gateway averages its load over 5 s.
const BURST: Duration = Duration::from_secs(1);
const HTML: (&str, &str) = ("content-type", "text/html");
/// Such a response is the first of its connection, so that all devices may get it.
const CLOSE: (&str, &str) = ("connection", "close");

/// Text that has little in common with the text of any other seed.
fn words(seed: u32, count: u32) -> String {
    (0..count)
        .map(|n| {
            format!(
                "word{:x} ",
                (1000 * seed + n % 1000).wrapping_mul(2_654_435_761) >> 12
            )
        })
        .collect()
}

/// The value of a metric, or 0 if it is absent.
fn metric(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |value| value.trim().parse().unwrap())
}

/// Scrapes the metrics until they satisfy `condition`.
async fn until(gateway: &Gateway, condition: impl Fn(&str) -> bool) -> String {
    let began = Instant::now();
    loop {
        let text = scrape(gateway, "host: localhost").await;
        if condition(&text) {
            return text;
        }
        assert!(
            began.elapsed() < LIMIT,
            "the metrics do not satisfy the condition:\n{text}"
        );
        tokio::task::yield_now().await;
    }
}

async fn page(fields: &'static [(&'static str, &'static str)]) -> (String, String) {
    let page = words(1, 8_000);
    let body = page.clone();
    let port = serve(move |_: Request<Incoming>| {
        let body = body.clone();
        async move { reply(200, fields, full(body)) }
    })
    .await;
    (format!("http://a.test:{port}/"), page)
}

#[tokio::test]
async fn a_stored_encoding_serves_the_next_device() {
    let gateway = Gateway::start().await;
    let (url, page) = page(&[PUBLIC, HTML]).await;
    for (device, reused) in [(1, 0), (2, 1), (3, 2)] {
        let mut agent = Agent::connect_by(&gateway, "umts-384").await;
        let response = agent.get(&url, &[]).await;
        assert_eq!(response.end, BodyEnd::Complete);
        assert!(response.body == page.as_bytes(), "device {device}");
        assert_eq!(response.announced.unwrap().coding, BodyCoding::Brotli);
        let text = until(&gateway, |text| {
            metric(text, "longhaul_coded_kept_total ") == 1
                && metric(text, "longhaul_coded_reused_total ") == reused
        });
        text.await;
    }
}

#[tokio::test]
async fn private_bodies_are_encoded_for_each_device() {
    let gateway = Gateway::start().await;
    let (url, page) = page(&[("cache-control", "private, max-age=600"), HTML]).await;
    for _ in 0..2 {
        let mut agent = Agent::connect_by(&gateway, "umts-384").await;
        assert!(agent.get(&url, &[]).await.body == page.as_bytes());
    }
    let (other, _) = self::page(&[PUBLIC, HTML]).await;
    let mut agent = Agent::connect_by(&gateway, "umts-384").await;
    agent.get(&other, &[]).await;
    // Stored after any encoding of the personal pages would have been stored.
    let text = until(&gateway, |text| metric(text, "longhaul_coded_kept_total ") > 0).await;
    assert_eq!(metric(&text, "longhaul_coded_kept_total "), 1);
    assert_eq!(metric(&text, "longhaul_coded_reused_total "), 0);
}

/// The port of an origin with a page of `sheets` style sheets of so many words.
async fn styled(sheets: usize, length: u32) -> u16 {
    serve(move |request: Request<Incoming>| async move {
        let path = request.uri().path();
        let Some(number) = path.strip_prefix("/s") else {
            let links = (0..sheets).map(|n| format!("<link rel=stylesheet href=/s{n}>"));
            let page: String = links.collect();
            return reply(200, &[PUBLIC, HTML, CLOSE], full(page));
        };
        let sheet = words(number.parse().unwrap(), length);
        reply(200, &[PUBLIC, ("content-type", "text/css"), CLOSE], full(sheet))
    })
    .await
}

/// From now on the agent receives nothing, and does not measure how fast loopback is: after such a measurement the gateway
/// spends less effort on bodies, sooner or later depending on the load of the machine.
fn deafen(hop: &UdpRelay) {
    hop.set(Passage::UpOnly);
}

#[tokio::test]
async fn pushed_bodies_are_encoded_once() {
    let gateway = Gateway::start().await;
    let url = format!("http://a.test:{}/", styled(3, 8_000).await);
    for reused in [0, 3] {
        let hop = UdpRelay::start(gateway.address).await.unwrap();
        let mut agent = Agent::connect_through(&gateway, &hop, "umts-384").await;
        deafen(&hop);
        let fetch = fetch_of(agent.id(), Method::Get, &url, &[]);
        agent.send(Message::Fetch(fetch)).await;
        let done = |text: &str| {
            metric(text, "longhaul_coded_kept_total ") == 3
                && metric(text, "longhaul_coded_reused_total ") == reused
        };
        until(&gateway, done).await;
    }
}

/// A page whose style sheets are more jobs than there are cores. Such a burst is not an overload unless it lasts as long as the
/// averaging time of the load.
#[tokio::test]
async fn a_page_of_many_style_sheets_is_encoded_at_full_effort() {
    const SHEETS: u64 = 8;
    let gateway = Gateway::start().await;
    let hop = UdpRelay::start(gateway.address).await.unwrap();
    let port = styled(8, 1_000).await;
    let mut agent = Agent::connect_through(&gateway, &hop, "gprs-3+1").await;
    deafen(&hop);
    let fetch = fetch_of(agent.id(), Method::Get, &format!("http://a.test:{port}/"), &[]);
    let began = Instant::now();
    agent.send(Message::Fetch(fetch)).await;
    let text = until(&gateway, |text| codings(text) > SHEETS).await;
    if began.elapsed() > BURST {
        return eprintln!("SKIPPED: this machine took {:?} for a page", began.elapsed());
    }
    let best = metric(&text, "longhaul_codings_total{coder=\"brotli-11\"} ");
    assert!(best >= SHEETS, "{text}");
}

/// The number of encoded bodies.
fn codings(text: &str) -> u64 {
    let series = text
        .lines()
        .filter_map(|line| line.strip_prefix("longhaul_codings_total{"));
    let counts = series.filter_map(|series| series.rsplit_once("} ")?.1.parse::<u64>().ok());
    counts.sum()
}
