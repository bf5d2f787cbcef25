//! Objects of pages that are fetched ahead of the browser.
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use bytes::BytesMut;
use http::{HeaderMap, Request};
use hyper::body::Incoming;
use longhaul_gateway_core::config::settings;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
    time::timeout,
};

use super::{exchange, get, parts, start, start_with, status};
use crate::{
    gateway::Gateway,
    origin::{full, serve, text},
    sessions::scrape,
    store::reply,
};

/// Limit of a wait for an event; the machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);
const NAVIGATION: &str = "Upgrade-Insecure-Requests: 1\r\nAccept: text/html,application/xhtml+xml\r\n";
const PUBLIC: &[(&str, &str)] = &[("cache-control", "public, max-age=600")];

/// An origin with a page, its style sheet and its images; and a log of the requests by path.
struct Site {
    port: u16,
    log: Arc<Mutex<BTreeMap<String, Vec<HeaderMap>>>>,
    requests: watch::Receiver<usize>,
}

impl Site {
    async fn start(html: &'static str) -> Self {
        let log: Arc<Mutex<BTreeMap<String, Vec<HeaderMap>>>> = Arc::default();
        let noted = Arc::clone(&log);
        let (count, requests) = watch::channel(0);
        let port = serve(move |request: Request<Incoming>| {
            let path = request.uri().path().to_owned();
            noted
                .lock()
                .entry(path.clone())
                .or_default()
                .push(request.headers().clone());
            count.send_modify(|count| *count += 1);
            async move {
                let (kind, body) = match path.as_str() {
                    "/" => ("text/html", html),
                    "/style.css" => ("text/css", "body { background: url(/back.png) }"),
                    _ => ("image/png", "picture"),
                };
                let fields = [PUBLIC, &[("content-type", kind)]].concat();
                reply(200, &fields, full(body))
            }
        })
        .await;
        Self { port, log, requests }
    }

    fn url(&self, path: &str) -> String {
        format!("http://a.test:{}{path}", self.port)
    }

    /// Waits until the origin got so many requests.
    async fn until(&mut self, count: usize) {
        let reached = self.requests.wait_for(|requests| *requests >= count);
        timeout(LIMIT, reached).await.unwrap().unwrap();
    }

    fn count(&self, path: &str) -> usize {
        self.log.lock().get(path).map_or(0, Vec::len)
    }
}

#[tokio::test]
async fn objects_of_a_page_are_in_the_cache_before_the_browser_asks() {
    let (_gateway, proxy) = start().await;
    let mut site =
        Site::start("<link rel=stylesheet href=/style.css><img src=/one.png><img src=/two.png>").await;
    let page = exchange(proxy, get(&site.url("/"), NAVIGATION).as_bytes()).await;
    assert!(parts(&page).1.starts_with(b"<link"));
    // The page, the style sheet, its image, and two images, without a further request of the browser.
    site.until(5).await;
    let predicted = site.log.lock()["/one.png"][0].clone();
    assert_eq!(predicted["referer"], site.url("/"));
    assert_eq!(predicted["via"], "1.1 longhaul");
    // The browser sends the fields that were predicted.
    let fields: String = predicted
        .iter()
        .filter(|(name, _)| !["host", "via", "accept-encoding"].contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap()))
        .collect();
    let image = exchange(proxy, get(&site.url("/one.png"), &fields).as_bytes()).await;
    assert_eq!(parts(&image).1, b"picture");
    for path in ["/", "/style.css", "/back.png", "/one.png", "/two.png"] {
        assert_eq!(site.count(path), 1, "{path}");
    }
}

#[tokio::test]
async fn nothing_is_fetched_with_credentials_for_a_client_without_a_name() {
    let (_gateway, proxy) = start().await;
    let mut site = Site::start("<img src=/one.png>").await;
    let fields = format!("{NAVIGATION}Cookie: session=secret\r\n");
    let _page = exchange(proxy, get(&site.url("/"), &fields).as_bytes()).await;
    site.until(1).await;
    // A page without cookies behind it: its image is fetched, so the first page's would have been, too.
    let plain = exchange(proxy, get(&site.url("/?2"), NAVIGATION).as_bytes()).await;
    assert!(!plain.is_empty());
    site.until(3).await;
    for seen in site.log.lock().get("/one.png").into_iter().flatten() {
        assert!(!seen.contains_key("cookie"), "{seen:?}");
    }
}

#[tokio::test]
async fn what_the_pages_policy_forbids_is_not_fetched() {
    let (_gateway, proxy) = start().await;
    let mut site = Site::start(
        "<meta http-equiv=Content-Security-Policy content=\"img-src 'none'\">\
         <img src=/forbidden.png><link rel=stylesheet href=/style.css>",
    )
    .await;
    let _page = exchange(proxy, get(&site.url("/"), NAVIGATION).as_bytes()).await;
    site.until(2).await;
    assert_eq!(site.count("/style.css"), 1);
    assert_eq!(site.count("/forbidden.png") + site.count("/back.png"), 0);
}

/// The start of a gateway whose clients have so few bytes a day.
async fn start_with_day(size: &str) -> (Gateway, SocketAddr) {
    start_with(|flags| *flags = std::mem::take(flags).with(&settings::CLIENTLESS_DAY_SIZE, size)).await
}

/// An origin whose page has some images of a million bytes each; returns its address.
async fn heavy_site(html: &'static str) -> String {
    let image = text(1_000_000);
    let port = serve(move |request: Request<Incoming>| {
        let (kind, body) = match request.uri().path() {
            "/" => ("text/html", html.into()),
            path if path.ends_with(".png") => ("image/png", image.clone()),
            _ => ("text/plain", "small".into()),
        };
        async move { reply(200, &[PUBLIC, &[("content-type", kind)]].concat(), full(body)) }
    })
    .await;
    format!("http://a.test:{port}")
}

#[tokio::test]
async fn what_is_fetched_ahead_counts_for_the_day_of_the_client() {
    let (_gateway, proxy) = start_with_day("2MiB").await;
    let site = heavy_site("<img src=/1.png><img src=/2.png><img src=/3.png>").await;
    let page = exchange(proxy, get(&format!("{site}/"), NAVIGATION).as_bytes()).await;
    assert_eq!(status(&page), 200);
    // The browser never asks for the images; each other request is served until they have arrived.
    let small = get(&format!("{site}/small"), "");
    timeout(LIMIT, async {
        while status(&exchange(proxy, small.as_bytes()).await) != 403 {}
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn what_is_fetched_ahead_counts_once_if_the_browser_gets_it() {
    let (gateway, proxy) = start_with_day("2500KiB").await;
    let site = heavy_site("<img src=/1.png>").await;
    let mut connection = TcpStream::connect(proxy).await.unwrap();
    let mut get = async |path: &str, fields: &str| {
        let url = format!("{site}{path}");
        let host = url.split('/').nth(2).unwrap();
        let request = format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut read = BytesMut::new();
        loop {
            connection.read_buf(&mut read).await.unwrap();
            let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let (head, body) = parts(&read);
            let (_, length) = head.split_once("content-length: ").unwrap();
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            if body.len() >= length {
                assert_eq!(read.len(), end + 4 + length);
                return status(&read);
            }
        }
    };
    assert_eq!(get("/", NAVIGATION).await, 200);
    timeout(LIMIT, async {
        while !scrape(&gateway, "host: localhost")
            .await
            .contains("clientless_prefetched_total 1")
        {}
    })
    .await
    .unwrap();
    // The image counts once, whenever it was fetched ahead, and then again with each further request.
    assert_eq!(get("/1.png", "").await, 200);
    assert_eq!(get("/1.png", "").await, 200);
    assert_eq!(get("/small", "").await, 200);
}
