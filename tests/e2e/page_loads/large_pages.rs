//! Very large pages: thousands of objects, and documents without end.
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_loader::{
    Outcome,
    model::{self, ModelOptions, Route, Rules},
};
use longhaul_tests::{
    client::{RawClient, get},
    origin::Origin,
};
use longhaul_types::ContentHash;
use tokio::{
    sync::watch,
    time::{interval, timeout},
};

use super::{answer, body, both_hosts, page, peak_memory, visitor::Visitor};
use crate::{
    content::{noise, pieces},
    pair::{LIMIT, Pair},
};

const PAGE: &str = "http://site.test/";
const OBJECTS: usize = 3_000;

fn picture(number: usize) -> Vec<u8> {
    noise(200 + number % 700, 10_000 + number as u64)
}

/// Options of a scripted browser behind a proxy, with limits for very large pages.
pub(super) fn options(proxy: std::net::SocketAddr) -> Result<ModelOptions> {
    options_trusting(proxy, rustls::RootCertStore::empty())
}

/// [`options`] with trust in these authorities.
pub(super) fn options_trusting(
    proxy: std::net::SocketAddr,
    roots: rustls::RootCertStore,
) -> Result<ModelOptions> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut trust = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    trust.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut options = ModelOptions::new(Route::Proxy(proxy), Arc::new(trust));
    options.rules = Rules::persistent(6);
    options.limits.objects = 10_000;
    options.limits.time = 3 * LIMIT;
    Ok(options)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_three_thousand_objects_loads_completely() -> Result<()> {
    let (_origin, pair) = super::site(|request| {
        let path = request.uri().path();
        let number = path
            .trim_start_matches("/i/")
            .trim_end_matches(".gif")
            .parse::<usize>();
        match number {
            Ok(number) => answer(
                200,
                &[("Content-Type", "image/gif"), ("Cache-Control", "max-age=600")],
                picture(number),
            ),
            Err(_) => {
                let names: Vec<String> = (0..OBJECTS).map(|number| format!("i/{number}.gif")).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                answer(200, &[("Content-Type", "text/html")], page(&names))
            }
        }
    })
    .await?;
    let options = options(pair.proxy())?;
    for round in 0..2 {
        let load = model::load(&PAGE.parse()?, &options, None).await?;
        let objects: BTreeMap<&str, _> = load
            .objects
            .iter()
            .map(|object| (object.url.as_str(), object))
            .collect();
        assert_eq!(objects.len(), OBJECTS + 1, "round {round}");
        for number in 0..OBJECTS {
            let url = format!("http://site.test/i/{number}.gif");
            let object = objects.get(url.as_str()).context("an object")?;
            assert_eq!(object.outcome, Outcome::Delivered, "round {round}: {url}");
            let expected = ContentHash::of(&picture(number));
            assert_eq!(
                object.body_hash,
                Some(*expected.as_bytes()),
                "round {round}: {url}"
            );
        }
        println!(
            "round {round}: {OBJECTS} objects in {:.1} s",
            load.time.as_secs_f64()
        );
    }
    Ok(())
}

/// An origin with endless pages; it counts the bytes it could send and the open responses.
struct EndlessOrigin {
    origin: Origin,
    sent: Arc<AtomicU64>,
    open: watch::Receiver<usize>,
}

async fn endless() -> Result<EndlessOrigin> {
    let sent = Arc::new(AtomicU64::new(0));
    let (count, open) = watch::channel(0);
    let (counted, count) = (Arc::clone(&sent), Arc::new(count));
    let origin = Origin::start(
        None,
        |_| {},
        move |request: Request<Incoming>| {
            let (sent, count) = (Arc::clone(&counted), Arc::clone(&count));
            async move {
                let kind = ("Content-Type", "text/html");
                match request.uri().path() {
                    "/style.css" => answer(200, &[("Content-Type", "text/css")], "p { margin: 0 }"),
                    "/" => answer(200, &[kind], page(&["style.css"])),
                    _ => {
                        let (sender, body) = pieces();
                        count.send_modify(|count| *count += 1);
                        tokio::spawn(async move {
                            let mut piece = Bytes::from(page(&["style.css"]));
                            let mut number = 0;
                            // The channel closes when the connection closes.
                            while sender.send(Ok(piece.clone())).await.is_ok() {
                                sent.fetch_add(piece.len() as u64, Relaxed);
                                number += 1;
                                piece = Bytes::from(noise(32 * 1024, number));
                            }
                            count.send_modify(|count| *count -= 1);
                        });
                        let mut response = Response::new(body);
                        response
                            .headers_mut()
                            .insert("content-type", http::HeaderValue::from_static("text/html"));
                        response
                    }
                }
            }
        },
    )
    .await?;
    Ok(EndlessOrigin { origin, sent, open })
}

/// An endless page reaches the browser from its beginning, is not buffered without limit, and ends when the
/// reader leaves.
#[tokio::test(flavor = "multi_thread")]
async fn an_endless_page_streams_and_stops_when_the_reader_leaves() -> Result<()> {
    const MAX_MEMORY: u64 = 500 << 20;
    let EndlessOrigin { origin, sent, open } = endless().await?;
    let pair = Pair::start(both_hosts(&origin)).await?;
    for round in 0..3 {
        let mut client = RawClient::connect(pair.proxy()).await?;
        client
            .send(get(
                "http://site.test/endless",
                &[("Upgrade-Insecure-Requests", "1")],
            ))
            .await?;
        let head = client.head().await?;
        assert_eq!(head.status, 200);
        let beginning = client.read_exact(100).await?;
        let text = String::from_utf8_lossy(&beginning).into_owned();
        assert!(text.contains("<!doctype html>"), "{text}");
        // Objects of the page load while it continues.
        let style = Visitor::new(pair.proxy())
            .object("http://site.test/endless", "http://site.test/style.css", &[])
            .await?;
        assert_eq!(body(&style), b"p { margin: 0 }");
        // The reader stops reading: flow control must stop the origin.
        wait_until_constant(&sent).await?;
        for running in [pair.gateway(), pair.agent()] {
            let peak = peak_memory(running.pid()).unwrap_or(0);
            assert!(
                peak < MAX_MEMORY,
                "round {round}: {} MB for an endless page",
                peak >> 20
            );
        }
        drop(client);
        let mut open = open.clone();
        timeout(LIMIT, open.wait_for(|open| *open == 0))
            .await
            .context("the origin did not notice that the reader left")??;
    }
    let visit = Visitor::new(pair.proxy())
        .visit(PAGE, &["http://site.test/style.css"])
        .await?;
    assert_eq!(
        body(visit.object("http://site.test/style.css")),
        b"p { margin: 0 }"
    );
    Ok(())
}

/// Waits until a counter does not increase for a second.
async fn wait_until_constant(sent: &AtomicU64) -> Result<()> {
    const MAX_BUFFERED: u64 = 400 << 20;
    let began = sent.load(Relaxed);
    let mut looks = interval(Duration::from_millis(250));
    let wait = async {
        let (mut last, mut still) = (began, 0);
        loop {
            looks.tick().await;
            let now = sent.load(Relaxed);
            ensure!(
                now - began < MAX_BUFFERED,
                "{} MB were buffered",
                (now - began) >> 20
            );
            still = if now == last { still + 1 } else { 0 };
            last = now;
            if still == 4 {
                return Ok(());
            }
        }
    };
    timeout(LIMIT, wait)
        .await
        .context("flow control did not stop the origin")?
}

/// Readers that leave during page loads have no effect on later loads.
#[tokio::test(flavor = "multi_thread")]
async fn abandoned_page_loads_do_not_affect_later_ones() -> Result<()> {
    let bodies: Arc<BTreeMap<String, Vec<u8>>> = Arc::new(
        (0..12)
            .map(|number| (format!("/{number}.gif"), noise(80_000, number)))
            .collect(),
    );
    let stored = Arc::clone(&bodies);
    let (_origin, pair) = super::site(move |request| match stored.get(request.uri().path()) {
        Some(picture) => answer(200, &[("Cache-Control", "max-age=60")], picture.clone()),
        None => {
            let names: Vec<&str> = stored.keys().map(String::as_str).collect();
            answer(200, &[("Content-Type", "text/html")], page(&names))
        }
    })
    .await?;
    let names: BTreeSet<&str> = bodies.keys().map(String::as_str).collect();
    for round in 0..6_usize {
        let page_url = format!("http://site.test/page/{round}");
        let mut leaving = RawClient::connect(pair.proxy()).await?;
        leaving
            .send(get(&page_url, &[("Upgrade-Insecure-Requests", "1")]))
            .await?;
        leaving.head().await?;
        let mut half = Vec::new();
        for name in names.iter().take(round) {
            let mut client = RawClient::connect(pair.proxy()).await?;
            let url = format!("http://site.test{name}");
            client
                .send(get(&url, &[("Accept", "image/*"), ("Referer", &page_url)]))
                .await?;
            client.head().await?;
            half.push(client);
        }
        drop((leaving, half));
        let urls: Vec<String> = names
            .iter()
            .map(|name| format!("http://site.test{name}"))
            .collect();
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        let visit = Visitor::new(pair.proxy()).visit(PAGE, &urls).await?;
        for (name, url) in names.iter().zip(&urls) {
            assert!(body(visit.object(url)) == bodies[*name], "round {round}: {name}");
        }
    }
    Ok(())
}
