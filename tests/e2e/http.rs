//! HTTP semantics through agent and gateway.
use std::{net::SocketAddr, sync::Arc};

use anyhow::Result;
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{Ending, RawClient, ask, get, request},
    origin::{AnswerBody, Origin},
    raw_origin::RawOrigin,
};

use crate::{
    content::{ok, prose, whole},
    pair::{Pair, Setup},
};

fn site(address: SocketAddr) -> Setup {
    Setup::resolving(&[("site.test", address)])
}

async fn page(request: Request<Incoming>) -> Response<AnswerBody> {
    const TAG: &str = "\"v1\"";
    let response = Response::builder()
        .header(header::ETAG, TAG)
        .header(header::CACHE_CONTROL, "max-age=60");
    let known = request
        .headers()
        .get(header::IF_NONE_MATCH)
        .is_some_and(|tag| tag == TAG);
    let body = prose(5000, 1);
    let response = match (request.uri().path(), known) {
        ("/page", true) => response.status(StatusCode::NOT_MODIFIED).body(whole("")),
        ("/page", false) => response
            .header(header::CONTENT_TYPE, "text/html")
            .body(whole(body)),
        ("/old", _) => response
            .status(StatusCode::FOUND)
            .header(header::LOCATION, "http://elsewhere.test/new?a=b#part")
            .body(whole("moved")),
        ("/none", _) => Response::builder().status(StatusCode::NO_CONTENT).body(whole("")),
        ("/broken", _) => Response::builder()
            .status(StatusCode::INTERNAL_SERVER_ERROR)
            .body(whole("it broke")),
        ("/busy", _) => response
            .status(StatusCode::SERVICE_UNAVAILABLE)
            .header("retry-after", "7")
            .body(whole("busy")),
        _ => Response::builder()
            .status(StatusCode::NOT_FOUND)
            .body(whole("no such page here")),
    };
    response.expect("a valid response")
}

#[tokio::test]
async fn head_conditional_requests_and_statuses_are_forwarded() -> Result<()> {
    let origin = Origin::start(None, |_| {}, page).await?;
    let pair = Pair::start(site(origin.address())).await?;
    // All requests use one connection: a forbidden body would be parsed as the next response.
    let mut client = RawClient::connect(pair.proxy()).await?;
    client.send(request("HEAD", "http://site.test/page", &[])).await?;
    let head = client.head().await?;
    assert_eq!(head.status, 200);
    assert_eq!(head.field("content-length"), Some("5000"), "{head:?}");
    assert_eq!(head.field("etag"), Some("\"v1\""));

    client
        .send(get("http://site.test/page", &[("If-None-Match", "\"v1\"")]))
        .await?;
    let same = client.response().await?;
    assert_eq!(
        (same.status, same.field("etag")),
        (304, Some("\"v1\"")),
        "{same:?}"
    );
    assert_eq!(same.field("cache-control"), Some("max-age=60"));

    client
        .send(get("http://site.test/page", &[("If-None-Match", "\"v0\"")]))
        .await?;
    let changed = client.response().await?;
    assert_eq!((changed.status, changed.ending), (200, Ending::Whole));
    assert_eq!(changed.body, prose(5000, 1));

    for (path, status, body) in [
        ("old", 302, "moved"),
        ("none", 204, ""),
        ("missing", 404, "no such page here"),
        ("broken", 500, "it broke"),
        ("busy", 503, "busy"),
    ] {
        client.send(get(&format!("http://site.test/{path}"), &[])).await?;
        let response = client.response().await?;
        assert_eq!(
            (response.status, response.text().as_str()),
            (status, body),
            "{response:?}"
        );
        match status {
            302 => assert_eq!(
                response.field("location"),
                Some("http://elsewhere.test/new?a=b#part")
            ),
            503 => assert_eq!(response.field("retry-after"), Some("7")),
            _ => {}
        }
    }
    Ok(())
}

#[tokio::test]
async fn hop_by_hop_fields_are_removed_and_end_to_end_fields_forwarded() -> Result<()> {
    let origin = RawOrigin::start(|_| {
        b"HTTP/1.1 200 OK\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\n\
          Proxy-Authenticate: Basic\r\nAlt-Svc: h3=\":443\"\r\nSet-Cookie: a=1; Path=/\r\nX-Between: 1\r\n\
          Set-Cookie: b=2; Expires=Wed, 21 Oct 2037 07:28:00 GMT\r\nLink: </a>; rel=preload\r\nLink: </b>\r\n\
          Strict-Transport-Security: max-age=9\r\nContent-Security-Policy: default-src 'self'\r\n\
          Access-Control-Allow-Origin: *\r\nContent-Length: 2\r\n\r\nok"
            .to_vec()
    })
    .await?;
    let pair = Pair::start(site(origin.address())).await?;
    let fields = [
        ("Connection", "keep-alive, X-Private"),
        ("X-Private", "1"),
        ("Keep-Alive", "5"),
        ("Proxy-Connection", "keep-alive"),
        ("Proxy-Authorization", "Basic c2VjcmV0"),
        ("TE", "gzip"),
        ("Upgrade-Insecure-Requests", "1"),
        ("X-Twice", "a"),
        ("X-Twice", "b"),
        ("Cookie", "k=v; l=w"),
        ("Authorization", "Basic dTpw"),
        ("User-Agent", "test"),
        ("Accept-Language", "de, en;q=0.5"),
        ("Via", "1.0 earlier"),
    ];
    let response = ask(pair.proxy(), get("http://site.test/", &fields)).await?;
    assert_eq!(response.text(), "ok", "{response:?}");
    assert_eq!(
        response.all("set-cookie"),
        ["a=1; Path=/", "b=2; Expires=Wed, 21 Oct 2037 07:28:00 GMT"]
    );
    assert_eq!(response.all("link").join(", "), "</a>; rel=preload, </b>");
    for (name, value) in [
        ("x-between", "1"),
        ("strict-transport-security", "max-age=9"),
        ("content-security-policy", "default-src 'self'"),
        ("access-control-allow-origin", "*"),
    ] {
        assert_eq!(response.field(name), Some(value), "{response:?}");
    }
    for name in ["x-secret", "keep-alive", "proxy-authenticate", "alt-svc"] {
        assert_eq!(response.field(name), None, "{response:?}");
    }
    assert!(
        response.field("via").is_some_and(|via| via.contains("longhaul")),
        "{response:?}"
    );

    let heads = origin.heads();
    assert_eq!(heads.len(), 1, "{heads:?}");
    let head = heads[0].to_ascii_lowercase();
    for gone in [
        "x-private",
        "keep-alive:",
        "proxy-",
        "te:",
        "x-forwarded",
        "forwarded:",
        "127.0.0.1",
    ] {
        let found = head
            .lines()
            .any(|line| line.starts_with(gone) || (gone == "127.0.0.1" && line.contains(gone)));
        assert!(!found, "`{gone}` reached the origin:\n{head}");
    }
    for kept in [
        "get / http/1.1",
        "host: site.test",
        "upgrade-insecure-requests: 1",
        "cookie: k=v; l=w",
        "authorization: basic dtpw",
        "user-agent: test",
        "accept-language: de, en;q=0.5",
    ] {
        assert!(
            head.lines().any(|line| line == kept),
            "`{kept}` did not reach the origin:\n{head}"
        );
    }
    let twice: Vec<&str> = head
        .lines()
        .filter_map(|line| line.strip_prefix("x-twice: "))
        .collect();
    assert_eq!(twice.join(", "), "a, b", "{head}");
    let via: Vec<&str> = head
        .lines()
        .filter_map(|line| line.strip_prefix("via: "))
        .collect();
    let via = via.join(", ");
    assert!(via.starts_with("1.0 earlier, 1.1 longhaul"), "{head}");
    Ok(())
}

#[tokio::test]
async fn the_origin_receives_the_target_unchanged() -> Result<()> {
    let origin = RawOrigin::start(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()).await?;
    let pair = Pair::start(site(origin.address())).await?;
    let targets = [
        "/",
        "/a/../b%2Fc//d",
        "/?",
        "/q?a=1&a=2&&x=%C3%A4+'()*;,:@!$",
        "/%zz?%",
        "/?u=http://x.test/?y",
    ];
    for target in targets {
        assert_eq!(
            pair.get(&format!("http://site.test{target}")).await?.status,
            200,
            "{target}"
        );
    }
    // An absent path means `/`, and the authority of the target has precedence over the `Host` field.
    let odd = "GET http://SITE.test HTTP/1.1\r\nHost: other.test\r\n\r\n";
    assert_eq!(ask(pair.proxy(), odd).await?.status, 200);
    let heads = origin.heads();
    let seen: Vec<&str> = heads.iter().filter_map(|head| head.split(' ').nth(1)).collect();
    assert_eq!(seen[..targets.len()], targets);
    assert_eq!(seen[targets.len()..], ["/"]);
    for head in &heads {
        let lower = head.to_ascii_lowercase();
        assert_eq!(lower.matches("\r\nhost: site.test\r\n").count(), 1, "{head}");
    }
    Ok(())
}

#[tokio::test]
async fn request_bodies_of_every_method_are_forwarded() -> Result<()> {
    let origin = Origin::start(
        None,
        |_| {},
        |request: Request<Incoming>| async move {
            let method = request.method().to_string();
            let length = request.headers().get(header::CONTENT_LENGTH).cloned();
            let body = request
                .into_body()
                .collect()
                .await
                .expect("the body is complete")
                .to_bytes();
            let mut response = ok("text/plain", [method.as_bytes(), b" ", &body].concat());
            if let Some(length) = length {
                response.headers_mut().insert("x-length", length);
            }
            response
        },
    )
    .await?;
    let pair = Pair::start(site(origin.address())).await?;
    let mut client = RawClient::connect(pair.proxy()).await?;
    for method in ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"] {
        let head = request(
            method,
            "http://site.test/x",
            &[("Content-Length", "11"), ("Content-Type", "text/plain")],
        );
        client.send(head + "hello\0world").await?;
        let response = client.response().await?;
        assert_eq!(response.text(), format!("{method} hello\0world"), "{response:?}");
        assert_eq!(response.field("x-length"), Some("11"), "{response:?}");
    }
    for method in ["OPTIONS", "DELETE", "GET"] {
        client.send(request(method, "http://site.test/x", &[])).await?;
        assert_eq!(client.response().await?.text(), format!("{method} "));
    }
    let head = request("POST", "http://site.test/x", &[("Transfer-Encoding", "chunked")]);
    client
        .send(head + "6\r\nchunky\r\n1;x=y\r\n!\r\n0\r\n\r\n")
        .await?;
    assert_eq!(client.response().await?.text(), "POST chunky!");
    client
        .send(request("POST", "http://site.test/x", &[("Content-Length", "0")]))
        .await?;
    let empty = client.response().await?;
    assert_eq!(
        (empty.text().as_str(), empty.field("x-length")),
        ("POST ", Some("0")),
        "{empty:?}"
    );
    Ok(())
}

#[tokio::test]
async fn large_header_sections_are_forwarded_up_to_the_limit() -> Result<()> {
    let origin = Arc::new("x".repeat(60_000));
    let value = Arc::clone(&origin);
    let origin = RawOrigin::start(move |_| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Large: {value}\r\n\r\nok").into_bytes()
    })
    .await?;
    let pair = Pair::start(site(origin.address())).await?;
    let cookie = format!("c={}", "y".repeat(60_000));
    let response = ask(pair.proxy(), get("http://site.test/", &[("Cookie", &cookie)])).await?;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.field("x-large").map(str::len), Some(60_000));
    assert!(origin.heads()[0].contains(&cookie));
    Ok(())
}

#[tokio::test]
async fn interim_responses_are_handled() -> Result<()> {
    let origin = RawOrigin::start(|_| {
        b"HTTP/1.1 103 Early Hints\r\nLink: </s.css>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfinal"
            .to_vec()
    })
    .await?;
    let pair = Pair::start(site(origin.address())).await?;
    let response = pair.get("http://site.test/").await?;
    assert_eq!((response.status, response.text().as_str()), (200, "final"));
    Ok(())
}

#[tokio::test]
async fn http_1_0_clients_get_no_chunked_responses() -> Result<()> {
    let origin = RawOrigin::start(|_| {
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n".to_vec()
    })
    .await?;
    let pair = Pair::start(site(origin.address())).await?;
    let response = ask(
        pair.proxy(),
        "GET http://site.test/ HTTP/1.0\r\nHost: site.test\r\n\r\n",
    )
    .await?;
    assert_eq!(
        (response.status, response.text().as_str()),
        (200, "abcdef"),
        "{response:?}"
    );
    assert_eq!(response.field("transfer-encoding"), None);
    Ok(())
}

#[tokio::test]
async fn a_request_with_two_framings_never_reaches_the_origin() -> Result<()> {
    let origin = RawOrigin::start(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()).await?;
    let pair = Pair::start(site(origin.address())).await?;
    // A server that uses the length would parse the end of the body as a second request (request smuggling).
    let fields = [("Content-Length", "4"), ("Transfer-Encoding", "chunked")];
    let hidden = "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: site.test\r\n\r\n";
    let response = ask(
        pair.proxy(),
        request("POST", "http://site.test/", &fields) + hidden,
    )
    .await?;
    println!("a request with two framings: {}", response.status);
    assert!(matches!(response.status, 200 | 400), "{response:?}");
    for head in origin.heads() {
        let head = head.to_ascii_lowercase();
        assert!(
            !(head.contains("\r\ncontent-length:") && head.contains("\r\ntransfer-encoding:")),
            "{head}"
        );
    }
    Ok(())
}
