//! Headless Chromium behind the agent.
use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Result;
use bytes::Bytes;
use http::{Request, Response, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use longhaul_chromium::{Browser, BrowserOptions, LoadOptions, Loaded};
use longhaul_loader::Outcome;
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin},
    sockets,
};

use crate::pair::{Pair, Setup};

const LOAD_LIMIT: Duration = Duration::from_secs(60);
/// A 1 x 1 pixel GIF.
const PIXEL: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
const PAGE: &str = r#"<!doctype html><title>Depot</title><link rel=stylesheet href=style.css><link rel=icon href=icon.gif>
<h1>Depot</h1><p id=said>not said</p><img src=one.gif><img src=two.gif?size=2><script src=script.js></script>"#;
const STYLE: &str = "@import 'more.css'; h1 { background: url(back.gif) }";
const SCRIPT: &str = "document.getElementById('said').textContent = 'said by the script';
var late = document.createElement('img'); late.src = 'late.gif'; document.body.append(late);";
/// Paths that the browser requests for the page, the document first.
const OBJECTS: &[&str] = &[
    "",
    "style.css",
    "more.css",
    "back.gif",
    "one.gif",
    "two.gif?size=2",
    "script.js",
    "late.gif",
];

async fn answer(request: Request<Incoming>) -> Response<AnswerBody> {
    let (kind, body) = match request.uri().path() {
        "/" => ("text/html; charset=utf-8", Bytes::from_static(PAGE.as_bytes())),
        "/style.css" => ("text/css", Bytes::from_static(STYLE.as_bytes())),
        "/more.css" => ("text/css", Bytes::from("p { margin: 1em } ".repeat(2000))),
        "/script.js" => ("text/javascript", Bytes::from_static(SCRIPT.as_bytes())),
        _ => ("image/gif", Bytes::from_static(PIXEL)),
    };
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    Response::builder()
        .header(CONTENT_TYPE, kind)
        .body(body)
        .expect("a valid response")
}

/// Records connections from any process other than the gateway.
#[derive(Clone, Default)]
struct Callers {
    gateway: Arc<OnceLock<u32>>,
    others: Arc<parking_lot::Mutex<Vec<String>>>,
}

impl Callers {
    fn admit(&self, peer: SocketAddr) {
        let owner = match self.gateway.get() {
            Some(pid) => sockets::expect_owner(*pid, peer),
            None => Err(format!("{peer} connected before the gateway started")),
        };
        if let Err(found) = owner {
            self.others.lock().push(found);
        }
    }
}

fn assert_whole(loaded: &Loaded, site: &str) {
    let objects = &loaded.load.objects;
    for object in OBJECTS {
        let url = format!("{site}/{object}");
        let object = objects.iter().find(|object| object.url.as_str() == url);
        let whole =
            object.is_some_and(|object| object.outcome == Outcome::Delivered && object.status == Some(200));
        assert!(whole, "{url}: {object:?}\nall: {objects:#?}");
    }
    assert!(loaded.text.contains("said by the script"), "{}", loaded.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_loads_pages_over_http_and_https() -> Result<()> {
    let callers = Callers::default();
    let authority = TestAuthority::new()?;
    let (plain_callers, tls_callers) = (callers.clone(), callers.clone());
    let plain = Origin::start(None, move |peer| plain_callers.admit(peer), answer).await?;
    let tls = authority.server(&["secure.test"])?;
    let secure = Origin::start(Some(tls), move |peer| tls_callers.admit(peer), answer).await?;
    let names = [
        ("site.test:80", plain.address()),
        ("secure.test:443", secure.address()),
    ];
    let pair = Pair::start(Setup::resolving(&names)).await?;
    callers.gateway.set(pair.gateway().pid()).expect("set once");

    // The browser, not the gateway, verifies an https site behind a tunnel: its only trusted key is that of
    // the test's authority, which it knows by hash.
    let mut options = BrowserOptions::behind(pair.proxy());
    options.trust_spki = vec![authority.pin().to_owned()];
    let mut browser = Browser::start(&options).await?;
    assert_whole(
        &browser
            .load("http://site.test/", &LoadOptions::within(LOAD_LIMIT))
            .await?,
        "http://site.test",
    );
    assert_whole(
        &browser
            .load("https://secure.test/", &LoadOptions::within(LOAD_LIMIT))
            .await?,
        "https://secure.test",
    );

    let strangers = callers.others.lock().clone();
    assert!(
        strangers.is_empty(),
        "connections from other processes than the gateway: {strangers:?}"
    );
    assert!(plain.seen().iter().all(|seen| seen.host == "site.test"));
    assert!(
        secure
            .seen()
            .iter()
            .all(|seen| seen.host == "secure.test" && seen.headers.get("via").is_none())
    );
    assert!(secure.seen().len() >= OBJECTS.len());

    let mut stranger = Browser::start(&BrowserOptions::behind(pair.proxy())).await?;
    let refused = stranger
        .load("https://secure.test/", &LoadOptions::within(LOAD_LIMIT))
        .await
        .expect_err("no trusted authority signed this certificate");
    assert!(
        format!("{refused:#}").contains("ERR_CERT_AUTHORITY_INVALID"),
        "{refused:#}"
    );
    let status = pair.status().await?;
    assert!(status["bytes_down"].as_u64().unwrap_or_default() > 0, "{status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_posts_forms_and_shows_error_pages() -> Result<()> {
    let origin = Origin::start(
        None,
        |_| {},
        |request: Request<Incoming>| async move {
            let method = request.method().clone();
            let body = request
                .into_body()
                .collect()
                .await
                .map(|body| body.to_bytes())
                .unwrap_or_default();
            let text = format!(
                "<!doctype html><link rel=icon href=data:,><p>{method} {}",
                String::from_utf8_lossy(&body)
            );
            let body = Full::new(Bytes::from(text))
                .map_err(|never| match never {})
                .boxed_unsync();
            Response::builder()
                .header(CONTENT_TYPE, "text/html")
                .body(body)
                .expect("a valid response")
        },
    )
    .await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    let mut browser = Browser::start(&BrowserOptions::behind(pair.proxy())).await?;
    let post =
        "fetch('/order', { method: 'POST', body: 'eggs=12&caf\u{e9}=1' }).then(answer => answer.text())";
    let posted = browser.evaluate("http://site.test/", post, LOAD_LIMIT).await?;
    assert!(
        posted
            .as_str()
            .is_some_and(|text| text.ends_with("<p>POST eggs=12&caf\u{e9}=1")),
        "{posted}"
    );
    let failed = browser
        .load("http://no-such-name.invalid/", &LoadOptions::within(LOAD_LIMIT))
        .await?;
    assert!(
        failed.text.contains("Whose fault?"),
        "the agent's error page, not the browser's: {}",
        failed.text
    );
    Ok(())
}
