//! Bodies of requests that open a tunnel, which must not be parsed as requests.
use anyhow::Result;
use longhaul_tests::client::ask;
use tokio::time::timeout;

use super::{
    HOST, assert_other_client_served,
    attacker::{Attacker, END_HEADERS, HEADERS, RST_STREAM, frame},
    site,
};
use crate::{https::Accelerated, pair::LIMIT};

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
