//! HTTP/2 attacks by a client on the agent's machine, and upgrades with bodies.
//!
//! The frames are encoded by hand, because HTTP/2 libraries do not send invalid sequences.
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use longhaul_tests::{authority::TestAuthority, client::ask, origin::Origin};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use crate::{
    content::{noise, ok},
    https::Accelerated,
    pair::LIMIT,
};

/// Host of the attacks.
const HOST: &str = "safe.test";
/// Host of another client's requests.
const OTHER_HOST: &str = "calm.test";
/// Frame types and flags (RFC 9113 section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Maximum growth of the agent's memory for one hostile client, in kilobytes: 128 streams, each with a send
/// buffer and several windows of a response.
const MAX_MEMORY_GROWTH: u64 = 96 * 1024;

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A GET encoded with HPACK without dynamic table: static entries, and literals that are not indexed.
fn get(path: &str) -> Vec<u8> {
    // :method GET, :scheme https.
    let mut block = vec![0x82, 0x87];
    // :authority and :path, with names of the static table.
    for (name, value) in [(1, HOST), (4, path)] {
        block.push(name);
        block.push(u8::try_from(value.len()).expect("a short value"));
        block.extend(value.as_bytes());
    }
    block
}

/// A hostile client.
struct Attacker(TlsStream<TcpStream>);

impl Attacker {
    /// Opens a connection with these settings (RFC 9113 section 6.5.1).
    async fn connect(site: &Accelerated, settings: &[(u16, u32)]) -> Result<Self> {
        let stream = site
            .connect(HOST, &site.exported_authority().await?, &[b"h2"])
            .await?;
        // Without Nagle's algorithm, so that attacks of many small writes are fast.
        stream.get_ref().0.set_nodelay(true)?;
        let mut attacker = Self(stream);
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend(name.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        attacker.send(PREFACE).await?;
        attacker.send(&frame(SETTINGS, 0, 0, &payload)).await?;
        Ok(attacker)
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        timeout(LIMIT, self.write(bytes))
            .await
            .context("nothing is taken")?
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).await?;
        // TLS may buffer written data.
        Ok(self.0.flush().await?)
    }

    /// Writes the bytes up to `times` times while the peer reads; returns the number of writes.
    async fn flood(&mut self, times: usize, bytes: &[u8]) -> usize {
        for time in 0..times {
            // A peer that reads nothing for this time has stopped reading, which also ends the attack.
            match timeout(Duration::from_secs(2), self.write(bytes)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return time,
            }
        }
        times
    }

    async fn next(&mut self) -> Result<Frame> {
        let mut head = [0; 9];
        timeout(LIMIT, self.0.read_exact(&mut head))
            .await
            .context("no frame")??;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).await?;
        Ok(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        })
    }

    /// Reads until a frame meets the condition.
    async fn until(&mut self, fits: impl Fn(&Frame) -> bool) -> Result<Frame> {
        loop {
            let frame = self.next().await?;
            if fits(&frame) {
                return Ok(frame);
            }
        }
    }

    /// Waits until the agent has processed all earlier frames.
    async fn wait_until_processed(&mut self) -> Result<()> {
        self.send(&frame(PING, 0, 0, b"attacker")).await?;
        self.until(|frame| frame.kind == PING && frame.flags & ACK != 0)
            .await?;
        Ok(())
    }

    /// Waits for the end of the connection; true if it ends, with or without GOAWAY.
    async fn is_ended(&mut self) -> bool {
        self.until(|frame| frame.kind == GOAWAY).await.is_ok() || self.next().await.is_err()
    }
}

/// A site with an endless response, a large one, and short ones for all other paths.
async fn site() -> Result<(Origin, Accelerated)> {
    let authority = TestAuthority::new()?;
    let origin = Origin::start(
        Some(authority.server(&[HOST, OTHER_HOST])?),
        |_| {},
        |request: Request<Incoming>| async move {
            match request.uri().path() {
                "/never" => std::future::pending().await,
                path if path.starts_with("/large") => {
                    ok("application/octet-stream", noise(2_000_000, path.len() as u64))
                }
                _ => {
                    let (parts, body) = request.into_parts();
                    let body = body
                        .collect()
                        .await
                        .map(|body| body.to_bytes())
                        .unwrap_or_default();
                    let fields = parts.headers.get("upgrade").map(|_| "with an upgrade");
                    ok(
                        "text/plain",
                        format!(
                            "{} {} {}",
                            parts.uri.path(),
                            body.len(),
                            fields.unwrap_or("plain")
                        ),
                    )
                }
            }
        },
    )
    .await?;
    let names = [HOST, OTHER_HOST].map(|host| (host, origin.address()));
    let site = Accelerated::start(&names, &authority, "all").await?;
    // The session and the first connections allocate memory before the attack.
    assert_other_client_served(&site, "before").await?;
    Ok((origin, site))
}

/// Checks that another client is served.
async fn assert_other_client_served(site: &Accelerated, what: &str) -> Result<()> {
    let answer = timeout(LIMIT, site.get(OTHER_HOST, "/other", "")).await;
    let answer = answer.with_context(|| format!("{what}: no response"))??;
    ensure!(answer.contains("/other 0 plain"), "{what}: {answer}");
    Ok(())
}

/// Peak memory of the agent in kilobytes.
fn peak_memory(site: &Accelerated) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", site.pair.agent().pid()))?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .context("VmHWM")?;
    Ok(line
        .split_ascii_whitespace()
        .nth(1)
        .context("a number")?
        .parse()?)
}

/// Checks that memory stays bounded during an attack and that other clients are served.
async fn assert_bounded(site: &Accelerated, before: u64, what: &str) -> Result<()> {
    assert_other_client_served(site, what).await?;
    let now = peak_memory(site)?;
    println!("{what}: peak {before} kB before, {now} kB after");
    assert!(
        now < before + MAX_MEMORY_GROWTH,
        "{what}: {before} kB before, {now} kB after"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_and_resetting_streams_ends_the_connection() -> Result<()> {
    let (origin, site) = site().await?;
    let before = peak_memory(&site)?;
    // In one write: the streams are reset before the agent has handled the requests (CVE-2023-44487).
    let mut attacker = Attacker::connect(&site, &[]).await?;
    let mut burst = Vec::new();
    for number in 0..100_000_u32 {
        let stream = 2 * number + 1;
        burst.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &get("/never")));
        burst.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    let sent = attacker.flood(1, &burst).await;
    assert!(
        sent == 0 || attacker.is_ended().await,
        "the connection is still open"
    );
    assert_bounded(&site, before, "rapid resets").await?;
    assert!(origin.seen().len() < 10_000, "{} requests", origin.seen().len());

    // One at a time: each request is in progress when its stream is reset.
    let mut attacker = Attacker::connect(&site, &[]).await?;
    let attack = async {
        for number in 0..20_000_u32 {
            let stream = 2 * number + 1;
            attacker
                .send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &get("/never")))
                .await?;
            attacker.wait_until_processed().await?;
            attacker
                .send(&frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()))
                .await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    assert!(attack.await.is_err(), "20,000 requests were cancelled");
    assert_bounded(&site, before, "resets one at a time").await
}

#[tokio::test(flavor = "multi_thread")]
async fn header_floods_end_the_connection() -> Result<()> {
    let (_origin, site) = site().await?;
    let before = peak_memory(&site)?;
    let field = {
        // A literal field without indexing.
        let mut field = vec![0x00, 1, b'a', 0x7f, 0x81, 0x7e];
        // Length 127 + 16,129: 16,256 bytes.
        field.extend(vec![b'x'; 16_256]);
        field
    };
    // The header section never ends.
    let mut attacker = Attacker::connect(&site, &[]).await?;
    attacker.send(&frame(HEADERS, END_STREAM, 1, &get("/"))).await?;
    let empty = frame(CONTINUATION, 0, 1, &[]);
    let sent = attacker.flood(1_000_000, &empty.repeat(100)).await;
    assert!(sent < 1_000_000, "100,000,000 CONTINUATION frames were taken");
    assert_bounded(&site, before, "empty CONTINUATION frames").await?;

    let mut attacker = Attacker::connect(&site, &[]).await?;
    attacker.send(&frame(HEADERS, END_STREAM, 1, &get("/"))).await?;
    let sent = attacker.flood(10_000, &frame(CONTINUATION, 0, 1, &field)).await;
    assert!(sent < 10_000, "160 MB of CONTINUATION frames were taken");
    assert_bounded(&site, before, "long CONTINUATION frames").await?;

    // Amplification by the dynamic table: one large entry and many references to it.
    let mut attacker = Attacker::connect(&site, &[]).await?;
    let mut bomb = get("/bomb");
    // Literal with indexing of 3,900 bytes: length 127 + 3,773.
    bomb.extend([0x40, 1, b'a', 0x7f, 0xbd, 0x1d]);
    bomb.extend(vec![b'x'; 3_900]);
    // The newest entry of the dynamic table has index 62.
    bomb.extend(vec![0xbe; 12_000]);
    attacker
        .send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb))
        .await?;
    let refused = attacker
        .until(|frame| frame.stream == 1 || frame.kind == GOAWAY)
        .await;
    if let Ok(answer) = refused {
        // Status 431, by index 8 of the static table or as a literal, or a reset; never data of the origin.
        assert!(
            answer.kind != DATA,
            "the agent accepted the header bomb: {:?}",
            answer.payload
        );
    }
    assert_bounded(&site, before, "a header bomb").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_costs_bounded_memory() -> Result<()> {
    let (_origin, site) = site().await?;
    let before = peak_memory(&site)?;
    // Flow-control windows of zero bytes, and the largest windows on a connection that is not read.
    for (what, settings) in [
        ("no window", &[(4_u16, 0_u32)][..]),
        ("a large window that is not read", &[(4, 0x7fff_ffff)]),
    ] {
        let mut attacker = Attacker::connect(&site, settings).await?;
        attacker
            .send(&frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes()))
            .await?;
        for number in 0..128_u32 {
            let path = format!("/large?{what}{number}").replace(' ', "-");
            attacker
                .send(&frame(
                    HEADERS,
                    END_HEADERS | END_STREAM,
                    2 * number + 1,
                    &get(&path),
                ))
                .await?;
        }
        if what == "no window" {
            // Wait until some responses have heads and wait for a window.
            for _ in 0..8 {
                attacker.until(|frame| frame.kind == HEADERS).await?;
            }
        }
        for time in 0..5 {
            assert_bounded(&site, before, &format!("{what}, look {time}")).await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_frames_with_replies_cost_bounded_memory() -> Result<()> {
    let (_origin, site) = site().await?;
    let before = peak_memory(&site)?;
    for (what, flood) in [
        ("PING", frame(PING, 0, 0, b"attacker")),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff])),
        ("empty SETTINGS", frame(SETTINGS, 0, 0, &[])),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes())),
        ("PRIORITY", frame(2, 0, 1, &[0, 0, 0, 0, 1])),
        ("unknown frames", frame(0xfa, 0, 0, &[0; 64])),
    ] {
        // The attacker reads nothing, so that replies accumulate at the agent.
        let mut attacker = Attacker::connect(&site, &[]).await?;
        let sent = attacker.flood(300, &flood.repeat(2000)).await;
        println!("{what}: {} frames", sent * 2000);
        assert_bounded(&site, before, what).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_above_the_limit_are_refused_and_the_rest_served() -> Result<()> {
    let (_origin, site) = site().await?;
    let before = peak_memory(&site)?;
    let mut attacker = Attacker::connect(&site, &[]).await?;
    // Few enough that the agent does not close the connection.
    for number in 0..200_u32 {
        attacker
            .send(&frame(
                HEADERS,
                END_HEADERS | END_STREAM,
                2 * number + 1,
                &get("/never"),
            ))
            .await?;
    }
    let refused = attacker
        .until(|frame| frame.kind == RST_STREAM || frame.kind == GOAWAY)
        .await?;
    assert!(
        refused.kind == GOAWAY || refused.payload == 7_u32.to_be_bytes(),
        "REFUSED_STREAM"
    );
    assert_bounded(&site, before, "200 streams").await
}

/// Response to these bytes of an HTTP/1.1 client in TLS.
async fn exchange(site: &Accelerated, bytes: &str) -> Result<String> {
    let stream = site
        .connect(HOST, &site.exported_authority().await?, &[b"http/1.1"])
        .await?;
    timeout(LIMIT, crate::https::exchange(stream, bytes)).await?
}

#[tokio::test(flavor = "multi_thread")]
async fn the_body_of_an_upgrade_request_is_not_parsed_as_a_request() -> Result<()> {
    let (origin, site) = site().await?;
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: safe.test\r\n\r\n";
    let chunked = format!("{:x}\r\n{smuggled}\r\n0\r\n\r\n", smuggled.len());
    for (framing, body) in [
        (format!("Content-Length: {}", smuggled.len()), smuggled),
        ("Transfer-Encoding: chunked".to_owned(), &*chunked),
    ] {
        for method in ["GET", "POST"] {
            let asked = format!(
                "{method} /socket HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\
                 {framing}\r\nProxy-Authorization: Basic c2VjcmV0\r\n\r\n{body}"
            );
            let answer = exchange(&site, &asked).await?;
            assert!(
                answer.starts_with("HTTP/1.1 200 "),
                "{method} {framing}: {answer}"
            );
            assert!(answer.contains(" plain"), "{method} {framing}: {answer}");
            // The body of a GET without `Content-Length` is not forwarded, with or without an upgrade.
            if method == "POST" || framing.starts_with("Content-Length") {
                let expected = format!("/socket {} plain", smuggled.len());
                assert!(answer.contains(&expected), "{method} {framing}: {answer}");
            }
            assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
        }
    }
    // An upgrade without body is forwarded, with or without `Content-Length: 0`.
    for length in ["", "Content-Length: 0\r\n"] {
        let asked = format!(
            "GET /socket HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{length}\r\n\
             GET /second HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n"
        );
        let answer = exchange(&site, &asked).await?;
        assert!(answer.contains("/socket 0 with an upgrade"), "{answer}");
        assert!(answer.contains("/second 0 plain"), "{answer}");
    }
    for seen in origin.seen() {
        assert_ne!(seen.path, "/smuggled");
        assert!(!seen.headers.contains_key("proxy-authorization"), "{seen:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connect_request_with_a_body_is_refused() -> Result<()> {
    let (origin, site) = site().await?;
    let before = origin.seen().len();
    for (host, framing) in [
        (HOST, "Content-Length: 5"),
        ("other.test", "Content-Length: 5"),
        (HOST, "Transfer-Encoding: chunked"),
        ("other.test", "Transfer-Encoding: chunked"),
    ] {
        let asked = format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n{framing}\r\n\r\nhello");
        let answer = ask(site.pair.proxy(), asked).await?;
        assert_eq!(answer.status, 400, "{host} {framing}: {}", answer.text());
    }
    // A CONNECT request to an accelerated host is refused in both versions of HTTP.
    let answer = exchange(
        &site,
        &format!("CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\nConnection: close\r\n\r\n"),
    )
    .await?;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let mut attacker = Attacker::connect(&site, &[]).await?;
    // :method CONNECT and :authority only (RFC 9113 section 8.5).
    let mut block = vec![0x02, 7];
    block.extend(b"CONNECT\x01\x0d");
    block.extend(b"safe.test:443");
    attacker.send(&frame(HEADERS, END_HEADERS, 1, &block)).await?;
    let answer = attacker
        .until(|frame| frame.stream == 1 && matches!(frame.kind, HEADERS | RST_STREAM))
        .await?;
    // Index 12 of the static table is status 400.
    let is_refused = answer.kind == RST_STREAM || answer.payload.first() == Some(&0x8c);
    assert!(is_refused, "{:?}", answer.payload);
    assert_eq!(
        origin.seen().len(),
        before,
        "the refused request reached the origin"
    );
    assert_other_client_served(&site, "after all").await?;
    Ok(())
}
