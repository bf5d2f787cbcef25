//! Objects of pages that are fetched ahead of the browser.
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{HeaderMap, Request};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::{sync::watch, time::timeout};

use super::{exchange, get, parts, start};
use crate::{
    origin::{full, serve},
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
