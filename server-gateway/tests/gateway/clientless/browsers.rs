//! curl and Chromium as clients.
use std::{
    path::Path,
    process::{Command, Output},
};

use http::Request;
use hyper::body::Incoming;

use super::{secure, start};
use crate::{
    origin::{full, serve, text},
    sessions::scrape,
    store::{Log, reply},
};

/// Runs a program to its end; `None` if it is not installed.
pub(crate) async fn run(program: &'static str, arguments: Vec<String>) -> Option<Output> {
    let run = move || Command::new(program).args(arguments).output().ok();
    tokio::task::spawn_blocking(run).await.unwrap()
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[expect(clippy::print_stdout, reason = "a skipped test says so")]
fn skipped(program: &str) {
    println!("SKIPPED: {program} is not installed");
}

pub(crate) fn is_missing(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    let is_missing = found.is_err();
    if is_missing {
        skipped(program);
    }
    is_missing
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_gets_compressed_pages_and_uploads() {
    if is_missing("curl") {
        return;
    }
    let (_gateway, proxy) = start().await;
    let page = text(100_000);
    let served = page.clone();
    let port = serve(move |_| {
        let served = served.clone();
        async move { reply(200, &[("content-type", "text/html")], full(served)) }
    })
    .await;
    let (url, proxy) = (format!("http://a.test:{port}/"), format!("http://{proxy}"));
    let arguments = words(&[
        "--silent",
        "--show-error",
        "--fail",
        "--compressed",
        "--noproxy",
        "",
        "--proxy",
        &proxy,
        &url,
        &url,
    ]);
    let done = run("curl", arguments).await.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.stdout == [page.clone(), page].concat());
    let arguments = words(&[
        "--silent",
        "--show-error",
        "--fail",
        "--noproxy",
        "",
        "--proxy",
        &proxy,
        "--data",
        "a=1",
        &url,
    ]);
    let done = run("curl", arguments).await.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

async fn dump(proxy: &str, home: &Path, url: &str) -> Option<String> {
    let profile = home.join("profile").display().to_string();
    let arguments = words(&[
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--virtual-time-budget=60000",
        &format!("--user-data-dir={profile}"),
        proxy,
        "--dump-dom",
        url,
    ]);
    let home = home.to_owned();
    let run = move || {
        Command::new("chromium")
            .env("HOME", home)
            .args(arguments)
            .output()
            .ok()
    };
    let done = tokio::task::spawn_blocking(run).await.unwrap()?;
    Some(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn chromium_loads_a_page_with_its_objects() {
    if is_missing("chromium") {
        return;
    }
    let (_gateway, proxy) = start().await;
    let (port, log) = scripted().await;
    let home = tempfile::tempdir().unwrap();
    let (proxy, url) = (
        format!("--proxy-server=http://{proxy}"),
        format!("http://a.test:{port}/"),
    );
    let dom = dump(&proxy, home.path(), &url).await.unwrap();
    assert!(dom.contains("the script ran"), "{dom}");
    assert!(log.count() >= 2);
}

/// An origin of a page whose script runs only if it is loaded.
async fn scripted() -> (u16, Log) {
    let log = Log::default();
    let noted = log.clone();
    let port = serve(move |request: Request<Incoming>| {
        let _number = noted.add(request.headers());
        let path = request.uri().path().to_owned();
        async move {
            let (kind, body) = match path.as_str() {
                "/" => (
                    "text/html",
                    "<body><p id=result>no script</p><script src=/script.js></script></body>",
                ),
                "/script.js" => (
                    "text/javascript",
                    "document.getElementById('result').textContent = 'the script ' + 'ran';",
                ),
                _ => ("text/plain", ""),
            };
            reply(
                200,
                &[("content-type", kind), ("cache-control", "public, max-age=600")],
                full(body),
            )
        }
    })
    .await;
    (port, log)
}

#[tokio::test(flavor = "multi_thread")]
async fn chromium_finds_the_secure_proxy_by_its_script() {
    if is_missing("chromium") || Command::new("certutil").arg("-H").output().is_err() {
        skipped("chromium or certutil");
        return;
    }
    let secure = secure::start().await;
    let (port, log) = scripted().await;
    let home = tempfile::tempdir().unwrap();
    let database = home.path().join(".local/share/pki/nssdb");
    std::fs::create_dir_all(&database).unwrap();
    let database = format!("sql:{}", database.display());
    let authority = secure.gateway.folder().join("ca.pem").display().to_string();
    for arguments in [
        &["-N", "--empty-password"][..],
        &["-A", "-n", "proxy", "-t", "C,,", "-i", &authority],
    ] {
        let arguments = words(&[&["-d", &database], arguments].concat());
        let done = run("certutil", arguments).await.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let script = format!(
        "--proxy-pac-url=https://{}:{}/proxy.pac",
        secure::NAME,
        secure.address.port()
    );
    let dom = dump(&script, home.path(), &format!("http://a.test:{port}/"))
        .await
        .unwrap();
    assert!(dom.contains("the script ran"), "{dom}");
    assert!(log.count() >= 2);
    let metrics = scrape(&secure.gateway, "host: localhost").await;
    let count = |name| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse::<u32>().unwrap()
    };
    assert!(count("longhaul_clientless_http2_total ") >= 1, "{metrics}");
}
