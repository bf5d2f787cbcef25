//! HTTP/2 attacks by a client on the agent's machine, and upgrades with bodies.
//!
//! The frames are encoded by hand, because HTTP/2 libraries do not send invalid sequences.
mod attacker;
mod request_bodies;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use longhaul_tests::{authority::TestAuthority, origin::Origin};
use tokio::time::timeout;

use self::attacker::{
    Attacker, CONTINUATION, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, frame, get,
};
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
/// Maximum growth of the agent's memory for one hostile client, in kilobytes: 128 streams, each with a send
/// buffer and several windows of a response.
const MAX_MEMORY_GROWTH: u64 = 96 * 1024;

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
