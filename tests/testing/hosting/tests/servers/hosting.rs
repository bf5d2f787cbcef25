use std::{
    io::Read as _,
    time::{Duration, Instant, SystemTime},
};

use anyhow::Result;
use longhaul_hosting::{Compression, HostingOptions};
use longhaul_raw_client::RawClient;

use crate::client::{DATE, TEXT, fetch, get, server, until};

#[tokio::test]
async fn known_hosts_are_served_and_unknown_ones_get_421() -> Result<()> {
    let server = server(HostingOptions::default()).await?;
    let mut client = RawClient::connect(server.hosting.plain()[0]).await?;
    for (host, status, seen) in [
        ("a.example", 200, Some("a.example")),
        ("b.EXAMPLE:8080", 200, Some("b.EXAMPLE")),
        ("other.example", 421, None),
    ] {
        client
            .send(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"))
            .await?;
        let answer = client.response().await?;
        assert_eq!((answer.status, answer.field("x-host")), (status, seen));
    }
    // The absolute form takes precedence over Host (RFC 9112 section 3.2.2).
    client
        .send("GET http://a.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n")
        .await?;
    assert_eq!(client.response().await?.body, b"root");
    client
        .send("GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n")
        .await?;
    assert_eq!(client.response().await?.status, 400);

    let statistics = server.hosting.statistics();
    assert_eq!((statistics.connections, statistics.requests), (1, 5));
    // The ambiguous request is also misdirected.
    assert_eq!(statistics.misdirected, 2);
    let a = statistics.hosts["a.example"];
    assert_eq!((a.connections, a.requests, a.body_bytes), (1, 2, 8));
    let b = statistics.hosts["b.example"];
    assert_eq!((b.connections, b.requests, b.body_bytes), (0, 1, 4));
    let exchanges = server.hosting.take_exchanges();
    let urls: Vec<_> = exchanges.iter().map(|exchange| exchange.url.as_str()).collect();
    assert_eq!(
        urls,
        [
            "http://a.example/",
            "http://b.EXAMPLE:8080/",
            "http://other.example/",
            "http://a.example/",
            ""
        ]
    );
    assert_eq!(server.hosting.open_requests().count(), 0);
    Ok(())
}

#[tokio::test]
async fn recorded_fields_are_converted_for_a_live_server() -> Result<()> {
    let server = server(HostingOptions::default()).await?;
    let mut client = RawClient::connect(server.hosting.plain()[0]).await?;
    let answer = fetch(&mut client, "/recorded").await?;
    assert_eq!(answer.body, b"as recorded");
    assert_eq!(answer.all("content-length"), ["11"]);
    assert_eq!(answer.all("set-cookie"), ["a=1", "b=2"]);
    for gone in [
        "connection",
        "keep-alive",
        "x-hop",
        "transfer-encoding",
        "alt-svc",
    ] {
        assert_eq!(answer.field(gone), None, "{gone}");
    }
    let date = httpdate::parse_http_date(answer.field("date").unwrap())?;
    assert!(date.elapsed()? < Duration::from_secs(60));
    let expires = httpdate::parse_http_date(answer.field("expires").unwrap())?;
    assert_eq!(expires.duration_since(date)?, Duration::from_secs(3600));
    Ok(())
}

#[tokio::test]
async fn responses_without_a_body_keep_the_framing_intact() -> Result<()> {
    let server = server(HostingOptions::default()).await?;
    let mut client = RawClient::connect(server.hosting.plain()[0]).await?;
    let nothing = fetch(&mut client, "/nothing").await?;
    assert_eq!((nothing.status, nothing.field("content-length")), (204, None));
    assert_eq!(fetch(&mut client, "/upgrade").await?.status, 404);
    for (path, length) in [("/text", 4400), ("/head-only", 1234)] {
        client.send(&get(path).replace("GET", "HEAD")).await?;
        let head = client.head().await?;
        assert_eq!(head.field("content-length"), Some(length.to_string().as_str()));
    }
    client
        .send("POST /3 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello")
        .await?;
    assert_eq!(client.response().await?.body, b"xxx");
    assert_eq!(fetch(&mut client, "/").await?.body, b"root");
    Ok(())
}

#[tokio::test]
async fn fulfilled_conditions_are_answered_with_304() -> Result<()> {
    let server = server(HostingOptions::default()).await?;
    let mut client = RawClient::connect(server.hosting.plain()[0]).await?;
    let later = httpdate::fmt_http_date(SystemTime::now());
    for (condition, status) in [
        ("If-None-Match: \"v1\"".to_owned(), 304),
        ("If-None-Match: \"v0\", W/\"v1\"".to_owned(), 304),
        ("If-None-Match: *".to_owned(), 304),
        ("If-None-Match: \"v2\"".to_owned(), 200),
        (
            format!("If-None-Match: \"v2\"\r\nIf-Modified-Since: {later}"),
            200,
        ),
        (format!("If-Modified-Since: {DATE}"), 304),
        ("If-Modified-Since: Tue, 20 Oct 2015 07:28:00 GMT".to_owned(), 200),
        ("If-Modified-Since: yesterday".to_owned(), 200),
    ] {
        client
            .send(&format!(
                "GET /text HTTP/1.1\r\nHost: a.example\r\n{condition}\r\n\r\n"
            ))
            .await?;
        let answer = client.response().await?;
        assert_eq!(answer.status, status, "{condition}");
        assert_eq!(answer.field("etag"), Some("\"v1\""));
        assert_eq!(answer.field("cache-control"), Some("max-age=60"));
        if status == 304 {
            assert_eq!(answer.field("content-length"), None);
            assert_eq!(answer.field("content-type"), None);
            assert_eq!(answer.field("last-modified"), None);
        }
    }
    assert_eq!(server.hosting.statistics().hosts["a.example"].not_modified, 4);
    Ok(())
}

#[tokio::test]
async fn text_is_compressed_for_clients_that_accept_gzip() -> Result<()> {
    let options = HostingOptions {
        compression: Compression::Gzip,
        ..HostingOptions::default()
    };
    let server = server(options).await?;
    let mut client = RawClient::connect(server.hosting.plain()[0]).await?;
    let ask = |path: &str, accept: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: {accept}\r\n\r\n")
    };
    for accept in ["gzip", "br, gzip;q=0.5", "*"] {
        client.send(&ask("/text", accept)).await?;
        let answer = client.response().await?;
        assert_eq!(answer.field("content-encoding"), Some("gzip"), "{accept}");
        assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
        assert_eq!(answer.field("etag"), Some("W/\"v1\""));
        let mut text = String::new();
        flate2::read::GzDecoder::new(answer.body.as_slice()).read_to_string(&mut text)?;
        assert_eq!(text, TEXT.repeat(100));
    }
    for (path, accept) in [("/text", "br"), ("/text", "gzip;q=0, *"), ("/4000", "gzip")] {
        client.send(&ask(path, accept)).await?;
        let answer = client.response().await?;
        assert_eq!(answer.field("content-encoding"), None, "{path} {accept}");
        assert!(answer.body.len() >= 4000);
    }
    Ok(())
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_without_waiting_for_later_ones() -> Result<()> {
    let server = server(HostingOptions::default()).await?;
    let mut client = RawClient::connect(server.hosting.plain()[0]).await?;
    let lengths: Vec<usize> = (0..40).map(|number| number * 997).collect();
    let requests: Vec<String> = lengths.iter().map(|length| get(&format!("/{length}"))).collect();
    client.send(&requests.concat()).await?;
    for length in &lengths {
        assert_eq!(client.response().await?.body.len(), *length);
    }
    // The first half of the next request has arrived, and delays no response.
    let (half, rest) = requests[2].split_at(20);
    client.send(&[&requests[1], half].concat()).await?;
    assert_eq!(client.response().await?.body.len(), 997);
    client.send(rest).await?;
    assert_eq!(client.response().await?.body.len(), 1994);
    Ok(())
}

#[tokio::test]
async fn a_large_body_is_complete_for_a_client_that_reads_late() -> Result<()> {
    let server = server(HostingOptions::default()).await?;
    let mut client = RawClient::connect(server.hosting.plain()[0]).await?;
    client.send(&get("/20000000")).await?;
    client.send(&get("/1")).await?;
    // The server has answered when it has counted the request; the body exceeds any socket buffer.
    until("a request is counted", || {
        server.hosting.statistics().requests > 0
    })
    .await;
    assert_eq!(client.response().await?.body.len(), 20_000_000);
    assert_eq!(client.response().await?.body.len(), 1);
    Ok(())
}

#[tokio::test]
async fn think_times_of_pipelined_responses_follow_each_other() -> Result<()> {
    let think_time = Duration::from_millis(60);
    let options = HostingOptions {
        think_time,
        ..HostingOptions::default()
    };
    let server = server(options).await?;
    let mut client = RawClient::connect(server.hosting.plain()[0]).await?;
    let begin = Instant::now();
    client.send(&[get("/1"), get("/2"), get("/3")].concat()).await?;
    for length in 1..=3 {
        assert_eq!(client.response().await?.body.len(), length);
        assert!(begin.elapsed() >= think_time * u32::try_from(length)?);
    }
    Ok(())
}
