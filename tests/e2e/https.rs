//! HTTPS that is accelerated by the user's choice.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::{
    Request, Response,
    header::{ALT_SVC, CONTENT_TYPE, SET_COOKIE, STRICT_TRANSPORT_SECURITY},
};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use longhaul_chromium::{Browser, BrowserOptions, LoadOptions};
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin},
    process::run,
};
use rcgen::{KeyPair, PublicKeyData as _};
use ring::digest::{SHA256, digest};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

use crate::pair::{COMMAND, Pair, Setup};

const LOAD: Duration = Duration::from_secs(60);
const PAGE: &str = "<!doctype html><title>Safe</title><link rel=stylesheet href=/style.css><link rel=icon href=data:,>\
<h1>Safe</h1><img src=https://cdn.test/dot><p id=said>not said</p><script src=/script.js></script>";
const SCRIPT: &str = "fetch('/cookie').then(answer => answer.text()).then(text => {\
document.getElementById('said').textContent = 'cookie: ' + text })";

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

/// An origin, and a pair that knows its authority and accelerates these hosts.
async fn accelerated(names: &[&str], certificate_of: &[&str], accelerate: &str) -> Result<(Origin, Pair)> {
    let authority = TestAuthority::new()?;
    accelerated_by(&authority, &authority, names, certificate_of, accelerate).await
}

async fn accelerated_by(
    signing: &TestAuthority,
    trusted: &TestAuthority,
    names: &[&str],
    certificate_of: &[&str],
    accelerate: &str,
) -> Result<(Origin, Pair)> {
    let origin = Origin::start(Some(signing.server(certificate_of)?), |_| {}, answer).await?;
    let ca = tempfile::NamedTempFile::new()?;
    std::fs::write(ca.path(), trusted.pem())?;
    let keys: Vec<String> = names.iter().map(|name| format!("{name}:443")).collect();
    let resolved: Vec<_> = keys.iter().map(|key| (key.as_str(), origin.address())).collect();
    let mut setup = Setup::resolving(&resolved);
    setup.gateway_config = format!(
        "{}\n[fetch]\nextra-ca = ['{}']\n",
        setup.gateway_config,
        ca.path().display()
    );
    setup
        .agent_arguments
        .extend(["--https-accelerate".to_owned(), accelerate.to_owned()]);
    let pair = Pair::start(setup).await?;
    Ok((origin, pair))
}

/// The hash of the key of the agent's authority.
fn pin(pair: &Pair) -> Result<String> {
    let key = std::fs::read_to_string(pair.folder().join("agent/ca.key"))?;
    let key = KeyPair::from_pem(&key)?;
    Ok(STANDARD.encode(digest(&SHA256, &key.subject_public_key_info())))
}

async fn exported(pair: &Pair) -> Result<String> {
    let state = pair.folder().join("agent").display().to_string();
    let exported = run(
        "longhaul-agent",
        &["ca", "export", "--state-dir", &state],
        COMMAND,
    )
    .await?;
    ensure!(exported.code == Some(0), "{exported:?}");
    Ok(exported.stdout)
}

/// A TLS connection to a host through the agent's proxy, by a client that trusts this authority alone.
async fn connect(pair: &Pair, host: &str, trusted: &str, alpn: &[&[u8]]) -> Result<TlsStream<TcpStream>> {
    let mut stream = TcpStream::connect(pair.proxy()).await?;
    stream
        .write_all(format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n").as_bytes())
        .await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    ensure!(
        head.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&head)
    );
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let name = host.to_owned().try_into()?;
    Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_loads_an_accelerated_site_by_the_page_engine() -> Result<()> {
    let names = ["safe.test", "cdn.test"];
    let authority = TestAuthority::new()?;
    let (origin, pair) = accelerated_by(&authority, &authority, &names, &names, "safe.test").await?;
    let mut options = BrowserOptions::behind(pair.proxy());
    options.trust_spki = vec![pin(&pair)?, authority.pin().to_owned()];
    let mut browser = Browser::start(&options).await?;
    let loaded = browser
        .load("https://safe.test/", &LoadOptions::within(LOAD))
        .await?;
    assert!(loaded.text.contains("cookie: seen=yes"), "{}", loaded.text);
    let seen = origin.seen();
    let page = seen.iter().find(|seen| seen.path == "/").context("the page")?;
    assert_eq!(page.headers["sec-fetch-dest"], "document");
    assert!(page.headers.contains_key("via"), "through the gateway's HTTP");
    let elsewhere: Vec<_> = seen.iter().filter(|seen| seen.host == "cdn.test").collect();
    assert!(
        !elsewhere.is_empty() && elsewhere.iter().all(|seen| !seen.headers.contains_key("via")),
        "what is not listed comes through a tunnel and is not fetched for it: {elsewhere:?}"
    );
    let elsewhere: Vec<_> = seen.iter().filter(|seen| seen.host == "cdn.test").collect();
    assert!(
        !elsewhere.is_empty() && elsewhere.iter().all(|seen| !seen.headers.contains_key("via")),
        "what is not listed comes through a tunnel and is not fetched for it: {elsewhere:?}"
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
        "that of cdn.test: {status}"
    );

    // A browser that does not trust this device's authority gets the site all the same, from its second try on.
    let authority = exported(&pair).await?;
    assert!(authority.starts_with("-----BEGIN CERTIFICATE-----"));
    let mut stranger = Browser::start(&BrowserOptions::behind(pair.proxy())).await?;
    let mut words = Vec::new();
    for _ in 0..2 {
        let refused = stranger
            .load("https://safe.test/", &LoadOptions::within(LOAD))
            .await;
        words.push(format!(
            "{:#}",
            refused.expect_err("nobody vouches for this site")
        ));
    }
    assert!(
        words
            .iter()
            .all(|words| words.contains("ERR_CERT_AUTHORITY_INVALID")),
        "{words:?}"
    );
    let status = pair.status().await?;
    assert_eq!(status["https"]["spared"][0]["host"], "safe.test", "{status}");
    assert!(
        status["tunnels"].as_u64() >= Some(1),
        "the second try was the origin's own certificate: {status}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_the_user_lists_is_accelerated() -> Result<()> {
    let (origin, pair) = accelerated(
        &["safe.test", "other.test"],
        &["safe.test", "other.test"],
        "safe.test",
    )
    .await?;
    let ours = exported(&pair).await?;
    // The agent's certificate for the one, the origin's own for the other.
    let mut safe = connect(&pair, "safe.test", &ours, &[b"http/1.1"]).await?;
    safe.write_all(b"GET /cookie HTTP/1.1\r\nHost: safe.test\r\nCookie: a=1\r\nConnection: close\r\n\r\n")
        .await?;
    let mut answer = String::new();
    let _no_close_notify = safe.read_to_string(&mut answer).await;
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
    assert!(connect(&pair, "other.test", &ours, &[b"http/1.1"]).await.is_err());
    // Another host on the same connection is not answered.
    let mut safe = connect(&pair, "safe.test", &ours, &[b"http/1.1"]).await?;
    safe.write_all(b"GET / HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n")
        .await?;
    let mut answer = String::new();
    let _no_close_notify = safe.read_to_string(&mut answer).await;
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    assert!(origin.seen().iter().all(|seen| seen.host == "safe.test"));
    // What is not HTTP is not touched: its client sees the origin's own certificate.
    assert!(connect(&pair, "safe.test", &ours, &[b"imap"]).await.is_err());
    let status = pair.status().await?;
    assert_eq!(status["https"]["spared"][0]["host"], "safe.test", "{status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_certificate_is_told_and_the_browser_may_judge_it_itself() -> Result<()> {
    let (known, unknown) = (TestAuthority::new()?, TestAuthority::new()?);
    for (signing, of, detail) in [
        (&unknown, "safe.test", "TlsUnknownIssuer"),
        (&known, "another.test", "TlsNameMismatch"),
    ] {
        let (origin, pair) = accelerated_by(signing, &known, &["safe.test"], &[of], "all").await?;
        let mut options = BrowserOptions::behind(pair.proxy());
        options.trust_spki = vec![pin(&pair)?];
        let mut browser = Browser::start(&options).await?;
        let loaded = browser
            .load("https://safe.test/x", &LoadOptions::within(LOAD))
            .await?;
        assert!(
            loaded.text.contains(detail) && loaded.text.contains("Open this website unaccelerated"),
            "{}",
            loaded.text
        );
        assert!(origin.seen().is_empty(), "nothing was asked of it");
        // Nobody but the page knows the way.
        let ours = exported(&pair).await?;
        let mut guess = connect(&pair, "safe.test", &ours, &[b"http/1.1"]).await?;
        let head =
            "POST /.well-known/longhaul/unaccelerated/0 HTTP/1.1\r\nHost: safe.test\r\nContent-Length: 0\r\n";
        guess
            .write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())
            .await?;
        let mut answer = String::new();
        let _no_close_notify = guess.read_to_string(&mut answer).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        // The page that would answer goes away.
        let press = "new Promise(done => { addEventListener('pagehide', () => done());
            document.querySelector('button').click() })";
        let _navigated = browser.evaluate("https://safe.test/x", press, LOAD).await;
        pair.status_until(|status| status["https"]["spared"][0]["host"] == "safe.test")
            .await?;
        let refused = browser
            .load("https://safe.test/x", &LoadOptions::within(LOAD))
            .await;
        let words = format!("{:#}", refused.expect_err("the browser's own warning"));
        assert!(words.contains("ERR_CERT_"), "{words}");
    }
    Ok(())
}

/// A server of WebSockets that sends back what it gets; where, and the path of each request.
async fn echo(tls: Arc<ServerConfig>) -> Result<(SocketAddr, JoinSet<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut sockets = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let tls = TlsAcceptor::from(Arc::clone(&tls));
            sockets.spawn(async move {
                let Ok(stream) = tls.accept(stream).await else {
                    return;
                };
                let Ok(socket) = tokio_tungstenite::accept_async(stream).await else {
                    return;
                };
                let (to, from) = socket.split();
                let messages =
                    from.try_filter(|message| std::future::ready(message.is_text() || message.is_binary()));
                drop(messages.forward(to).await);
            });
        }
    });
    Ok((address, tasks))
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets_of_accelerated_hosts_work() -> Result<()> {
    let authority = TestAuthority::new()?;
    let (sockets, _serving) = echo(authority.server(&["chat.test"])?).await?;
    let ca = tempfile::NamedTempFile::new()?;
    std::fs::write(ca.path(), authority.pem())?;
    let origin = Origin::start(Some(authority.server(&["safe.test"])?), |_| {}, answer).await?;
    let mut setup = Setup::resolving(&[("safe.test:443", origin.address()), ("chat.test:443", sockets)]);
    setup.gateway_config = format!(
        "{}\n[fetch]\nextra-ca = ['{}']\n",
        setup.gateway_config,
        ca.path().display()
    );
    setup
        .agent_arguments
        .extend(["--https-accelerate".to_owned(), "safe.test,chat.test".to_owned()]);
    let pair = Pair::start(setup).await?;
    let mut options = BrowserOptions::behind(pair.proxy());
    options.trust_spki = vec![pin(&pair)?];
    let mut browser = Browser::start(&options).await?;
    let talk = "new Promise((done, fail) => { const socket = new WebSocket('wss://chat.test/talk?a=b');
        const text = 'x'.repeat(200000); socket.onopen = () => { socket.send('hello'); socket.send(text) };
        let got = []; socket.onerror = () => fail('no socket');
        socket.onmessage = message => { got.push(message.data); if (got.length == 2) done(got[0] + ' ' + (got[1] === text)) } })";
    let said = browser.evaluate("https://safe.test/", talk, LOAD).await?;
    assert_eq!(said, "hello true");
    let status = pair.status().await?;
    assert_eq!(
        status["https"]["spared"].as_array().map(Vec::len),
        Some(0),
        "{status}"
    );
    // A host that does not want it says so itself.
    let ours = exported(&pair).await?;
    let mut plain = connect(&pair, "safe.test", &ours, &[b"http/1.1"]).await?;
    plain
        .write_all(
            b"GET /cookie HTTP/1.1\r\nHost: safe.test\r\nCookie: a=2\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        )
        .await?;
    let mut answer = vec![0; 12];
    plain.read_exact(&mut answer).await?;
    assert_eq!(answer, b"HTTP/1.1 200");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_is_shown_and_removed_by_command() -> Result<()> {
    let home = tempfile::tempdir()?;
    let state = home.path().join("state").display().to_string();
    let ca = |verb: &'static str| {
        let state = state.clone();
        async move { run("longhaul-agent", &["ca", verb, "--state-dir", &state], COMMAND).await }
    };
    let missing = ca("fingerprint").await?;
    assert!(
        missing.code != Some(0) && missing.stderr.contains("ca export"),
        "{missing:?}"
    );
    let first = ca("export").await?.stdout;
    assert_eq!(first, ca("export").await?.stdout);
    let fingerprint = ca("fingerprint").await?.stdout;
    assert_eq!(fingerprint.trim().split(':').count(), 32, "{fingerprint}");
    assert!(ca("remove").await?.stdout.contains("removed"));
    assert!(ca("remove").await?.stdout.contains("there was none"));
    assert_ne!(first, ca("export").await?.stdout);
    Ok(())
}
