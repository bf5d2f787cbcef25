//! Selection of accelerated hosts.
use anyhow::{Context, Result};
use bytes::Bytes;
use http::{
    Request, Response,
    header::{ALT_SVC, CONTENT_TYPE, SET_COOKIE, STRICT_TRANSPORT_SECURITY},
};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use longhaul_chromium::{Browser, BrowserOptions};
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{Accelerated, LOAD_LIMIT, exchange, load_error};
use crate::pair::{LIMIT, Setup, folder};

const PAGE: &str = "<!doctype html><title>Safe</title><link rel=stylesheet href=/style.css><link rel=icon href=data:,>\
<h1>Safe</h1><img src=https://cdn.test/dot><p id=said>not said</p><script src=/script.js></script>";
/// The script runs before the load event, but its request may finish after it.
const SCRIPT: &str = "var said = fetch('/cookie').then(answer => answer.text()).then(text => \
document.getElementById('said').textContent = 'cookie: ' + text)";

async fn answer(request: Request<Incoming>) -> Response<AnswerBody> {
    let cookie = request
        .headers()
        .get("cookie")
        .and_then(|cookie| cookie.to_str().ok())
        .unwrap_or("none")
        .to_owned();
    let (kind, body) = match request.uri().path() {
        "/" => ("text/html", Bytes::from_static(PAGE.as_bytes())),
        "/style.css" => ("text/css", Bytes::from("p { margin: 1em } ".repeat(2000))),
        "/script.js" => ("text/javascript", Bytes::from_static(SCRIPT.as_bytes())),
        _ => ("text/plain", Bytes::from(cookie)),
    };
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    Response::builder()
        .header(CONTENT_TYPE, kind)
        .header(STRICT_TRANSPORT_SECURITY, "max-age=1000")
        .header(ALT_SVC, "h3=\":443\"")
        .header(SET_COOKIE, "seen=yes; Secure; SameSite=Lax")
        .body(body)
        .expect("a valid response")
}

/// An origin of these hosts, and a pair that accelerates the hosts that the setting `hosts` selects.
async fn site(authority: &TestAuthority, names: &[&str], hosts: &str) -> Result<(Origin, Accelerated)> {
    let origin = Origin::start(Some(authority.server(names)?), |_| {}, answer).await?;
    let addresses: Vec<_> = names.iter().map(|name| (*name, origin.address())).collect();
    let site = Accelerated::start(&addresses, authority, hosts).await?;
    Ok((origin, site))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_loads_an_accelerated_host_as_a_page_load() -> Result<()> {
    let names = ["safe.test", "cdn.test"];
    let authority = TestAuthority::new()?;
    let (origin, site) = site(&authority, &names, "safe.test").await?;
    let pair = &site.pair;
    let mut browser = site.browser(&[authority.pin()]).await?;
    let cookie = browser.evaluate("https://safe.test/", "said", LOAD_LIMIT).await?;
    assert_eq!(cookie, "cookie: seen=yes");
    let seen = origin.seen();
    let page = seen.iter().find(|seen| seen.path == "/").context("the page")?;
    assert_eq!(page.headers["sec-fetch-dest"], "document");
    assert!(
        page.headers.contains_key("via"),
        "the page passes through the gateway's HTTP client"
    );
    let elsewhere: Vec<_> = seen.iter().filter(|seen| seen.host == "cdn.test").collect();
    assert!(
        !elsewhere.is_empty() && elsewhere.iter().all(|seen| !seen.headers.contains_key("via")),
        "an unlisted host is tunnelled and never fetched by the gateway: {elsewhere:?}"
    );
    let status = pair.status().await?;
    assert_eq!(
        status["https"]["connections"].as_u64().map(|n| n > 0),
        Some(true),
        "{status}"
    );
    assert!(status["pushed_objects"].as_u64() >= Some(2), "{status}");
    assert!(
        status["tunnels"].as_u64() >= Some(1),
        "only the tunnel of cdn.test: {status}"
    );

    // A browser without trust in the device's authority loads the site from its second attempt on, through a
    // tunnel.
    let authority = site.exported_authority().await?;
    assert!(authority.starts_with("-----BEGIN CERTIFICATE-----"));
    let mut stranger = Browser::start(&BrowserOptions::behind(pair.proxy())).await?;
    for _ in 0..2 {
        let words = load_error(&mut stranger, "https://safe.test/").await?;
        assert!(words.contains("ERR_CERT_AUTHORITY_INVALID"), "{words}");
    }
    let status = pair.status().await?;
    assert_eq!(status["https"]["bypassed"][0]["host"], "safe.test", "{status}");
    assert!(
        status["tunnels"].as_u64() >= Some(1),
        "the second attempt reached the origin through a tunnel: {status}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_listed_hosts_are_accelerated() -> Result<()> {
    let authority = TestAuthority::new()?;
    let names = ["safe.test", "other.test"];
    let (origin, site) = site(&authority, &names, "safe.test").await?;
    let ours = site.exported_authority().await?;
    // The listed host has the agent's certificate, the other one the origin's.
    let answer = site.get("safe.test", "/cookie", "Cookie: a=1\r\n").await?;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("a=1"),
        "{answer}"
    );
    assert!(!answer.to_lowercase().contains("alt-svc"), "{answer}");
    assert!(
        answer
            .to_lowercase()
            .contains("strict-transport-security: max-age=1000"),
        "{answer}"
    );
    assert!(site.connect("other.test", &ours, &[b"http/1.1"]).await.is_err());
    // A request for another host on the same connection gets status 421.
    let safe = site.connect("safe.test", &ours, &[b"http/1.1"]).await?;
    let answer = exchange(
        safe,
        "GET / HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n",
    )
    .await?;
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    assert!(origin.seen().iter().all(|seen| seen.host == "safe.test"));
    // Connections of other protocols are tunnelled: the client receives the origin's certificate.
    assert!(site.connect("safe.test", &ours, &[b"imap"]).await.is_err());
    let status = site.pair.status().await?;
    assert_eq!(status["https"]["bypassed"][0]["host"], "safe.test", "{status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_excludes_a_host_and_ends_its_accelerated_connections() -> Result<()> {
    let authority = TestAuthority::new()?;
    let names = ["safe.test", "other.test"];
    let origin = Origin::start(Some(authority.server(&names)?), |_| {}, answer).await?;
    let addresses: Vec<_> = names.iter().map(|name| (*name, origin.address())).collect();
    let folder = folder()?;
    let file = folder.path().join("agent.toml");
    std::fs::write(&file, "")?;
    let with_file = |setup: &mut Setup| {
        let arguments = ["--config".to_owned(), file.display().to_string()];
        setup.agent_arguments.extend(arguments);
    };
    let site = Accelerated::start_with(&addresses, &authority, "all", with_file).await?;
    let ours = site.exported_authority().await?;
    let mut open = site.connect("safe.test", &ours, &[b"http/1.1"]).await?;
    open.write_all(b"HEAD /cookie HTTP/1.1\r\nHost: safe.test\r\n\r\n")
        .await?;
    assert!(open.read_u8().await? == b'H', "the accelerated connection works");
    std::fs::write(&file, "[https]\nexcept = ['safe.test']\n")?;
    let agent = site.pair.agent();
    agent.signal("HUP").await?;
    agent.log().contains("changed: https.except", LIMIT).await?;
    // The operator of the gateway must not read what the browser sends from now on.
    let mut rest = Vec::new();
    timeout(LIMIT, open.read_to_end(&mut rest))
        .await
        .context("the connection stays open")??;
    assert!(
        site.connect("safe.test", &ours, &[b"http/1.1"]).await.is_err(),
        "a tunnel"
    );
    let answer = site.get("other.test", "/cookie", "").await?;
    assert!(answer.starts_with("HTTP/1.1 200"), "still accelerated: {answer}");
    Ok(())
}
