//! Clients that reject the agent's certificates, and hosts that request client certificates: both bypass
//! acceleration.
use std::{net::SocketAddr, sync::Arc};

use anyhow::{Result, ensure};
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_chromium::{Browser, BrowserOptions, LoadOptions};
use longhaul_tests::{
    authority::{Clients, ServerOptions, TestAuthority},
    origin::{AnswerBody, Origin},
    process::run,
};
use rustls::ClientConnection;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsConnector;

use super::{Accelerated, LOAD_LIMIT, client_config, exchange, load, open, trusting};
use crate::{content::ok, pair::COMMAND_LIMIT};

const GET: &str = "GET / HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n";
const REASON_REFUSED: &str = "a program does not accept this device's certificates";
const REASON_CLOSED: &str = "a program closes its connections when it receives this device's certificates";
const REASON_CLIENT_CERTIFICATE: &str = "it requests a client certificate";

async fn answer(request: Request<Incoming>) -> Response<AnswerBody> {
    let way = if request.headers().contains_key("via") {
        "the gateway"
    } else {
        "a tunnel"
    };
    ok(
        "text/html",
        format!("<!doctype html><title>Origin</title><link rel=icon href=data:,><p>through {way}"),
    )
}

async fn origin(authority: &TestAuthority, hosts: &[&str], clients: Clients) -> Result<Origin> {
    let options = ServerOptions {
        clients,
        ..ServerOptions::default()
    };
    Origin::start(Some(authority.server_with(hosts, &options)?), |_| {}, answer).await
}

/// Sends a ClientHello and closes the connection without an alert when the agent's certificate arrives.
async fn close_at_certificate(proxy: SocketAddr, host: &str, trusted: &str) -> Result<()> {
    let (mut stream, _hello) = send_client_hello(proxy, host, trusted).await?;
    // In TLS 1.3 the ServerHello has about 127 bytes; the certificates follow.
    let mut flight = [0; 600];
    stream.read_exact(&mut flight).await?;
    ensure!(flight[0] == 0x16, "not a TLS handshake");
    Ok(())
}

/// A connection on which a ClientHello has been sent.
async fn send_client_hello(
    proxy: SocketAddr,
    host: &str,
    trusted: &str,
) -> Result<(TcpStream, ClientConnection)> {
    let mut config = client_config(trusted)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut tls = ClientConnection::new(Arc::new(config), host.to_owned().try_into()?)?;
    let mut hello = Vec::new();
    tls.write_tls(&mut hello)?;
    let mut stream = open(proxy, host).await?;
    stream.write_all(&hello).await?;
    Ok((stream, tls))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_pinned_certificates_is_tunnelled_from_its_second_connection_on() -> Result<()> {
    let authority = TestAuthority::new()?;
    let hosts = ["alert.test", "leaves.test", "closes.test"];
    let all = ["alert.test", "leaves.test", "closes.test", "accepted.test"];
    let origin = origin(&authority, &all, Clients::Anybody).await?;
    let names = all.map(|host| (host, origin.address()));
    let mut site = Accelerated::start(&names, &authority, "all").await?;
    let ours = site.exported_authority().await?;
    let proxy = site.pair.proxy();
    // The program has the authority, and has pinned certificates of some hosts.
    let accepted = site.get("accepted.test", "/", "").await?;
    assert!(accepted.ends_with("through the gateway"), "{accepted}");

    // The first client sends an alert.
    let first = site.connect("alert.test", authority.pem(), &[b"http/1.1"]).await;
    assert!(first.is_err(), "this client trusts only the origin's authority");
    assert_eq!(site.wait_until_bypassed("alert.test").await?, REASON_REFUSED);
    // The second client closes the connection when it receives the certificate.
    close_at_certificate(proxy, "leaves.test", authority.pem()).await?;
    assert_eq!(site.wait_until_bypassed("leaves.test").await?, REASON_CLOSED);
    // The third client completes the handshake and then closes, as a client with a pinned key does.
    drop(site.connect("closes.test", &ours, &[b"h2", b"http/1.1"]).await?);
    assert_eq!(site.wait_until_bypassed("closes.test").await?, REASON_CLOSED);

    for host in hosts {
        let stream = site.connect(host, authority.pem(), &[b"http/1.1"]).await?;
        let answer = exchange(stream, &GET.replace("HOST", host)).await?;
        assert!(answer.ends_with("through a tunnel"), "{host}: {answer}");
    }

    // The bypassed hosts survive a restart of the agent.
    let before = site.bypassed_hosts().await?;
    assert_eq!(before.len(), hosts.len());
    site.pair.end().await?;
    site.pair.start_gateway().await?;
    site.pair.start_agent().await?;
    assert_eq!(site.bypassed_hosts().await?, before);
    let stream = site
        .connect("leaves.test", authority.pem(), &[b"http/1.1"])
        .await?;
    let answer = exchange(stream, &GET.replace("HOST", "leaves.test")).await?;
    assert!(answer.ends_with("through a tunnel"), "{answer}");
    Ok(())
}

/// Runs curl through the agent; trusts only the origin's authority.
async fn curl(site: &Accelerated, authority: &TestAuthority, url: &str) -> Result<std::process::Output> {
    let trusted = site.pair.folder().join("origin.pem");
    std::fs::write(&trusted, authority.pem())?;
    let mut command = tokio::process::Command::new("curl");
    command
        .args(["--silent", "--show-error", "--max-time", "30", "--proxy"])
        .arg(format!("http://{}", site.pair.proxy()))
        .arg("--cacert")
        .arg(trusted)
        .arg(url);
    Ok(command.output().await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_without_the_authority_fails_once_in_all_and_only_for_itself() -> Result<()> {
    let authority = TestAuthority::new()?;
    let hosts = ["safe.test", "second.test", "third.test"];
    let origin = origin(&authority, &hosts, Clients::Anybody).await?;
    let names = hosts.map(|host| (host, origin.address()));
    let mut site = Accelerated::start(&names, &authority, "all").await?;
    let state = site.pair.folder().join("agent").display().to_string();
    let https = async |arguments: &[&str]| -> Result<String> {
        let arguments = [&["https"][..], arguments, &["--state-dir", state.as_str()]].concat();
        let done = run("longhaul-agent", &arguments, COMMAND_LIMIT).await?;
        ensure!(done.code == Some(0), "{done:?}");
        Ok(done.stdout)
    };
    if let Err(error) = curl(&site, &authority, "https://safe.test/").await {
        println!("SKIPPED: curl cannot be run: {error:#}");
        return Ok(());
    }
    assert_eq!(site.wait_until_bypassed("safe.test").await?, REASON_REFUSED);
    // The next attempts of curl use tunnels, also to other hosts, and after a restart.
    for host in hosts {
        let second = curl(&site, &authority, &format!("https://{host}/")).await?;
        let answer = String::from_utf8_lossy(&second.stdout).into_owned();
        assert!(
            answer.ends_with("through a tunnel"),
            "{host}: {answer} {second:?}"
        );
    }
    let list = https(&["list"]).await?;
    assert!(
        list.starts_with("safe.test  for another ")
            && list.contains("only for curl/")
            && list.ends_with("and for it at all other hosts\n"),
        "{list}"
    );
    site.pair.end().await?;
    site.pair.start_gateway().await?;
    site.pair.start_agent().await?;
    let later = curl(&site, &authority, "https://third.test/").await?;
    let answer = String::from_utf8_lossy(&later.stdout).into_owned();
    assert!(answer.ends_with("through a tunnel"), "{answer} {later:?}");
    // Other programs are accelerated.
    let mut browser = site.browser(&[authority.pin()]).await?;
    for _ in 0..2 {
        let loaded = load(&mut browser, "https://safe.test/").await?;
        assert!(loaded.text.contains("through the gateway"), "{}", loaded.text);
    }
    let program = site.get("safe.test", "/", "").await?;
    assert!(program.ends_with("through the gateway"), "{program}");
    assert!(
        https(&["forget", "other.test"])
            .await?
            .contains("no host was bypassed")
    );
    assert_eq!(site.bypassed_hosts().await?.len(), 1);
    assert!(
        https(&["forget", "safe.test"])
            .await?
            .contains("one bypass is forgotten")
    );
    assert_eq!(site.bypassed_hosts().await?, []);
    assert_eq!(https(&["list"]).await?, "no host is bypassed\n");
    // curl gets the agent's certificate again.
    let third = curl(&site, &authority, "https://safe.test/").await?;
    assert!(!third.status.success(), "{third:?}");
    site.wait_until_bypassed("safe.test").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_without_the_authority_fails_at_most_once_and_recovers() -> Result<()> {
    let authority = TestAuthority::new()?;
    let hosts = ["first.test", "second.test", "third.test"];
    let origin = origin(&authority, &hosts, Clients::Anybody).await?;
    let names = hosts.map(|host| (host, origin.address()));
    let site = Accelerated::start(&names, &authority, "all").await?;
    let mut options = BrowserOptions::behind(site.pair.proxy());
    options.trust_spki = vec![authority.pin().to_owned()];
    let mut browser = Browser::start(&options).await?;
    // Chromium opens a second connection if the first one takes long. If that one is the first to be refused, the
    // page loads at once.
    let first = LoadOptions::within(LOAD_LIMIT);
    match browser.load("https://first.test/", &first).await {
        Ok(loaded) => assert!(loaded.text.contains("through a tunnel"), "{}", loaded.text),
        Err(error) => {
            let words = format!("{error:#}");
            assert!(words.contains("ERR_CERT_AUTHORITY_INVALID"), "{words}");
        }
    }
    assert_eq!(site.wait_until_bypassed("first.test").await?, REASON_REFUSED);
    for host in hosts {
        let loaded = load(&mut browser, &format!("https://{host}/")).await?;
        assert!(
            loaded.text.contains("through a tunnel"),
            "{host}: {}",
            loaded.text
        );
    }
    // The user imports the authority; the bypass ends after an hour, or now.
    site.forget_bypasses().await?;
    let mut browser = site.browser(&[authority.pin()]).await?;
    for host in hosts {
        let loaded = load(&mut browser, &format!("https://{host}/")).await?;
        assert!(
            loaded.text.contains("through the gateway"),
            "{host}: {}",
            loaded.text
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn bypasses_are_listed_and_forgotten_without_a_running_agent() -> Result<()> {
    let authority = TestAuthority::new()?;
    let origin = origin(&authority, &["safe.test"], Clients::Anybody).await?;
    let mut site = Accelerated::start(&[("safe.test", origin.address())], &authority, "all").await?;
    let refused = site.connect("safe.test", authority.pem(), &[b"http/1.1"]).await;
    assert!(refused.is_err());
    site.wait_until_bypassed("safe.test").await?;
    site.pair.end().await?;
    let state = site.pair.folder().join("agent").display().to_string();
    let https = async |verb: &str| -> Result<String> {
        let arguments = ["https", verb, "--state-dir", &state];
        let done = run("longhaul-agent", &arguments, COMMAND_LIMIT).await?;
        ensure!(done.code == Some(0), "{done:?}");
        Ok(done.stdout)
    };
    let list = https("list").await?;
    assert!(
        list.starts_with("safe.test  for another ") && list.contains(REASON_REFUSED),
        "{list}"
    );
    assert!(https("forget").await?.contains("one bypass is forgotten"));
    assert_eq!(https("list").await?, "no host is bypassed\n");
    site.pair.start_gateway().await?;
    site.pair.start_agent().await?;
    assert_eq!(site.bypassed_hosts().await?, []);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_closes_without_an_alert_does_not_bypass_the_host() -> Result<()> {
    let authority = TestAuthority::new()?;
    let origin = origin(&authority, &["safe.test"], Clients::Anybody).await?;
    let site = Accelerated::start(&[("safe.test", origin.address())], &authority, "all").await?;
    let ours = site.exported_authority().await?;
    let proxy = site.pair.proxy();
    // Opened in advance and closed without a byte.
    drop(site.open("safe.test").await?);
    // Closed before another handshake of the same host completes.
    let (mut first, hello) = send_client_hello(proxy, "safe.test", &ours).await?;
    // The agent has begun this handshake.
    first.read_u8().await?;
    close_at_certificate(proxy, "safe.test", &ours).await?;
    let stands = site.get("safe.test", "/", "").await?;
    assert!(stands.ends_with("through the gateway"), "{stands}");
    drop((first, hello));
    // Closed after another handshake of the same host has completed.
    close_at_certificate(proxy, "safe.test", &ours).await?;
    for _ in 0..3 {
        let again = site.get("safe.test", "/", "").await?;
        assert!(again.ends_with("through the gateway"), "{again}");
    }
    assert_eq!(site.bypassed_hosts().await?, []);
    Ok(())
}

/// Opens a connection and sends nothing until the agent has opened a tunnel for it.
async fn open_until_tunnelled(site: &Accelerated, host: &str) -> Result<TcpStream> {
    let tunnels = |status: &Value| status["tunnels"].as_u64().unwrap_or_default();
    let before = tunnels(&site.pair.status().await?);
    let stream = site.open(host).await?;
    site.pair.status_until(|status| tunnels(status) > before).await?;
    Ok(stream)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_late_is_tunnelled_and_the_next_one_accelerated() -> Result<()> {
    let authority = TestAuthority::new()?;
    let origin = origin(&authority, &["safe.test"], Clients::Anybody).await?;
    // A host of a protocol in which the server sends first.
    let greeter = TcpListener::bind("127.0.0.1:0").await?;
    let names = [
        ("safe.test", origin.address()),
        ("mail.test", greeter.local_addr()?),
    ];
    let site = Accelerated::start(&names, &authority, "all").await?;
    let stream = open_until_tunnelled(&site, "safe.test").await?;
    let mut config = client_config(authority.pem())?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let tls = TlsConnector::from(Arc::new(config)).connect("safe.test".try_into()?, stream);
    let answer = exchange(tls.await?, &GET.replace("HOST", "safe.test")).await?;
    assert!(answer.ends_with("through a tunnel"), "{answer}");
    let answer = site.get("safe.test", "/", "").await?;
    assert!(answer.ends_with("through the gateway"), "{answer}");
    assert_eq!(site.bypassed_hosts().await?, []);

    let mut stream = open_until_tunnelled(&site, "mail.test").await?;
    let (mut host, _) = greeter.accept().await?;
    host.write_all(b"220 ready").await?;
    let mut greeting = [0; 9];
    stream.read_exact(&mut greeting).await?;
    assert_eq!(&greeting, b"220 ready");
    assert_eq!(
        site.wait_until_bypassed("mail.test").await?,
        "its protocol is not HTTP"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_requests_a_client_certificate_is_tunnelled_on_the_second_attempt() -> Result<()> {
    let authority = TestAuthority::new()?;
    let asking = [("wants.test", Clients::Asked), ("needs.test", Clients::Certified)];
    let mut origins = Vec::new();
    for (host, clients) in asking {
        origins.push((host, origin(&authority, &[host], clients).await?));
    }
    let names: Vec<_> = origins
        .iter()
        .map(|(host, origin)| (*host, origin.address()))
        .collect();
    let site = Accelerated::start(&names, &authority, "all").await?;
    for (host, origin) in &origins {
        let host = *host;
        // The first attempt is accelerated, and the agent has no client certificate.
        let first = site.get(host, "/", "").await?;
        assert!(first.starts_with("HTTP/1.1 307"), "{host}: {first}");
        assert!(
            first.contains("requests a certificate from you"),
            "{host}: {first}"
        );
        assert!(first.contains("TlsClientCertificate"), "{host}: {first}");
        assert!(
            origin.seen().is_empty(),
            "{host}: the origin received a request without a client certificate"
        );
        assert_eq!(site.wait_until_bypassed(host).await?, REASON_CLIENT_CERTIFICATE);
        // The second attempt is tunnelled.
        let (chain, key) = authority.client()?;
        let mut config = trusting(authority.pem())?.with_client_auth_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let stream = site.connect_as(host, config).await?;
        let second = exchange(stream, &GET.replace("HOST", host)).await?;
        assert!(second.ends_with("through a tunnel"), "{host}: {second}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_loads_a_host_that_requests_a_client_certificate() -> Result<()> {
    let authority = TestAuthority::new()?;
    let origin = origin(&authority, &["wants.test"], Clients::Asked).await?;
    let site = Accelerated::start(&[("wants.test", origin.address())], &authority, "all").await?;
    let mut browser = site.browser(&[authority.pin()]).await?;
    let loaded = load(&mut browser, "https://wants.test/").await?;
    assert!(
        loaded.text.contains("through a tunnel"),
        "the first load did not use a tunnel: {}",
        loaded.text
    );
    assert_eq!(
        site.wait_until_bypassed("wants.test").await?,
        REASON_CLIENT_CERTIFICATE
    );
    let pages = origin.seen().iter().filter(|seen| seen.path == "/").count();
    assert_eq!(pages, 1, "the origin received one request for the page");
    Ok(())
}
