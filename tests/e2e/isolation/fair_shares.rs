//! Fair shares: one device cannot deny another one an origin host or the gateway.
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use anyhow::{Context as _, Result, ensure};
use longhaul_tests::{
    client::{RawClient, RawResponse, ask, get, request},
    process::Running,
    raw_origin::{Kept, RawOrigin},
};
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::pair::{LIMIT, Pair, Setup};

const SITE: &str = "http://site.test";
/// Maximum simultaneous HTTP/1.1 requests of the gateway to one host.
const MAX_HOST_REQUESTS: usize = 32;

fn answer(text: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    )
    .into_bytes()
}

/// A gateway with two devices, and the origin of its requests.
struct Site {
    pair: Pair,
    second: Running,
    origin: RawOrigin,
}

impl Site {
    async fn start(
        limits: &str,
        answer: impl Fn(Kept<'_>) -> Vec<u8> + Send + Sync + 'static,
    ) -> Result<Self> {
        let origin = RawOrigin::start_kept(answer).await?;
        let mut setup = Setup::resolving(&[("site.test", origin.address())]);
        setup.gateway_config += limits;
        let pair = Pair::start(setup).await?;
        let second = pair.second_agent("second").await?;
        Ok(Self { pair, second, origin })
    }

    /// The proxies of both devices.
    fn devices(&self) -> [SocketAddr; 2] {
        [self.pair.proxy(), self.second.address()]
    }
}

/// A response that must arrive within the limit, whatever other devices do.
async fn ask_within_limit(proxy: SocketAddr, request: String) -> Result<RawResponse> {
    timeout(LIMIT, ask(proxy, request)).await.context("no answer")?
}

/// An origin with a CL.0 flaw: it ignores bodies and so parses a body as the next request. It delays the
/// response to that request until the connection has a further request, which then gets the wrong response.
fn cl0_origin() -> impl Fn(Kept<'_>) -> Vec<u8> + Send + Sync + 'static {
    let kept = Mutex::new(BTreeMap::<usize, Vec<u8>>::new());
    move |request| {
        let mut kept = kept.lock();
        if !request.path().starts_with('/') {
            // The end of a chunked body.
            return Vec::new();
        }
        if request.path() == "/smuggled" {
            kept.entry(request.connection)
                .or_default()
                .extend(answer("smuggled"));
            return Vec::new();
        }
        let mut answers = kept.remove(&request.connection).unwrap_or_default();
        answers.extend(answer(request.path()));
        answers
    }
}

/// F6: a request that device 0 smuggles in a body never answers a request of device 1.
#[tokio::test]
async fn a_smuggled_request_answers_no_other_request() -> Result<()> {
    const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: site.test\r\n\r\n";
    let site = Site::start("", cl0_origin()).await?;
    let [attacker, victim] = site.devices();
    let length = SMUGGLED.len().to_string();
    let chunked = format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len());
    for method in ["POST", "GET", "PUT"] {
        for (framing, body) in [
            (("Content-Length", length.as_str()), SMUGGLED),
            (("Transfer-Encoding", "chunked"), chunked.as_str()),
        ] {
            for credentials in [&[][..], &[("Cookie", "session=0")], &[("Origin", SITE)]] {
                let fields: Vec<_> = credentials.iter().copied().chain([framing]).collect();
                let attack = request(method, &format!("{SITE}/attack"), &fields) + body;
                let first = ask_within_limit(attacker, attack).await?;
                ensure!(first.status == 200, "{method} {framing:?}: {first:?}");
                let asked = [
                    (victim, "/a", &[][..]),
                    (victim, "/b", &[("Cookie", "session=1")]),
                    // A page of another site, and another user, on the same device.
                    (attacker, "/c", &[("Referer", "http://other.test/")]),
                    (attacker, "/d", &[("Cookie", "session=2")]),
                ];
                for (proxy, path, fields) in asked {
                    let seen = ask_within_limit(proxy, get(&format!("{SITE}{path}"), fields)).await?;
                    assert_eq!(seen.text(), path, "after {method} {framing:?} {credentials:?}");
                }
            }
        }
    }
    Ok(())
}

/// Requests by connection of the origin: the device, and whether the request was private to it.
type RequestsByConnection = Arc<Mutex<BTreeMap<usize, Vec<(u8, bool)>>>>;

#[tokio::test]
async fn origin_connections_with_private_requests_are_not_shared_between_devices() -> Result<()> {
    let carried = RequestsByConnection::default();
    let log = Arc::clone(&carried);
    let site = Site::start("", move |request| {
        let device = u8::from(request.path().starts_with("/1"));
        let is_own = ["cookie", "authorization", "content-length", "x-own"]
            .iter()
            .any(|name| request.field(name).is_some());
        log.lock()
            .entry(request.connection)
            .or_default()
            .push((device, is_own));
        answer("ok")
    })
    .await?;
    let kinds: [&[(&str, &str)]; 5] = [
        &[],
        &[("Cookie", "session=1")],
        &[],
        &[("Authorization", "Basic eDp5")],
        &[("X-Own", "1")],
    ];
    for round in 0..6 {
        for (number, fields) in kinds.iter().enumerate() {
            for (device, proxy) in site.devices().into_iter().enumerate() {
                let url = format!("{SITE}/{device}/{round}/{number}");
                assert_eq!(ask_within_limit(proxy, get(&url, fields)).await?.text(), "ok");
            }
        }
    }
    let carried = carried.lock();
    for (connection, requests) in carried.iter() {
        let mut owner = None;
        for (device, is_own) in requests {
            assert!(
                owner.is_none_or(|owner| owner == *device),
                "connection {connection} is shared by devices although it carried private requests: {requests:?}"
            );
            if *is_own {
                owner = Some(*device);
            }
        }
    }
    println!("{} requests took {} connections", 6 * 5 * 2, carried.len());
    assert!(carried.len() <= 4, "more connections than necessary");
    Ok(())
}

/// Responses by path: event streams and slow bodies, which never end, and short texts.
fn endless_response(request: Kept<'_>) -> Vec<u8> {
    match request.path() {
        path if path.starts_with("/events") => {
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n".to_vec()
        }
        path if path.starts_with("/slow") => {
            b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 1000000\r\n\r\nx".to_vec()
        }
        path => answer(path),
    }
}

/// Opens streams and waits for the head of each.
async fn open_responses(
    proxy: SocketAddr,
    kind: &str,
    numbers: std::ops::Range<usize>,
) -> Result<Vec<RawClient>> {
    let mut held = Vec::new();
    for number in numbers {
        let mut client = RawClient::connect(proxy).await?;
        client.send(get(&format!("{SITE}/{kind}/{number}"), &[])).await?;
        let head = timeout(LIMIT, client.head())
            .await
            .with_context(|| format!("{kind} {number}"))??;
        ensure!(head.status == 200, "{kind} {number}: {head:?}");
        held.push(client);
    }
    Ok(held)
}

/// F7: event streams of one device do not block other requests, neither of other devices nor of its own.
#[tokio::test]
async fn event_streams_of_one_device_do_not_block_the_host_for_others() -> Result<()> {
    let site = Site::start("", endless_response).await?;
    let [holder, other] = site.devices();
    let mut held = Vec::new();
    for count in [MAX_HOST_REQUESTS, 200] {
        held.extend(open_responses(holder, "events", held.len()..count).await?);
        for (proxy, path) in [(other, "/other"), (holder, "/own")] {
            let begun = Instant::now();
            let seen = ask_within_limit(proxy, get(&format!("{SITE}{path}"), &[])).await?;
            println!("{count} event streams: {path} after {:?}", begun.elapsed());
            assert_eq!(seen.text(), path);
        }
    }
    Ok(())
}

/// Slow bodies of one device occupy only its own share of a host; an error page after the queue timeout names
/// the limit.
#[tokio::test]
async fn slow_bodies_of_one_device_do_not_block_the_host_for_others() -> Result<()> {
    let site = Site::start("[limits]\nqueue-timeout = \"1s\"\n", endless_response).await?;
    let [holder, other] = site.devices();
    let _held = open_responses(holder, "slow", 0..MAX_HOST_REQUESTS).await?;
    let refused = ask_within_limit(holder, get(&format!("{SITE}/own"), &[("Accept", "text/html")])).await?;
    assert_eq!(refused.status, 503, "{}", refused.text());
    for words in ["limit of the gateway", "this device"] {
        assert!(refused.text().contains(words), "{}", refused.text());
    }
    // The other device has a share of its own and can have slow bodies as well.
    let _others = open_responses(other, "slow", 100..105).await?;
    let seen = ask_within_limit(other, get(&format!("{SITE}/other"), &[])).await?;
    assert_eq!(seen.text(), "/other");
    assert_eq!(
        site.origin
            .heads()
            .iter()
            .filter(|head| head.contains("/own"))
            .count(),
        0
    );
    Ok(())
}

/// A request that waits in the queue of one device does not delay an equal request of another device.
#[tokio::test]
async fn a_queued_request_does_not_delay_an_equal_request_of_another_device() -> Result<()> {
    let site = Site::start("[limits]\nqueue-timeout = \"30s\"\n", endless_response).await?;
    let [holder, other] = site.devices();
    let _held = open_responses(holder, "slow", 0..MAX_HOST_REQUESTS).await?;
    for round in 0..3 {
        let both = format!("{SITE}/both/{round}");
        let mut waiting = RawClient::connect(holder).await?;
        waiting.send(get(&both, &[])).await?;
        // When this response arrives, the first request is in the queue.
        ask_within_limit(other, get(&format!("{SITE}/before/{round}"), &[])).await?;
        let begun = Instant::now();
        let seen = ask_within_limit(other, get(&both, &[])).await?;
        println!("response of the other device after {:?}", begun.elapsed());
        assert_eq!(seen.text(), format!("/both/{round}"));
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "the request waited for the queued one"
        );
    }
    Ok(())
}

/// Ten thousand requests of one device do not delay a page load of another.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_flood_of_one_device_does_not_delay_pages_of_another() -> Result<()> {
    const FLOOD: usize = 10_000;
    const CONNECTIONS: usize = 40;
    const OBJECTS: usize = 24;
    let flooded = watch::Sender::new(0_usize);
    let count = flooded.clone();
    let site = Site::start("", move |request| {
        if request.path().starts_with("/flood") {
            count.send_modify(|count| *count += 1);
        }
        answer(request.path())
    })
    .await?;
    let [holder, other] = site.devices();
    page(other, OBJECTS).await?;
    let begun = Instant::now();
    page(other, OBJECTS).await?;
    let alone = begun.elapsed();
    let mut flood = JoinSet::new();
    for connection in 0..CONNECTIONS {
        flood.spawn(async move {
            let mut client = RawClient::connect(holder).await?;
            let each = FLOOD / CONNECTIONS;
            let all: String = (0..each)
                .map(|number| get(&format!("{SITE}/flood/{connection}/{number}"), &[]))
                .collect();
            client.send(all).await?;
            for _ in 0..each {
                ensure!(
                    client.response().await?.status == 200,
                    "a flooding request failed"
                );
            }
            anyhow::Ok(())
        });
    }
    let mut floods = flooded.subscribe();
    let started = floods.wait_for(|count| *count >= 100);
    timeout(LIMIT, started)
        .await
        .context("the flood did not start")??;
    let (begun, before) = (Instant::now(), *flooded.borrow());
    page(other, OBJECTS).await?;
    let (beside, between) = (begun.elapsed(), *flooded.borrow() - before);
    println!(
        "a page of {OBJECTS} objects: {alone:?} alone, {beside:?} during a flood, {between} requests of which were served meanwhile"
    );
    assert!(
        between < FLOOD / 4,
        "{between} requests of another were served before a page"
    );
    while let Some(ended) = flood.join_next().await {
        ended??;
    }
    assert_eq!(*flooded.borrow(), FLOOD);
    Ok(())
}

/// Loads objects over six connections.
async fn page(proxy: SocketAddr, objects: usize) -> Result<()> {
    const CONNECTIONS: usize = 6;
    let mut loads = JoinSet::new();
    for connection in 0..CONNECTIONS {
        loads.spawn(async move {
            let mut client = RawClient::connect(proxy).await?;
            for number in (connection..objects).step_by(CONNECTIONS) {
                client.send(get(&format!("{SITE}/page/{number}"), &[])).await?;
                ensure!(
                    client.response().await?.status == 200,
                    "an object of the page failed"
                );
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = loads.join_next().await {
        ended??;
    }
    Ok(())
}

/// F14: a response with an unsupported transfer coding is refused; its encoded bytes never reach the browser
/// as content.
#[tokio::test]
async fn an_unsupported_transfer_coding_is_refused() -> Result<()> {
    let site = Site::start("", |request| {
        let coding = request.path().trim_start_matches('/').replace('+', ", ");
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n6\r\nsecret\r\n0\r\n\r\n").into_bytes()
    })
    .await?;
    let [proxy, _] = site.devices();
    for path in ["gzip+chunked", "deflate+chunked", "chunked+chunked"] {
        let seen = ask_within_limit(proxy, get(&format!("{SITE}/{path}"), &[])).await?;
        assert_eq!(seen.status, 502, "{path}: {}", seen.text());
        assert!(!seen.text().contains("secret"), "{path}");
    }
    let plain = ask_within_limit(proxy, get(&format!("{SITE}/chunked"), &[])).await?;
    assert_eq!(plain.text(), "secret");
    Ok(())
}
