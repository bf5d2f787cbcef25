//! Checks of a real browser that require exact bodies and unchanged fields: Subresource Integrity, Content
//! Security Policy, CORS, service workers.
use std::time::Duration;

use anyhow::Result;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use longhaul_chromium::{Browser, BrowserOptions, LoadOptions};
use ring::digest::{SHA256, SHA384, digest};

use super::{accelerates_page_loads, answer, page, request_field, site};

const LOAD_LIMIT: Duration = Duration::from_secs(60);
const PAGE: &str = "http://site.test/";

/// A script that appends its name to the document.
fn script(name: &str) -> String {
    format!(
        "document.body.append(' ran-{name} '); /* {} */",
        "padding ".repeat(400)
    )
}

fn integrity(name: &str) -> String {
    format!(
        "sha384-{}",
        STANDARD.encode(digest(&SHA384, script(name).as_bytes()))
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn subresource_integrity_and_content_security_policy_are_enforced() -> Result<()> {
    let inline = "document.body.append(' ran-inline-allowed ')";
    let hash = STANDARD.encode(digest(&SHA256, inline.as_bytes()));
    let policy = format!("script-src 'self' 'sha256-{hash}'; img-src 'none'; style-src 'self'");
    let (_origin, pair) = site(move |request| {
        let path = request.uri().path();
        let fresh = ("Cache-Control", "max-age=600");
        match path {
            "/" => {
                let html = format!(
                    "<!doctype html><title>Policies</title><link rel=icon href=data:,><body>\
                     <script>document.body.append(' ran-inline-refused ')</script><script>{inline}</script>\
                     <script src=/right.js integrity=\"{}\"></script>\
                     <script src=/wrong.js integrity=\"{}\"></script>\
                     <script src=http://other.test/foreign.js></script>\
                     <link rel=stylesheet href=/style.css integrity=\"sha256-{}\"><img src=/never.gif><p>end",
                    integrity("right"),
                    integrity("another"),
                    STANDARD.encode(digest(&SHA256, b"body { color: rgb(1, 2, 3) }")),
                );
                let fields = [
                    ("Content-Type", "text/html"),
                    ("Content-Security-Policy", policy.as_str()),
                ];
                answer(200, &fields, html)
            }
            "/style.css" => answer(
                200,
                &[("Content-Type", "text/css"), fresh],
                "body { color: rgb(1, 2, 3) }",
            ),
            path if path.ends_with(".js") => {
                let name = path.trim_start_matches('/').trim_end_matches(".js");
                answer(200, &[("Content-Type", "text/javascript"), fresh], script(name))
            }
            _ => answer(200, &[("Content-Type", "image/gif")], "GIF89a"),
        }
    })
    .await?;
    let mut browser = Browser::start(&BrowserOptions::behind(pair.proxy())).await?;
    for round in 0..2 {
        let text = browser.load(PAGE, &LoadOptions::within(LOAD_LIMIT)).await?.text;
        for ran in ["ran-inline-allowed", "ran-right"] {
            assert!(text.contains(ran), "round {round}: {ran} is missing: {text}");
        }
        for refused in ["ran-inline-refused", "ran-wrong", "ran-foreign"] {
            assert!(!text.contains(refused), "round {round}: {refused}: {text}");
        }
        let colour = browser
            .evaluate(PAGE, "getComputedStyle(document.body).color", LOAD_LIMIT)
            .await?;
        assert_eq!(
            colour, "rgb(1, 2, 3)",
            "round {round}: the style sheet with integrity"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn cross_origin_responses_are_readable_only_where_cors_allows() -> Result<()> {
    let (_origin, pair) = site(|request| {
        let origin = request_field(request, "origin");
        let text = ("Content-Type", "text/plain");
        match request.uri().path() {
            "/" => answer(
                200,
                &[("Content-Type", "text/html")],
                page(&["http://other.test/open.js", "http://other.test/closed.js"]),
            ),
            "/open.js" => answer(
                200,
                &[
                    text,
                    ("Access-Control-Allow-Origin", "*"),
                    ("Cache-Control", "max-age=600"),
                ],
                "'open'",
            ),
            "/named.txt" => answer(
                200,
                &[text, ("Access-Control-Allow-Origin", &origin), ("Vary", "Origin")],
                format!("named {origin}"),
            ),
            "/preflight.txt" if request.method() == "OPTIONS" => answer(
                204,
                &[
                    ("Access-Control-Allow-Origin", &origin),
                    ("Access-Control-Allow-Headers", "x-own"),
                    ("Access-Control-Allow-Methods", "PUT"),
                ],
                "",
            ),
            "/preflight.txt" => answer(
                200,
                &[text, ("Access-Control-Allow-Origin", &origin)],
                format!("{} with {}", request.method(), request_field(request, "x-own")),
            ),
            _ => answer(200, &[text], "'closed'"),
        }
    })
    .await?;
    let mut browser = Browser::start(&BrowserOptions::behind(pair.proxy())).await?;
    let read = "(async () => {
        const read = async (url, options) => {
            try { return await (await fetch('http://other.test/' + url, options)).text() } catch { return 'refused' }
        };
        return [
            await read('open.js'), await read('closed.js'), await read('named.txt'),
            await read('preflight.txt', { method: 'PUT', headers: { 'X-Own': '1' } }),
            await read('open.js', { credentials: 'include' }),
        ].join(' | ');
    })()";
    for round in 0..2 {
        let found = browser.evaluate(PAGE, read, LOAD_LIMIT).await?;
        assert_eq!(
            found, "'open' | refused | named http://site.test | PUT with 1 | refused",
            "round {round}"
        );
    }
    Ok(())
}

/// A service worker on plain http: browsers require a secure origin, and a flag of the browser declares this
/// site as one.
#[tokio::test(flavor = "multi_thread")]
async fn service_workers_answer_as_programmed() -> Result<()> {
    const WORKER: &str = "self.addEventListener('install', () => self.skipWaiting());
        self.addEventListener('activate', event => event.waitUntil(clients.claim()));
        self.addEventListener('fetch', event => {
            if (event.request.url.endsWith('/made-up')) event.respondWith(new Response('by the worker'));
            if (event.request.url.endsWith('/through'))
                event.respondWith(fetch(event.request).then(r => r.text()).then(t => new Response('through: ' + t)));
        });";
    let (origin, pair) = site(|request| match request.uri().path() {
        "/worker.js" => answer(
            200,
            &[
                ("Content-Type", "text/javascript"),
                ("Cache-Control", "max-age=600"),
            ],
            WORKER,
        ),
        "/through" => answer(200, &[("Cache-Control", "no-cache")], "of the origin"),
        "/made-up" => answer(404, &[], "there is none"),
        _ => answer(200, &[("Content-Type", "text/html")], page(&["a.js"])),
    })
    .await?;
    let options = BrowserOptions {
        extra: vec!["--unsafely-treat-insecure-origin-as-secure=http://site.test".to_owned()],
        ..BrowserOptions::behind(pair.proxy())
    };
    let mut browser = Browser::start(&options).await?;
    if browser.evaluate(PAGE, "isSecureContext", LOAD_LIMIT).await? != true {
        println!("SKIPPED: this browser allows service workers on https only");
        return Ok(());
    }
    let work = "(async () => {
        await navigator.serviceWorker.register('/worker.js');
        await navigator.serviceWorker.ready;
        if (!navigator.serviceWorker.controller)
            await new Promise(done => navigator.serviceWorker.addEventListener('controllerchange', done, { once: true }));
        const read = async url => (await fetch(url)).text();
        return [await read('/made-up'), await read('/through')].join(' | ');
    })()";
    for round in 0..2 {
        let found = browser.evaluate(PAGE, work, LOAD_LIMIT).await?;
        assert_eq!(found, "by the worker | through: of the origin", "round {round}");
    }
    let script = origin.seen().into_iter().find(|seen| seen.path == "/worker.js");
    assert_eq!(
        script.and_then(|seen| seen.headers.get("service-worker").cloned()),
        Some(http::HeaderValue::from_static("script"))
    );
    if !accelerates_page_loads(&pair.status().await?) {
        println!("note: this agent does not accelerate page loads");
    }
    Ok(())
}
