//! The gateway counts exactly the bodies as held by the agent that the agent has stored: any other count costs a request
//! that the origin gets twice, or a body that the hop carries twice.
use std::net::SocketAddr;

use anyhow::{Result, ensure};
use http::{Request, Response, StatusCode, header};
use hyper::body::Incoming;
use longhaul_tests::{
    client::{Ending, RawClient, get, request},
    content::noise,
    origin::{AnswerBody, Origin},
    raw_origin::RawOrigin,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
};

use crate::{
    content::{prose, whole},
    pair::{Pair, Setup},
};

const REFERER: (&str, &str) = ("Referer", "http://site.test/");

/// An answer at `/STATUS/NUMBER/…?CACHE-CONTROL`, whose body depends only on the number. With the length of a part in place
/// of the status, it is that part.
async fn numbered(request: Request<Incoming>) -> Response<AnswerBody> {
    let mut names = request.uri().path().split('/').skip(1);
    let mut next = || {
        names
            .next()
            .and_then(|name| name.parse::<u16>().ok())
            .unwrap_or(200)
    };
    let (status, number) = (next(), next());
    let response = Response::builder()
        .status(StatusCode::from_u16(status).expect("a status"))
        .header(header::CONTENT_TYPE, "text/plain");
    let response = match request.uri().query() {
        Some(control) => response.header(header::CACHE_CONTROL, control.replace('_', "-")),
        None => response,
    };
    let body = prose(5000, number.into());
    let response = if status == 206 {
        response.header(header::CONTENT_RANGE, "bytes 0-4999/5000")
    } else {
        response
    };
    response.body(whole(body)).expect("a valid response")
}

async fn repeated(pair: &Pair) -> Result<u64> {
    Ok(pair.status().await?["repeated"].as_u64().unwrap_or_default())
}

/// Gets a body with another request before. The origin must get the GET once, and the agent must not repeat it.
async fn assert_once(pair: &Pair, origin: &Origin, number: usize, first: String) -> Result<()> {
    let mut client = RawClient::connect(pair.proxy()).await?;
    let name = first.lines().next().unwrap_or_default().to_owned();
    client.send(first).await?;
    let answer = client.response().await?;
    ensure!(answer.ending == Ending::Whole, "{name}: {answer:?}");
    // The acknowledgement of the first answer arrives with this request at the latest.
    client.send(get("http://site.test/204/0/between", &[])).await?;
    client.response().await?;
    let path = format!("/200/{number}/same?no_cache");
    client
        .send(get(&format!("http://site.test{path}"), &[REFERER]))
        .await?;
    let answer = client.response().await?;
    ensure!(
        answer.body == prose(5000, number.try_into()?),
        "{name}: another body"
    );
    let asked = origin.seen().iter().filter(|seen| seen.path == path).count();
    ensure!(asked == 1, "{name}: the origin got the GET {asked} times");
    ensure!(repeated(pair).await? == 0, "{name}: the agent repeated a request");
    Ok(())
}

fn site(address: SocketAddr) -> Setup {
    Setup::resolving(&[("site.test", address)])
}

/// Answers of every method, status and policy before a GET of the same body.
async fn kinds_of_answers(setup: impl FnOnce(Setup) -> Setup) -> Result<()> {
    let origin = Origin::start(None, |_| {}, numbered).await?;
    let pair = Pair::start(setup(site(origin.address()))).await?;
    let mut number = 1;
    let methods = [
        "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "QUERY", "GET",
    ];
    for method in methods {
        for (status, control) in [
            (200, ""),
            (200, "max_age=60"),
            (200, "no_store"),
            (200, "private,no_cache"),
            (201, ""),
            (203, ""),
            (404, ""),
            (410, "max_age=60"),
            (418, ""),
            (500, ""),
            (500, "max_age=60"),
        ] {
            let url = format!("http://site.test/{status}/{number}/first?{control}");
            let first = match method {
                "GET" => get(&url, &[REFERER]),
                _ => request(method, &url, &[REFERER, ("Content-Length", "0")]),
            };
            assert_once(&pair, &origin, number, first).await?;
            number += 1;
        }
    }
    for fields in [
        &[("Cache-Control", "no-store")][..],
        &[("Cache-Control", "max-age=0, No-Store")],
        &[("Cache-Control", "no-cache")],
        &[("Authorization", "Basic dTpw")],
        &[("Cookie", "a=1")],
        &[("Range", "bytes=0-")],
        &[("Accept", "text/x"), ("Origin", "http://other.test")],
    ] {
        let fields: Vec<_> = fields.iter().copied().chain([REFERER]).collect();
        for status in [200, 206] {
            let first = get(&format!("http://site.test/{status}/{number}/first"), &fields);
            assert_once(&pair, &origin, number, first).await?;
            number += 1;
        }
    }
    // Nobody knows who asked for the first.
    let first = get(&format!("http://site.test/200/{number}/first"), &[]);
    assert_once(&pair, &origin, number, first).await?;
    let other = [("Referer", "http://another.test/")];
    let first = get(&format!("http://site.test/200/{}/first", number + 1), &other);
    assert_once(&pair, &origin, number + 1, first).await
}

#[tokio::test]
async fn only_stored_answers_count_as_held() -> Result<()> {
    kinds_of_answers(|setup| setup).await
}

#[tokio::test]
async fn an_agent_without_a_cache_holds_nothing() -> Result<()> {
    kinds_of_answers(|mut setup| {
        let off = ["--cache-size".to_owned(), "0".to_owned()];
        setup.agent_arguments.extend(off);
        setup
    })
    .await
}

/// The second of two bodies that are too large for the agent's cache, or of which the origin has sent only a part before.
#[tokio::test]
async fn bodies_that_cannot_be_stored_do_not_count_as_held() -> Result<()> {
    const LARGE: usize = 3 << 20;
    let large = noise(LARGE, 5);
    let origin = RawOrigin::start(move |path| {
        let body = if path.contains("large") {
            &large[..]
        } else {
            &large[..50_000]
        };
        let sent = if path.contains("cut") {
            &body[..30_000]
        } else {
            body
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nCache-Control: no-cache\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), sent].concat()
    })
    .await?;
    let mut setup = site(origin.address());
    let small = ["--cache-size".to_owned(), "16MiB".to_owned()];
    setup.agent_arguments.extend(small);
    let pair = Pair::start(setup).await?;
    for paths in [
        ["/large/1", "/large/2", "/large/3"],
        ["/cut", "/whole/1", "/whole/2"],
    ] {
        for path in paths {
            let mut client = RawClient::connect(pair.proxy()).await?;
            client
                .send(get(&format!("http://site.test{path}"), &[REFERER]))
                .await?;
            let answer = client.response().await?;
            assert_eq!(answer.ending == Ending::Whole, path != "/cut", "{path}");
            let asked = origin.heads().iter().filter(|head| head.contains(path)).count();
            assert_eq!(asked, 1, "{path}");
        }
    }
    assert_eq!(repeated(&pair).await?, 0);
    Ok(())
}

/// The browser goes away while the agent has all of a body and the browser a part.
#[tokio::test]
async fn a_body_that_the_browser_has_left_is_held() -> Result<()> {
    // More than the buffers of the connection, and less than a stream's window.
    const LENGTH: usize = 15 << 18;
    let body = noise(LENGTH, 9);
    let sent = body.clone();
    let origin = RawOrigin::start(move |_| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {LENGTH}\r\nConnection: close\r\n\r\n"
        );
        [head.as_bytes(), &sent].concat()
    })
    .await?;
    let pair = Pair::start(site(origin.address())).await?;
    // A small window, so that most of the body stays at the agent.
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    let mut browser = socket.connect(pair.proxy()).await?;
    browser
        .write_all(get("http://site.test/left", &[REFERER]).as_bytes())
        .await?;
    browser.read_u8().await?;
    pair.status_until(|status| status["bytes_down"].as_u64() > Some(LENGTH as u64))
        .await?;
    // Another exchange acknowledges what has arrived.
    assert_eq!(pair.get("http://site.test/between").await?.body.len(), LENGTH);
    drop(browser);
    let mut client = RawClient::connect(pair.proxy()).await?;
    // The gateway has the response in its cache, with the hash of its body.
    client.send(get("http://site.test/left", &[REFERER])).await?;
    assert!(client.response().await?.body == body, "another body");
    assert_eq!(repeated(&pair).await?, 0);
    Ok(())
}
