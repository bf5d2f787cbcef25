//! Access control of the agent's ports, and the targets of its direct fallback.
mod control_port;
mod direct_fallback;
mod listener;

use std::{net::SocketAddr, os::unix::fs::MetadataExt as _, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::origin::Origin;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Command,
    time::timeout,
};

use crate::{
    content::ok,
    pair::{LIMIT, Pair, Setup, control},
};

/// The user `nobody`, which has no rights on any Linux system.
const NOBODY: u32 = 65_534;

/// True if this test can act as another user; prints a note if not.
fn can_act_as_nobody() -> Result<bool> {
    let is_root = std::fs::metadata("/proc/self")?.uid() == 0;
    if !is_root {
        println!("NOT TESTED: only root can be another user; run this test as root");
    }
    Ok(is_root)
}

/// Response of a port to bytes that user `nobody` sends.
async fn response_to_nobody(to: SocketAddr, bytes: &str) -> Result<String> {
    let talk = format!("exec 3<>/dev/tcp/{}/{} && cat >&3 && cat <&3", to.ip(), to.port());
    let mut child = Command::new("bash")
        .args(["-c", &talk])
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = child.stdin.take().context("stdin")?;
    stdin.write_all(bytes.as_bytes()).await?;
    drop(stdin);
    let output = timeout(LIMIT, child.wait_with_output()).await??;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

async fn hello_origin() -> Result<Origin> {
    Origin::start(
        None,
        |_| {},
        |_: Request<Incoming>| async { ok("text/plain", "hello") },
    )
    .await
}

fn control_request(method: &str, path: &str, at: SocketAddr, fields: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: {at}\r\n{fields}Connection: close\r\n\r\n")
}

fn basic(pair: &str) -> String {
    format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(pair))
}

#[tokio::test(flavor = "multi_thread")]
async fn other_users_of_the_machine_are_refused_unless_allowed() -> Result<()> {
    if !can_act_as_nobody()? {
        return Ok(());
    }
    let origin = hello_origin().await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    let fetch = "GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n";
    let connect = "CONNECT site.test:443 HTTP/1.1\r\nHost: site.test:443\r\n\r\n";
    let script = control_request("GET", "/proxy.pac", pair.proxy(), "");
    for asked in [fetch, connect, &script] {
        let answer = response_to_nobody(pair.proxy(), asked).await?;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{asked}: {answer}");
        assert!(answer.contains("listen.users"), "{answer}");
    }
    let at = pair.control()?;
    let origin_field = format!("Origin: http://{at}\r\nContent-Length: 0\r\n");
    let change = control_request("POST", "/pictures?level=low", at, &origin_field);
    for path in ["/", "/status.json", "/proxy.pac"] {
        let answer = response_to_nobody(at, &control_request("GET", path, at, "")).await?;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{path}: {answer}");
    }
    let answer = response_to_nobody(at, &change).await?;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(origin.seen().is_empty(), "a refused request reached the origin");
    // The agent's own user is still served.
    assert_eq!(pair.get("http://site.test/").await?.text(), "hello");
    assert_eq!(pair.status().await?["requests"], 1);

    let open = pair
        .second_agent_with("open", &["--listen-users", "nobody"])
        .await?;
    let answer = response_to_nobody(open.address(), fetch).await?;
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("hello"),
        "{answer}"
    );
    let at = control(&pair.folder().join("open"))?;
    let script = response_to_nobody(at, &control_request("GET", "/proxy.pac", at, "")).await?;
    assert!(script.contains("FindProxyForURL"), "{script}");
    let status = response_to_nobody(at, &control_request("GET", "/status.json", at, "")).await?;
    assert!(status.starts_with("HTTP/1.1 403 "), "{status}");
    Ok(())
}

/// Sends an incomplete request on a new connection, which stays open.
async fn open_with(to: SocketAddr, bytes: &[u8]) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(to).await?;
    stream.write_all(bytes).await?;
    Ok(stream)
}

/// Memory of a process in kilobytes.
fn memory(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .context("VmRSS")?;
    Ok(line
        .split_ascii_whitespace()
        .nth(1)
        .context("a number")?
        .parse()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_incomplete_requests_do_not_exhaust_the_agent() -> Result<()> {
    /// More than the agent's connection limit.
    const CONNECTIONS: usize = 2500;
    let origin = hello_origin().await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    assert_eq!(pair.get("http://site.test/").await?.text(), "hello");
    let before = memory(pair.agent().pid())?;
    for (what, beginning) in [
        ("half a request line", &b"GET http://site.te"[..]),
        (
            "half a head",
            b"GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\nCookie: a",
        ),
        ("half a CONNECT", b"CONNECT site.test:443 HTTP/1.1\r\nHost: si"),
        ("nothing", b""),
    ] {
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS {
            held.push(open_with(pair.proxy(), beginning).await?);
        }
        let answer = timeout(LIMIT, pair.get("http://site.test/")).await;
        assert_eq!(answer.with_context(|| what)??.text(), "hello", "{what}");
        if what == "nothing" {
            // The oldest connections were closed in favour of new ones.
            let mut end = [0];
            let read = timeout(LIMIT, held[0].read(&mut end)).await?;
            assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
        }
        let now = memory(pair.agent().pid())?;
        println!("{CONNECTIONS} connections with {what}: memory {before} kB before, {now} kB after");
        assert!(now < before + 100 * 1024, "{what}");
    }
    Ok(())
}
