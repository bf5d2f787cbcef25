//! Responses over HTTP/2 that Chromium accepts although some of them violate the protocol. The library refuses a few; the host
//! is then asked over HTTP/1.1.
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use longhaul_origin::{BodyError, FetchError, Limits, OriginClient, OriginConfig};
use longhaul_types::ByteCount;

use crate::{
    http2_repeats::{send, trusting},
    rig::{
        LOCAL, config_of,
        frames::{
            DATA, END_HEADERS, END_STREAM, FrameOrigin, HEADERS, NO_ERROR, RST_STREAM, SETTINGS, literals,
        },
        get, text,
    },
};

const BOTH: [&str; 2] = ["h2", "http/1.1"];
const PRIORITY: u8 = 2;
const CONTINUATION: u8 = 9;
const UNKNOWN: u8 = 0xbb;
const PADDED: u8 = 8;
const HAS_PRIORITY: u8 = 0x20;
const OK: (&str, &str) = (":status", "200");

/// A frame on the stream of the request: kind, flags and payload.
type Reply = (u8, u8, Vec<u8>);

/// Starts an origin that answers each request over HTTP/2 with these frames.
async fn answering(alpn: &[&str], replies: Vec<Reply>) -> FrameOrigin {
    FrameOrigin::start(alpn, move |_, mut frames| {
        let replies = replies.clone();
        async move {
            frames.settings().await;
            while let Some(stream) = frames.request().await {
                for (kind, flags, payload) in &replies {
                    let stream = if *kind == SETTINGS { 0 } else { stream };
                    frames.send(*kind, *flags, stream, payload).await;
                }
            }
        }
    })
    .await
}

fn head(fields: &[(&str, &str)]) -> Reply {
    (HEADERS, END_HEADERS, literals(fields))
}

fn body() -> Reply {
    (DATA, END_STREAM, b"over HTTP/2".to_vec())
}

/// A response with further fields.
fn with(field: (&str, &str)) -> Vec<Reply> {
    vec![head(&[OK, field]), body()]
}

/// A response whose header section is in several frames.
fn continued(fields: &[(&str, &str)]) -> Vec<Reply> {
    let block = literals(fields);
    let mut pieces: Vec<Reply> = block
        .chunks(16_000)
        .map(|piece| (CONTINUATION, 0, piece.to_vec()))
        .collect();
    pieces.first_mut().unwrap().0 = HEADERS;
    pieces.last_mut().unwrap().1 = END_HEADERS;
    pieces.push(body());
    pieces
}

#[tokio::test]
async fn unusual_responses_are_understood() {
    let large = "x".repeat(200_000);
    let names: Vec<String> = (0..1000).map(|index| format!("x-{index}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "y")).collect();
    let trailers = |fields: &[(&str, &str)]| {
        vec![
            head(&[OK]),
            (DATA, 0, b"over HTTP/2".to_vec()),
            (HEADERS, END_HEADERS | END_STREAM, literals(fields)),
        ]
    };
    let priority = vec![0, 0, 0, 0, 16];
    let interim = vec![head(&[(":status", "103"), ("link", "</x>;rel=preload")]); 50];
    let cases = [
        ("interim responses", [interim, with(("x", "y"))].concat()),
        (
            "padded data",
            vec![
                head(&[OK]),
                (DATA, PADDED | END_STREAM, b"\x03over HTTP/2xxx".to_vec()),
            ],
        ),
        (
            "padded head",
            vec![
                (
                    HEADERS,
                    END_HEADERS | PADDED,
                    [&[2][..], &literals(&[OK]), &[0, 0]].concat(),
                ),
                body(),
            ],
        ),
        (
            "priority in the head",
            vec![
                (
                    HEADERS,
                    END_HEADERS | HAS_PRIORITY,
                    [&priority[..], &literals(&[OK])].concat(),
                ),
                body(),
            ],
        ),
        (
            "priority",
            [vec![(PRIORITY, 0, priority)], with(("x", "y"))].concat(),
        ),
        (
            "unknown frame",
            [vec![(UNKNOWN, 0xff, vec![1])], with(("x", "y"))].concat(),
        ),
        (
            "settings",
            [vec![(SETTINGS, 0, vec![0xf0, 0, 0, 0, 0, 1])], with(("x", "y"))].concat(),
        ),
        ("trailers", trailers(&[("x", "y")])),
        ("status in trailers", trailers(&[OK])),
        ("200 kB of fields", continued(&[OK, ("x", &large)])),
        ("1000 fields", continued(&[vec![OK], many].concat())),
        (
            "equal lengths",
            vec![
                head(&[OK, ("content-length", "11"), ("content-length", "11")]),
                body(),
            ],
        ),
        ("status", vec![head(&[(":status", "999")]), body()]),
        ("other pseudo field", with((":path", "/"))),
        ("Latin-1", with(("x", "caf\u{e9}"))),
        (
            "reset after the end",
            [with(("x", "y")), vec![(RST_STREAM, 0, vec![0, 0, 0, 8])]].concat(),
        ),
    ];
    for (name, replies) in cases {
        let site = answering(&BOTH, replies).await;
        let client = trusting(&site.authority, site.origin.address);
        assert_eq!(
            send(&client, Method::POST, "x").await.as_deref(),
            Ok("over HTTP/2"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_host_whose_http2_is_not_understood_is_asked_over_http11() {
    let cases = [
        with(("connection", "close")),
        with(("keep-alive", "timeout=5")),
        with(("proxy-connection", "close")),
        with(("upgrade", "h2c")),
        with(("transfer-encoding", "chunked")),
        with(("te", "gzip")),
        with(("X-Upper", "y")),
        with(("content-length", "11, 11")),
        with(("content-length", "-1")),
        with(("content-length", "some")),
        vec![head(&[("x", "y")]), body()],
        vec![head(&[(":status", "1000")]), body()],
        vec![body()],
        vec![(SETTINGS, 0, b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())],
    ];
    for replies in cases {
        let broken = format!("{replies:?}");
        let site = answering(&BOTH, replies).await;
        let client = trusting(&site.authority, site.origin.address);
        for method in [Method::GET, Method::POST, Method::GET] {
            assert_eq!(
                send(&client, method, "").await.as_deref(),
                Ok("over HTTP/1.1"),
                "{broken}"
            );
        }
        assert_eq!(
            site.seen().iter().filter(|seen| *seen == "HTTP/2").count(),
            1,
            "{broken}"
        );
        // A request that may not be repeated fails once.
        let client = trusting(&site.authority, site.origin.address);
        assert_eq!(
            send(&client, Method::POST, "pay").await,
            Err(FetchError::Protocol),
            "{broken}"
        );
        assert_eq!(
            send(&client, Method::POST, "pay").await.as_deref(),
            Ok("over HTTP/1.1"),
            "{broken}"
        );
    }
}

#[tokio::test]
async fn an_origin_that_speaks_something_else_is_asked_over_http11() {
    let site = FrameOrigin::start(&BOTH, |_, mut frames| async move {
        frames
            .raw(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            .await;
        while frames.next().await.is_some() {}
    })
    .await;
    let client = trusting(&site.authority, site.origin.address);
    assert_eq!(send(&client, Method::GET, "").await.unwrap(), "over HTTP/1.1");
    assert_eq!(send(&client, Method::POST, "pay").await.unwrap(), "over HTTP/1.1");
}

#[tokio::test]
async fn after_a_broken_body_the_host_is_asked_over_http11() {
    let site = answering(&BOTH, with(("content-length", "99"))).await;
    let client = trusting(&site.authority, site.origin.address);
    let response = client.fetch(get("https://site.test/"), LOCAL).await.unwrap();
    assert_eq!(text(response).await, Err(BodyError::Protocol));
    assert_eq!(send(&client, Method::POST, "pay").await.unwrap(), "over HTTP/1.1");
}

#[tokio::test]
async fn an_origin_without_http11_keeps_http2() {
    let site = FrameOrigin::start(&["h2"], |_, mut frames| async move {
        frames.settings().await;
        let mut is_broken = true;
        while let Some(stream) = frames.request().await {
            if std::mem::take(&mut is_broken) {
                frames
                    .headers(stream, END_STREAM, &[OK, ("connection", "close")])
                    .await;
            } else {
                frames.respond(stream, "page").await;
            }
        }
    })
    .await;
    for method in [Method::GET, Method::POST] {
        let client = trusting(&site.authority, site.origin.address);
        assert_eq!(send(&client, method.clone(), "").await, Err(FetchError::Protocol));
        // The memory of a POST is wrong here, and the broken connection may be gone.
        let answers = [
            send(&client, Method::GET, "").await,
            send(&client, Method::GET, "").await,
        ];
        assert!(answers.contains(&Ok("page".to_owned())), "{method}: {answers:?}");
    }
}

#[tokio::test]
async fn a_response_before_the_end_of_the_request_is_complete() {
    let site = FrameOrigin::start(&BOTH, |_, mut frames| async move {
        frames.settings().await;
        while let Some((stream, _)) = frames.head().await {
            frames.headers(stream, 0, &[(":status", "413")]).await;
            frames.send(DATA, END_STREAM, stream, b"too large").await;
            frames.reset(stream, NO_ERROR).await;
        }
    })
    .await;
    let client = trusting(&site.authority, site.origin.address);
    for size in [1000, 2_000_000] {
        let request = Request::post("https://site.test/").body(Full::new(Bytes::from(vec![0; size])));
        let response = client.fetch(request.unwrap(), LOCAL).await.unwrap();
        assert_eq!(response.status(), 413);
        assert_eq!(text(response).await.unwrap(), "too large");
    }
}

#[tokio::test]
async fn the_fields_of_a_response_fit_up_to_the_limit() {
    const LIMIT: usize = 2000;
    for (length, expected) in [
        (LIMIT, Ok("page".to_owned())),
        (LIMIT + 1, Err(FetchError::HeaderTooLarge)),
    ] {
        let value = "y".repeat(length - "a: 1\r\n".len() - "b: \r\n".len());
        let site = FrameOrigin::start(&["h2"], move |_, mut frames| {
            let value = value.clone();
            async move {
                frames.settings().await;
                while let Some(stream) = frames.request().await {
                    let fields = [(":status", "200"), ("a", "1"), ("b", &value)];
                    frames.headers(stream, 0, &fields).await;
                    frames.send(DATA, END_STREAM, stream, b"page").await;
                }
            }
        })
        .await;
        let limits = Limits {
            header_bytes: ByteCount::new(LIMIT as u64),
            ..Limits::default()
        };
        let client = OriginClient::new(OriginConfig {
            extra_ca: vec![site.authority.pem()],
            limits,
            ..config_of(site.origin.address)
        })
        .unwrap();
        assert_eq!(send(&client, Method::GET, "").await, expected);
    }
}
