//! Requests that two parsers could read differently are refused, and end the connection.
use bytes::BytesMut;
use longhaul_clientless::{ChunkEvent, ChunkedDecoder, HeadReader, RequestTarget};

use super::{exchange, start, status};
use crate::store::numbered;

#[tokio::test]
async fn ambiguous_requests_are_refused_and_end_the_connection() {
    let (_gateway, proxy) = start().await;
    let (url, log) = numbered(&[]).await;
    let host = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    // What a parser that disagrees would take for a second request.
    let hidden = format!("GET http://{host}/hidden HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let corpus = corpus(&url, &host);
    for (name, request) in &corpus {
        let answer = exchange(proxy, &[request.as_slice(), hidden.as_bytes()].concat()).await;
        let text = String::from_utf8_lossy(&answer);
        assert!([400, 431].contains(&status(&answer)), "{name}: {text}");
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{name}: {text}");
        assert!(
            text.to_ascii_lowercase().contains("connection: close"),
            "{name}: {text}"
        );
    }
    assert_eq!(log.count(), 0);
    assert!(corpus.len() > 50);
}

/// Names and bytes of requests.
fn corpus(url: &str, host: &str) -> Vec<(String, Vec<u8>)> {
    let mut corpus = Vec::new();
    let mut add = |name: &str, bytes: &[u8]| corpus.push((name.to_owned(), bytes.to_vec()));
    let good = format!("POST {url} HTTP/1.1\r\nHost: {host}\r\n");
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length: \r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length: 5\r\n\tfolded: 1\r\n",
        "Content-Length : 5\r\n",
        "Content-Length\t: 5\r\n",
        " Content-Length: 5\r\n",
        "Content-Length: 5\rX: 1\r\n",
        "Content-Length: 5\nX: 1\r\n",
        "Content-Length: 5\x0b\r\n",
        "Content-Length: 5\0\r\n",
        "Content\x01-Length: 5\r\n",
        "Content-Length;: 5\r\n",
        ": 5\r\n",
        "no colon\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding:\x0bchunked\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
        "Connection: Content-Length\r\nContent-Length: 5\r\n",
        "Connection: close, Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n",
        "Connection: Host\r\n",
        "Host: other.test\r\n",
    ] {
        add(fields, format!("{good}{fields}\r\n").as_bytes());
    }
    for (line, told) in [
        (format!("GET {url} HTTP/1.1"), "Host: other.test"),
        (format!("GET {url} HTTP/1.1"), "Host: a.test:1"),
        (format!("GET {url} HTTP/1.1"), "Host: a.test@other.test"),
        (format!("GET {url} HTTP/1.1"), "Host:"),
        (format!("GET {url} HTTP/1.1"), "X: 1"),
        (format!("GET {url} HTTP/1.1"), "Host: a b"),
        (format!("GET  {url} HTTP/1.1"), "Host: HOST"),
        (format!("GET {url}  HTTP/1.1"), "Host: HOST"),
        (format!("GET\t{url}\tHTTP/1.1"), "Host: HOST"),
        (format!(" GET {url} HTTP/1.1"), "Host: HOST"),
        (format!("GET {url} HTTP/1.1 x"), "Host: HOST"),
        (format!("GET {url} HTTP/2.0"), "Host: HOST"),
        (format!("GET {url} HTTP/1.2"), "Host: HOST"),
        (format!("GET {url} http/1.1"), "Host: HOST"),
        (format!("GET {url}"), "Host: HOST"),
        (format!("G@T {url} HTTP/1.1"), "Host: HOST"),
        (format!("GET {url}#fragment HTTP/1.1"), "Host: HOST"),
        (format!("GET {url}\x01 HTTP/1.1"), "Host: HOST"),
        (format!("GET https://{host}/ HTTP/1.1"), "Host: HOST"),
        (format!("GET ftp://{host}/ HTTP/1.1"), "Host: HOST"),
        ("GET http:/// HTTP/1.1".to_owned(), "Host: HOST"),
        (
            "GET http://a.test:99999/ HTTP/1.1".to_owned(),
            "Host: a.test:99999",
        ),
        (format!("GET {host}/ HTTP/1.1"), "Host: HOST"),
        (format!("CONNECT {url} HTTP/1.1"), "Host: HOST"),
        ("CONNECT a.test HTTP/1.1".to_owned(), "Host: a.test"),
        ("CONNECT a.test:443/x HTTP/1.1".to_owned(), "Host: a.test:443"),
        ("CONNECT user@a.test:443 HTTP/1.1".to_owned(), "Host: a.test:443"),
        ("CONNECT a.test:443 HTTP/1.1".to_owned(), "Host: other.test:443"),
        (
            "CONNECT a.test:443 HTTP/1.1".to_owned(),
            "Host: a.test:443\r\nContent-Length: 5",
        ),
    ] {
        let told = told.replace("HOST", host);
        add(
            &format!("{line} / {told}"),
            format!("{line}\r\n{told}\r\n\r\n").as_bytes(),
        );
    }
    add(
        "a bare LF",
        format!("GET {url} HTTP/1.1\nHost: {host}\n\n").as_bytes(),
    );
    add(
        "HTTP/1.0 with a transfer coding",
        format!("POST {url} HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            .as_bytes(),
    );
    add("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n");
    add("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    add("empty lines", b"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n");
    let many = "X: 1\r\n".repeat(300);
    add("many fields", format!("{good}{many}\r\n").as_bytes());
    let long = format!("X: {}\r\n", "x".repeat(100_000));
    add("a large head", format!("{good}{long}\r\n").as_bytes());
    corpus
}

#[tokio::test]
async fn a_malformed_body_reaches_no_origin_completely_and_ends_the_connection() {
    let (_gateway, proxy) = start().await;
    let (url, log) = numbered(&[]).await;
    let host = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let hidden = format!("GET http://{host}/hidden HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for body in [
        "5\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloX0\r\n\r\n",
        "0\r\nTrailer: 1\n\r\n",
    ] {
        let request = format!(
            "POST {url} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n{body}{hidden}"
        );
        let answer = exchange(proxy, request.as_bytes()).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(text.matches("HTTP/1.1 ").count() <= 1, "{body:?}: {text}");
    }
    // The origin answers before it reads the body, so it may see these requests, but never the hidden one.
    assert!(log.count() <= 6);
}

/// The first head in these bytes, which arrive in pieces: method and target, or the error.
fn first_head(wire: &[u8], step: usize) -> Option<Result<(String, RequestTarget), String>> {
    let (mut reader, mut buffer) = (HeadReader::default(), BytesMut::new());
    for piece in wire.chunks(step) {
        buffer.extend_from_slice(piece);
        match reader.next(&mut buffer) {
            Ok(None) => {}
            Ok(Some(head)) => return Some(Ok((head.method.to_string(), head.target))),
            Err(error) => return Some(Err(error.to_string())),
        }
    }
    None
}

#[test]
fn mutated_requests_are_read_alike_however_they_arrive() {
    let url = "http://a.test:8080/x?y=z";
    let mut seeds: Vec<Vec<u8>> = corpus(url, "a.test:8080")
        .into_iter()
        .map(|(_, bytes)| bytes)
        .filter(|bytes| bytes.len() < 1000)
        .collect();
    seeds.push(format!("GET {url} HTTP/1.1\r\nHost: a.test:8080\r\nAccept: */*\r\n\r\n").into_bytes());
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let (mut accepted, mut chunks) = (0, 0);
    for round in 0..20_000 {
        let mut wire = seeds[round % seeds.len()].clone();
        for _ in 0..=random(3) {
            let at = random(wire.len());
            match random(3) {
                0 => wire[at] = b"\r\n :;,\t\0x5"[random(10)],
                1 => drop(wire.remove(at)),
                _ => wire.insert(at, b"\r\n :;,\t\0x5"[random(10)]),
            }
        }
        let whole = first_head(&wire, wire.len());
        let pieces = first_head(&wire, 1 + random(7));
        assert_eq!(whole, pieces, "{}", wire.escape_ascii());
        accepted += usize::from(matches!(whole, Some(Ok(_))));
        let (mut decoder, mut buffer) = (ChunkedDecoder::default(), BytesMut::from(&wire[..]));
        while let Ok(ChunkEvent::Data(bytes)) = decoder.next(&mut buffer) {
            assert!(!bytes.is_empty());
            chunks += 1;
        }
    }
    assert!(accepted > 100, "{accepted}");
    assert!(chunks < 20_000);
}
