//! Hosts that do not get along with acceleration: they become tunnels at once, and what the client asked for is
//! repeated there if it can be.
use std::{net::SocketAddr, process::Stdio, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin},
};
use rustls::ServerConfig;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
    process::{Child, Command},
    sync::Notify,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{Accelerated, LOAD_LIMIT, exchange, load};
use crate::{content::ok, pair::LIMIT};

const REASON: &str = "the gateway cannot verify its certificate, or does not get along with its TLS or HTTP";

/// An `openssl s_server`, whose pages show the connection.
struct OpenSsl {
    address: SocketAddr,
    _process: Child,
}

impl OpenSsl {
    async fn start(folder: &TempDir, arguments: &[&str]) -> Result<Self> {
        let mut process = Command::new("openssl")
            .current_dir(folder.path())
            .args([
                "s_server",
                "-accept",
                "127.0.0.1:0",
                "-cert",
                "rsa.pem",
                "-key",
                "rsa.key",
                "-www",
            ])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(process.stdout.take().context("its output")?).lines();
        let address = loop {
            let line = timeout(LIMIT, lines.next_line())
                .await??
                .context("it does not listen")?;
            if let Some(address) = line.strip_prefix("ACCEPT ") {
                break address.parse()?;
            }
        };
        // Its output must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self {
            address,
            _process: process,
        })
    }
}

/// A folder with a key and a certificate for a host, and the hash of the key; `None` if openssl is not installed.
async fn rsa_certificate(host: &str) -> Result<Option<(TempDir, String)>> {
    let folder = TempDir::new()?;
    let shell = format!(
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout rsa.key -out rsa.pem -days 30 -subj /CN={host} \
         -addext subjectAltName=DNS:{host} && openssl x509 -in rsa.pem -noout -pubkey | openssl pkey -pubin -outform der \
         | openssl dgst -sha256 -binary | base64"
    );
    let mut command = Command::new("sh");
    let done = command
        .current_dir(folder.path())
        .args(["-c", &shell])
        .output()
        .await?;
    if !done.status.success() || done.stdout.is_empty() {
        println!("SKIPPED: openssl cannot be run: {done:?}");
        return Ok(None);
    }
    Ok(Some((folder, String::from_utf8(done.stdout)?.trim().to_owned())))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_algorithms_of_browsers_only_loads_in_a_tunnel_at_once() -> Result<()> {
    let Some((folder, pin)) = rsa_certificate("old.test").await? else {
        return Ok(());
    };
    for arguments in [
        ["-tls1_2", "-cipher", "AES128-GCM-SHA256:@SECLEVEL=0"],
        ["-tls1_2", "-cipher", "AES128-SHA:@SECLEVEL=0"],
        ["-tls1_2", "-cipher", "ECDHE-RSA-AES128-SHA:@SECLEVEL=0"],
        // The certificate has no authority.
        ["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"],
    ] {
        let host = OpenSsl::start(&folder, &arguments).await?;
        let authority = TestAuthority::new()?;
        let site = Accelerated::start(&[("old.test", host.address)], &authority, "all").await?;
        let mut browser = site.browser(&[&pin]).await?;
        let loaded = load(&mut browser, "https://old.test/").await?;
        ensure!(loaded.text.contains("s_server"), "{arguments:?}: {}", loaded.text);
        assert_eq!(site.wait_until_bypassed("old.test").await?, REASON);
    }
    Ok(())
}

async fn answer(request: Request<Incoming>) -> Response<AnswerBody> {
    let method = request.method().clone();
    let body = request.into_body().collect().await.map(|body| body.to_bytes());
    let body = String::from_utf8_lossy(&body.unwrap_or_default()).into_owned();
    let mut response = ok(
        "text/html",
        format!("<!doctype html><title>Origin</title><link rel=icon href=data:,><p>{method} {body}"),
    );
    response
        .headers_mut()
        .insert("access-control-allow-origin", http::HeaderValue::from_static("*"));
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_any_method_is_repeated_if_the_host_has_not_received_it() -> Result<()> {
    let (known, unknown) = (TestAuthority::new()?, TestAuthority::new()?);
    let odd = Origin::start(Some(unknown.server(&["odd.test", "post.test"])?), |_| {}, answer).await?;
    let good = Origin::start(Some(known.server(&["good.test"])?), |_| {}, answer).await?;
    let names = [
        ("odd.test", odd.address()),
        ("post.test", odd.address()),
        ("good.test", good.address()),
    ];
    let site = Accelerated::start(&names, &known, "all").await?;
    let mut browser = site.browser(&[unknown.pin()]).await?;
    let post = "fetch('https://odd.test/', { method: 'POST', body: 'x'.repeat(100000) + 'end' }).then(answer => answer.text())
        .then(text => text.slice(-9), error => String(error))";
    let answered = browser.evaluate("https://good.test/", post, LOAD_LIMIT).await?;
    assert_eq!(answered, "xxxxxxend");
    assert_eq!(site.wait_until_bypassed("odd.test").await?, REASON);
    let seen: Vec<_> = odd.seen().into_iter().map(|seen| seen.method).collect();
    assert_eq!(seen, ["POST"]);
    let loaded = load(&mut browser, "https://post.test/").await?;
    assert!(loaded.text.contains("GET"), "{}", loaded.text);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http11_client_is_redirected_to_the_tunnel_or_told_to_repeat() -> Result<()> {
    let (known, unknown) = (TestAuthority::new()?, TestAuthority::new()?);
    let hosts = ["get.test", "head.test", "post.test", "slashes.test"];
    let origin = Origin::start(Some(unknown.server(&hosts)?), |_| {}, answer).await?;
    let names = hosts.map(|host| (host, origin.address()));
    let site = Accelerated::start(&names, &known, "all").await?;
    let ours = site.exported_authority().await?;
    for (host, method, path, status) in [
        ("get.test", "GET", "/a?b=%20c", 307),
        ("head.test", "HEAD", "/", 307),
        ("post.test", "POST", "/", 502),
        ("slashes.test", "GET", "//other.test/", 502),
    ] {
        let stream = site.connect(host, &ours, &[b"http/1.1"]).await?;
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
        // The agent closes the connection of a redirection.
        let request = if status == 307 {
            request
        } else {
            request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
        };
        let answer = timeout(LIMIT, exchange(stream, &request)).await??;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{host}: {answer}"
        );
        let lower = answer.to_lowercase();
        if status == 307 {
            assert!(lower.contains(&format!("location: {path}\r\n")), "{answer}");
        } else {
            assert!(
                answer.contains("Nothing has been sent to the website. Reload the page"),
                "{answer}"
            );
        }
        assert_eq!(site.wait_until_bypassed(host).await?, REASON);
        let stream = site.connect(host, unknown.pem(), &[b"http/1.1"]).await?;
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = exchange(stream, &request).await?;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert!(origin.seen().iter().all(|seen| !seen.headers.contains_key("via")));
    Ok(())
}

/// A host whose answers are no HTTP, except that of `/slow`, which ends when the test says so.
fn broken_host(listener: TcpListener, tls: Arc<ServerConfig>, end: Arc<Notify>) -> JoinHandle<Result<()>> {
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await?;
            let (acceptor, end) = (TlsAcceptor::from(Arc::clone(&tls)), Arc::clone(&end));
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await?;
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await?);
                }
                if head.starts_with(b"GET /slow ") {
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nfour")
                        .await?;
                    stream.flush().await?;
                    end.notified().await;
                    stream.write_all(b"more").await?;
                } else {
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\nA: \0\r\nContent-Length: 0\r\n\r\n")
                        .await?;
                }
                stream.shutdown().await
            });
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_http_makes_a_tunnel_and_ends_no_other_request() -> Result<()> {
    let (authority, end) = (TestAuthority::new()?, Arc::new(Notify::new()));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let host = broken_host(
        listener,
        authority.server(&["safe.test", "post.test"])?,
        Arc::clone(&end),
    );
    let names = [("safe.test", address), ("post.test", address)];
    let site = Accelerated::start(&names, &authority, "all").await?;
    let ours = site.exported_authority().await?;
    let stream = site.connect("safe.test", &ours, &[b"h2"]).await?;
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = |path: &str| Request::get(format!("https://safe.test{path}")).body(Empty::<Bytes>::new());
    let slow = sender.send_request(request("/slow")?).await?;
    assert_eq!(slow.status(), 200);
    // The browser repeats it in a tunnel.
    let refused = sender.send_request(request("/broken")?).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(site.wait_until_bypassed("safe.test").await?, REASON);
    end.notify_one();
    let body = slow.into_body().collect().await?.to_bytes();
    assert_eq!(body, &b"fourmore"[..]);
    drop(sender);
    timeout(LIMIT, connection).await???;

    // The host may have received this request.
    let stream = site.connect("post.test", &ours, &[b"http/1.1"]).await?;
    let post = "POST / HTTP/1.1\r\nHost: post.test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let answer = exchange(stream, post).await?;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert!(answer.contains("may have received the request"), "{answer}");
    assert_eq!(site.wait_until_bypassed("post.test").await?, REASON);
    host.abort();
    Ok(())
}
