//! The page loader with the local origin, directly and through a plain forward proxy.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "test support outside of test functions"
)]

mod forward_proxy;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use flate2::{Compression, write::GzEncoder};
use forward_proxy::ForwardProxy;
use longhaul_demo::site::Site;
use longhaul_replay::{
    origin::{Content, Origin},
    page::{Client, Loader, Oracle, Outcome, PageLoad, Route, client_trust},
    tls::TestAuthority,
    warc::Recording,
};
use std::io::Write as _;
use url::Url;

/// A WARC file of `(URL, header lines, body)`.
fn warc(exchanges: &[(&str, &str, &[u8])]) -> Recording {
    let mut file = Vec::new();
    for (url, head, body) in exchanges {
        let mut block = format!("HTTP/1.1 {}\r\n\r\n", head.replace('|', "\r\n")).into_bytes();
        block.extend_from_slice(body);
        write!(
            file,
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nContent-Length: {}\r\n\r\n",
            block.len()
        )
        .unwrap();
        file.extend_from_slice(&block);
        file.extend_from_slice(b"\r\n\r\n");
    }
    Recording::read(file.as_slice()).unwrap()
}

/// Loads `url` from `content` through a forward proxy that sends every host to the local origin.
async fn load(content: Content, url: &str) -> PageLoad {
    let authority = TestAuthority::new().unwrap();
    let content = Arc::new(content);
    let origin = Origin::start(Arc::clone(&content), &authority).await.unwrap();
    let proxy = ForwardProxy::start(origin.http(), origin.https()).await;
    let trust = client_trust(std::slice::from_ref(authority.certificate())).unwrap();
    let loader = Loader::new(
        Client::new(Route::Proxy(proxy.address()), trust),
        Some(content as Arc<dyn Oracle>),
    );
    loader.load(&url.parse().unwrap(), |_, _| {}).await
}

fn outcomes(load: &PageLoad) -> BTreeMap<String, String> {
    let outcome = |outcome: &Outcome| match outcome {
        Outcome::Loaded { body, .. } => format!("loaded {}", body.len()),
        Outcome::Missing => "missing".to_owned(),
        Outcome::Failed(reason) => format!("failed: {reason}"),
    };
    load.objects
        .iter()
        .map(|object| (object.url.to_string(), outcome(&object.outcome)))
        .collect()
}

#[tokio::test]
async fn the_built_in_site_loads_whole() {
    let site = Site::built_in();
    let paths: Vec<String> = site
        .paths()
        .map(|path| format!("http://demo.test{path}"))
        .collect();
    let loaded = load(Content::new(None).with_host(Site::built_in()), Site::URL).await;
    assert_eq!(loaded.failures().count(), 0, "{:?}", outcomes(&loaded));
    assert_eq!(outcomes(&loaded).into_keys().collect::<Vec<_>>(), paths);
    assert!(loaded.ideal_size().bytes() > 100_000, "pictures count in full");
}

#[tokio::test]
async fn redirects_schemes_codings_and_gaps() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(b"@import 'https://cdn.test/more.css'; a { background: url(/bg.png) }")
        .unwrap();
    let gzip = gzip.finish().unwrap();
    let html = br#"<link rel=stylesheet href="/old.css"><img src="https://cdn.test/a.png"><img src=/gone.png>
        <img src=/loop><iframe src="/frame"></iframe><img src="/err.png">"#;
    let recording = warc(&[
        ("http://page.test/", "301 Moved|Location: https://page.test/", b""),
        ("https://page.test/", "200 OK|Content-Type: text/html", html),
        (
            "https://page.test/old.css",
            "302 Found|Location: //cdn.test/new.css",
            b"",
        ),
        (
            "https://cdn.test/new.css",
            "200 OK|Content-Type: text/css|Content-Encoding: gzip",
            &gzip,
        ),
        (
            "https://cdn.test/more.css",
            "200 OK|Content-Type: text/css",
            b"b { color: red }",
        ),
        (
            "https://cdn.test/bg.png",
            "200 OK|Content-Type: image/png",
            b"png",
        ),
        (
            "https://cdn.test/a.png",
            "200 OK|Content-Type: image/png",
            b"png2",
        ),
        ("https://page.test/loop", "302 Found|Location: /loop", b""),
        (
            "https://page.test/frame",
            "200 OK|Content-Type: text/html",
            b"<script src=/s.js></script>",
        ),
        (
            "https://page.test/s.js",
            "200 OK|Content-Type: text/javascript",
            b"1",
        ),
        (
            "https://page.test/err.png",
            "503 Busy|Content-Type: text/plain",
            b"recorded so",
        ),
    ]);
    let loaded = load(Content::new(Some(recording)), "http://page.test/#top").await;
    let expected = [
        ("http://page.test/", format!("loaded {}", html.len())),
        ("https://cdn.test/a.png", "loaded 4".to_owned()),
        ("https://cdn.test/bg.png", "loaded 3".to_owned()),
        ("https://cdn.test/more.css", "loaded 16".to_owned()),
        ("https://page.test/err.png", "loaded 11".to_owned()),
        ("https://page.test/frame", "loaded 27".to_owned()),
        ("https://page.test/gone.png", "missing".to_owned()),
        (
            "https://page.test/loop",
            "failed: more than 10 redirects in a row".to_owned(),
        ),
        ("https://page.test/old.css", "loaded 67".to_owned()),
        ("https://page.test/s.js", "loaded 1".to_owned()),
    ];
    let expected: BTreeMap<_, _> = expected
        .into_iter()
        .map(|(url, outcome)| (url.to_owned(), outcome))
        .collect();
    assert_eq!(outcomes(&loaded), expected);
}

#[tokio::test]
async fn a_page_that_is_not_recorded_fails() {
    let recording = warc(&[("http://page.test/", "200 OK", b"")]);
    let loaded = load(Content::new(Some(recording)), "http://page.test/other").await;
    assert_eq!(loaded.failures().count(), 1);
}

#[tokio::test]
async fn without_oracle_statuses_and_certificates_decide() {
    let authority = TestAuthority::new().unwrap();
    let recording = warc(&[
        (
            "http://127.0.0.1/",
            "200 OK|Content-Type: text/html",
            b"<img src=/no.png><img src=/yes.png>",
        ),
        ("http://127.0.0.1/yes.png", "200 OK", b"1234"),
    ]);
    // The recorded host has no port but the requested one has, so the origin answers only through a proxy.
    let origin = Origin::start(Arc::new(Content::new(Some(recording))), &authority)
        .await
        .unwrap();
    let proxy = ForwardProxy::start(origin.http(), origin.https()).await;
    let untrusting = client_trust(&[]).unwrap();
    let loader = Loader::new(
        Client::new(Route::Proxy(proxy.address()), Arc::clone(&untrusting)),
        None,
    );
    let loaded = loader
        .load(&"http://127.0.0.1/".parse().unwrap(), |_, _| {})
        .await;
    let failures: Vec<_> = loaded
        .failures()
        .map(|(url, reason)| (url.path().to_owned(), reason.to_owned()))
        .collect();
    assert_eq!(
        failures,
        [("/no.png".to_owned(), "status 404 Not Found".to_owned())]
    );
    let loaded = loader
        .load(&"https://demo.test/".parse().unwrap(), |_, _| {})
        .await;
    let (_, reason) = loaded.failures().next().unwrap();
    assert!(reason.starts_with("TLS with the origin failed"), "{reason}");

    let direct = Loader::new(Client::new(Route::Direct, untrusting), None);
    let url = format!("http://{}/", origin.http());
    let loaded = direct.load(&url.parse().unwrap(), |_, _| {}).await;
    let (_, reason) = loaded.failures().next().unwrap();
    assert_eq!(reason, "status 404 Not Found");
}

#[tokio::test]
async fn an_answer_that_differs_from_the_origins_fails() {
    struct Other;
    impl Oracle for Other {
        fn expect(&self, url: &Url) -> longhaul_replay::page::Expectation {
            let body = if url.path() == "/" {
                None
            } else {
                Some("something else".into())
            };
            longhaul_replay::page::Expectation::Answer {
                status: http::StatusCode::OK,
                body,
            }
        }
    }
    let authority = TestAuthority::new().unwrap();
    let origin = Origin::start(
        Arc::new(Content::new(None).with_host(Site::built_in())),
        &authority,
    )
    .await
    .unwrap();
    let proxy = ForwardProxy::start(origin.http(), origin.https()).await;
    let client = Client::new(Route::Proxy(proxy.address()), client_trust(&[]).unwrap());
    let loaded = Loader::new(client, Some(Arc::new(Other)))
        .load(&Site::URL.parse().unwrap(), |_, _| {})
        .await;
    let mut failed: Vec<_> = loaded.failures().map(|(url, _)| url.path().to_owned()).collect();
    failed.sort();
    // Images may be transcoded, other bodies may not; a broken style sheet imports nothing.
    assert_eq!(failed, ["/css/site.css", "/img/hop.svg", "/js/site.js"]);
}

fn corpus() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    let directory = std::env::var_os("LONGHAUL_CORPUS").map_or(beside, PathBuf::from);
    if directory.join("INDEX.tsv").is_file() {
        return Some(directory);
    }
    println!(
        "SKIPPED: no recorded pages in {}; LONGHAUL_CORPUS names their directory",
        directory.display()
    );
    None
}

#[tokio::test]
async fn recorded_pages_replay() {
    let Some(corpus) = corpus() else {
        return;
    };
    for (name, page, at_least) in [
        (
            "wikimedia-sopa",
            "http://wikimediafoundation.org/wiki/SOPA/Blackoutpage",
            15,
        ),
        ("wikipedia-portal", "https://www.wikipedia.org/", 4),
        ("reddit", "https://www.reddit.com/", 20),
        ("360", "https://www.360.cn/", 20),
        ("backbonejs.v1", "http://backbonejs.org/", 20),
        ("baidu", "https://www.baidu.com/", 2),
        ("sina", "https://www.sina.com.cn/", 2),
        ("tmall", "https://www.tmall.com/", 2),
        ("vk", "https://vk.com/", 2),
        ("weibo", "https://www.weibo.com/us", 2),
        ("wikipedia-main.v1", "http://en.wikipedia.org/wiki/Main_Page", 2),
        ("youtube", "https://www.youtube.com/", 2),
        ("spiegel.v1", "https://www.spiegel.de/", 1),
    ] {
        let recording = Recording::open(&corpus.join(format!("{name}.warc.gz"))).unwrap();
        let url = recording.main_page().unwrap().to_string();
        assert_eq!(url, page);
        let loaded = load(Content::new(Some(recording)), &url).await;
        let failures: Vec<_> = loaded.failures().collect();
        assert!(failures.is_empty(), "{name}: {failures:?}");
        let complete = loaded.objects.len() - loaded.missing();
        println!("{name}: {complete} objects, {} missing", loaded.missing());
        assert!(complete >= at_least, "{name}: only {complete} objects");
    }
}
