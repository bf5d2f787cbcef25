//! Requests of a browser as the origin receives them, accelerated and tunnelled: they must be equal except
//! for fields that proxies add.
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Request, Response,
    header::{CACHE_CONTROL, SET_COOKIE, STRICT_TRANSPORT_SECURITY},
};
use hyper::body::Incoming;
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin, Seen},
};

use super::{Accelerated, LOAD_LIMIT, load};
use crate::content::ok;

const HOSTS: [&str; 3] = ["shop.test", "cdn.shop.test", "ads.test"];
/// Fields that depend on the path, not on the browser: `Via` is added by proxies; between gateway and origin
/// there are other content codings and another version of HTTP, without `Priority`.
const PATH_DEPENDENT_FIELDS: [&str; 6] = [
    "via",
    "accept-encoding",
    "connection",
    "priority",
    "te",
    "cache-control",
];
const PAGE: &str = "<!doctype html><title>Shop</title><link rel=icon href=data:,>
<link rel=stylesheet href=/style.css><link rel=stylesheet href=https://cdn.shop.test/theme.css>
<link rel=preload as=font type=font/woff2 crossorigin href=https://cdn.shop.test/font.woff2>
<script src=/plain.js></script><script type=module src=/module.mjs></script>
<script src=https://ads.test/ad.js></script><script crossorigin src=https://cdn.shop.test/lib.js></script>
<img src=/own.png><img src=https://cdn.shop.test/near.png><img src=https://ads.test/pixel.png>
<img crossorigin=use-credentials src=https://cdn.shop.test/with.png>
<img referrerpolicy=no-referrer src=/quiet.png><iframe src=/frame.html></iframe><p id=said>waits</p>
<script>Promise.all([fetch('/data.json'), fetch('https://cdn.shop.test/data.json', { credentials: 'include' })])
.then(() => document.getElementById('said').textContent = 'all is here')</script>";

async fn answer(request: Request<Incoming>) -> Response<AnswerBody> {
    let host = request.headers()["host"].to_str().unwrap_or_default().to_owned();
    let path = request.uri().path();
    let kind = match path.rsplit('.').next().unwrap_or_default() {
        "css" => "text/css",
        "js" | "mjs" => "text/javascript",
        "png" => "image/gif",
        "woff2" => "font/woff2",
        "json" => "application/json",
        _ => "text/html",
    };
    let body = match path {
        "/" => Bytes::from_static(PAGE.as_bytes()),
        "/frame.html" => Bytes::from_static(b"<!doctype html><p>Frame"),
        "/data.json" => Bytes::from_static(b"{}"),
        _ if kind == "image/gif" => Bytes::from_static(PIXEL),
        _ => Bytes::from(format!("/* {path} */")),
    };
    let mut response = ok(kind, body);
    let headers = response.headers_mut();
    // Without validators there are no conditional requests, so every load requests every object.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        "accept-ch",
        HeaderValue::from_static("DPR, Viewport-Width, Sec-CH-UA-Full-Version-List"),
    );
    headers.insert(
        "access-control-allow-credentials",
        HeaderValue::from_static("true"),
    );
    headers.insert(
        "access-control-allow-origin",
        HeaderValue::from_static("https://shop.test"),
    );
    headers.insert(
        STRICT_TRANSPORT_SECURITY,
        HeaderValue::from_static("max-age=1000"),
    );
    if path == "/" || path == "/cookies" {
        for cookie in [
            "lax=1; Secure; SameSite=Lax",
            "strict=1; Secure; SameSite=Strict",
            "none=1; Secure; SameSite=None",
            "deep=1; Secure; Path=/deep",
            "__Host-key=1; Secure; Path=/; HttpOnly",
        ] {
            headers.append(SET_COOKIE, HeaderValue::from_static(cookie));
        }
        if host == "shop.test" {
            headers.append(
                SET_COOKIE,
                HeaderValue::from_static("wide=1; Secure; Domain=shop.test; SameSite=Strict"),
            );
        }
    }
    response
}

/// A 1 x 1 pixel GIF.
const PIXEL: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

/// Request fields by URL.
type FieldsByUrl = BTreeMap<String, BTreeMap<String, String>>;

fn fields(headers: &HeaderMap) -> BTreeMap<String, String> {
    let fields = headers
        .iter()
        .filter(|(name, _)| !PATH_DEPENDENT_FIELDS.contains(&name.as_str()));
    fields
        .map(|(name, value)| {
            (
                name.to_string(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        })
        .collect()
}

/// Requests of a browser's second visit, after the first has set cookies and client hints of all hosts.
async fn requests_of_second_visit(
    authority: &TestAuthority,
    hosts: &str,
) -> Result<(FieldsByUrl, serde_json::Value, BTreeSet<bool>)> {
    let origin = Origin::start(Some(authority.server(&HOSTS)?), |_| {}, answer).await?;
    let names = HOSTS.map(|host| (host, origin.address()));
    let site = Accelerated::start(&names, authority, hosts).await?;
    let pin = if hosts == "off" { None } else { Some(site.pin()?) };
    let mut options = longhaul_chromium::BrowserOptions::behind(site.pair.proxy());
    options.trust_spki = pin.into_iter().chain([authority.pin().to_owned()]).collect();
    let mut browser = longhaul_chromium::Browser::start(&options).await?;
    for host in ["ads.test", "cdn.shop.test"] {
        load(&mut browser, &format!("https://{host}/cookies")).await?;
    }
    let mut before = 0;
    for _ in 0..3 {
        before = origin.seen().len();
        let wait = "new Promise(done => { const look = () => { const text = document.getElementById('said').textContent;
            if (text == 'all is here') done(text); else setTimeout(look, 20) }; look() })";
        assert_eq!(
            browser.evaluate("https://shop.test/", wait, LOAD_LIMIT).await?,
            "all is here"
        );
    }
    let seen: Vec<Seen> = origin.seen().split_off(before);
    let ways = seen.iter().map(|seen| seen.headers.contains_key("via")).collect();
    let asked = seen
        .iter()
        .map(|seen| (format!("{}{}", seen.host, seen.path), fields(&seen.headers)))
        .collect();
    Ok((asked, site.pair.status().await?, ways))
}

#[tokio::test(flavor = "multi_thread")]
async fn accelerated_and_tunnelled_requests_are_equal() -> Result<()> {
    let authority = TestAuthority::new()?;
    let (through, _, ways) = requests_of_second_visit(&authority, "off").await?;
    assert_eq!(ways, BTreeSet::from([false]), "tunnels");
    let (accelerated, status, ways) = requests_of_second_visit(&authority, "all").await?;
    assert_eq!(
        ways,
        BTreeSet::from([true]),
        "all requests pass through the gateway's HTTP client"
    );
    println!(
        "pushed {}, taken {}, promised {}",
        status["pushed_objects"], status["push_taken_objects"], status["exits"]
    );
    assert!(status["push_taken_objects"].as_u64() >= Some(10), "{status}");
    let urls: BTreeSet<&String> = through.keys().chain(accelerated.keys()).collect();
    let mut differences = Vec::new();
    for url in urls {
        let (Some(own), Some(ours)) = (through.get(url), accelerated.get(url)) else {
            differences.push(format!("{url}: requested only accelerated or only tunnelled"));
            continue;
        };
        let names: BTreeSet<&String> = own.keys().chain(ours.keys()).collect();
        for name in names.into_iter().filter(|name| own.get(*name) != ours.get(*name)) {
            differences.push(format!(
                "{url}: {name}: {:?}, accelerated {:?}",
                own.get(name),
                ours.get(name)
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let page = accelerated.get("shop.test/own.png").context("a picture")?;
    let cookies = page.get("cookie").context("cookies")?;
    for cookie in ["lax=1", "strict=1", "none=1", "wide=1", "__Host-key=1"] {
        assert!(cookies.contains(cookie), "{cookies}");
    }
    Ok(())
}

const WORKER: &str = "addEventListener('install', event => event.waitUntil((async () => {
    const cache = await caches.open('v1'); await cache.add('/kept.txt'); await skipWaiting() })()));
addEventListener('activate', event => event.waitUntil(clients.claim()));
addEventListener('fetch', event => { const path = new URL(event.request.url).pathname;
    if (path == '/made.txt') event.respondWith(new Response('made by the worker'));
    if (path == '/kept.txt') event.respondWith(caches.match('/kept.txt')) });";

#[tokio::test(flavor = "multi_thread")]
async fn a_service_worker_works_on_an_accelerated_site() -> Result<()> {
    let authority = TestAuthority::new()?;
    let answer = |request: Request<Incoming>| async move {
        match request.uri().path() {
            "/" => ok(
                "text/html",
                "<!doctype html><link rel=icon href=data:,><title>App</title><p>App",
            ),
            "/worker.js" => ok("text/javascript", WORKER),
            path => ok("text/plain", format!("the origin's {path}")),
        }
    };
    let origin = Origin::start(Some(authority.server(&["app.test"])?), |_| {}, answer).await?;
    let site = Accelerated::start(&[("app.test", origin.address())], &authority, "all").await?;
    let mut browser = site.browser(&[]).await?;
    let install = "(async () => { await navigator.serviceWorker.register('/worker.js');
        await navigator.serviceWorker.ready;
        if (!navigator.serviceWorker.controller) await new Promise(done =>
            navigator.serviceWorker.addEventListener('controllerchange', done));
        const text = async path => (await fetch(path)).text();
        return [await text('/made.txt'), await text('/kept.txt'), await text('/other.txt')].join('; ') })()";
    for _ in 0..2 {
        let text = browser.evaluate("https://app.test/", install, LOAD_LIMIT).await?;
        assert_eq!(
            text,
            "made by the worker; the origin's /kept.txt; the origin's /other.txt"
        );
    }
    let worker = origin.seen().into_iter().find(|seen| seen.path == "/worker.js");
    let worker = worker.context("the worker's script")?;
    assert_eq!(worker.headers["service-worker"], "script");
    assert!(worker.headers.contains_key("via"), "accelerated");
    assert!(origin.seen().iter().all(|seen| seen.path != "/made.txt"));
    Ok(())
}
