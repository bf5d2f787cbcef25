//! Requests and their responses.
use std::{
    convert::Infallible,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::Incoming;
use longhaul_codec::{BodyDecoder, BodyLimits, DecodeError};
use longhaul_session::{
    BodyCoding, Cancel, FailureReason, Fetch, FetchId, HeaderSets, Message, Method, Resume, Validator,
    encode_header_set,
};
use tokio::sync::mpsc;

use crate::{
    agent::{Agent, BodyEnd, coding, fetch_of, window_key, wire},
    gateway::Gateway,
    origin::{OriginBody, full, serve, serve_raw, text},
};

async fn setup() -> (Gateway, Agent) {
    let gateway = Gateway::start().await;
    let agent = Agent::connect(&gateway).await;
    (gateway, agent)
}

fn reply(status: u16, fields: &[(&str, &str)], body: OriginBody) -> Response<OriginBody> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(body).unwrap()
}

#[tokio::test]
async fn a_get_returns_the_whole_page_encoded() {
    let (_gateway, mut agent) = setup().await;
    let page = text(200_000);
    let origin = page.clone();
    let port = serve(move |request: Request<Incoming>| {
        let page = origin.clone();
        async move {
            assert_eq!(request.headers()["via"], "1.1 longhaul");
            assert_eq!(
                request.headers()["host"].to_str().unwrap().split(':').next(),
                Some("page.test")
            );
            reply(
                200,
                &[
                    ("content-type", "text/html"),
                    ("set-cookie", "a=1"),
                    ("set-cookie", "b=2"),
                    ("alt-svc", "h3"),
                ],
                full(page),
            )
        }
    })
    .await;
    let response = agent.get(&format!("http://page.test:{port}/"), &[]).await;
    assert_eq!((response.status, &response.end), (200, &BodyEnd::Complete));
    assert_eq!(response.body, page);
    assert_eq!(response.field("content-length"), Some("200000"));
    assert_eq!(response.field("via"), Some("1.1 longhaul"));
    assert_eq!(response.field("alt-svc"), None);
    assert_eq!(
        response
            .fields
            .iter()
            .filter(|(name, _)| name == "set-cookie")
            .count(),
        2
    );
    let announced = response.announced.unwrap();
    assert_ne!(announced.coding, BodyCoding::Identity);
    assert_eq!((announced.length, announced.offset), (Some(200_000), 0));
    assert!(response.total.unwrap() < 60_000, "{:?}", response.total);
}

#[tokio::test]
async fn small_responses_come_in_one_piece_of_known_length() {
    let (_gateway, mut agent) = setup().await;
    let port = serve(|_| async { reply(404, &[("content-type", "text/plain")], full("not here")) }).await;
    let response = agent.get(&format!("http://a.test:{port}/x"), &[]).await;
    assert_eq!(
        (response.status, response.body.as_slice()),
        (404, &b"not here"[..])
    );
    assert!(response.total.is_some());
    assert_eq!(response.announced.unwrap().length, Some(8));
}

#[tokio::test]
async fn bodyless_responses_stay_bodyless() {
    let (_gateway, mut agent) = setup().await;
    let port = serve(|request: Request<Incoming>| async move {
        match request.uri().path() {
            "/head" => {
                assert_eq!(request.method(), http::Method::HEAD);
                let body = Empty::new().boxed_unsync();
                reply(200, &[("content-length", "12345"), ("etag", "\"a\"")], body)
            }
            "/cached" => {
                assert_eq!(request.headers()["if-none-match"], "\"a\"");
                reply(304, &[("etag", "\"a\"")], Empty::new().boxed_unsync())
            }
            "/moved" => reply(302, &[("location", "/elsewhere")], Empty::new().boxed_unsync()),
            _ => reply(204, &[], Empty::new().boxed_unsync()),
        }
    })
    .await;
    let url = |path: &str| format!("http://a.test:{port}{path}");
    let head = agent.request(Method::Head, &url("/head"), &[]).await;
    assert_eq!((head.status, head.field("content-length")), (200, Some("12345")));
    let cached = agent.get(&url("/cached"), &[("if-none-match", "\"a\"")]).await;
    assert_eq!((cached.status, cached.field("etag")), (304, Some("\"a\"")));
    let moved = agent.get(&url("/moved"), &[]).await;
    assert_eq!((moved.status, moved.field("location")), (302, Some("/elsewhere")));
    assert_eq!(moved.field("content-length"), Some("0"));
    let nothing = agent.request(Method::Options, &url("/"), &[]).await;
    assert_eq!(nothing.status, 204);
    for response in [head, cached, moved, nothing] {
        assert!(response.announced.is_none() && response.total.is_some());
    }
}

#[tokio::test]
async fn a_post_reaches_the_origin_once_with_its_body() {
    let (_gateway, mut agent) = setup().await;
    let posts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&posts);
    let body = text(300_000);
    let expected = body.clone();
    let port = serve(move |request: Request<Incoming>| {
        let (posts, expected) = (Arc::clone(&counted), expected.clone());
        async move {
            posts.fetch_add(1, SeqCst);
            assert_eq!(request.headers()["content-length"], "300000");
            let body = request.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, expected);
            reply(201, &[], full("made"))
        }
    })
    .await;
    let response = agent
        .upload(Method::Post, &format!("http://a.test:{port}/form"), &body)
        .await;
    assert_eq!((response.status, response.body.as_slice()), (201, &b"made"[..]));
    assert_eq!(posts.load(SeqCst), 1);
}

#[tokio::test]
async fn gzip_of_the_origin_is_decoded_by_the_gateway() {
    let (_gateway, mut agent) = setup().await;
    let page = text(100_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&page).unwrap();
    let coded = gzip.finish().unwrap();
    let port = serve(move |_| {
        let coded = coded.clone();
        async move {
            let fields = [
                ("content-type", "text/html"),
                ("content-encoding", "gzip"),
                ("etag", "\"x-gzip\""),
            ];
            reply(200, &fields, full(coded))
        }
    })
    .await;
    let response = agent
        .get(&format!("http://a.test:{port}/"), &[("accept-encoding", "gzip")])
        .await;
    assert_eq!(response.end, BodyEnd::Complete);
    assert_eq!(response.body, page);
    assert_eq!(response.field("content-encoding"), None);
    assert_eq!(response.field("content-length"), None);
    assert_eq!(response.field("etag"), Some("\"x-gzip\""));
}

#[tokio::test]
async fn a_download_is_complete_in_every_priority_class() {
    let (_gateway, mut agent) = setup().await;
    let mut file = vec![0; 3_000_000];
    blake3::Hasher::new().finalize_xof().fill(&mut file);
    for media in ["application/zip", "image/png", "text/html"] {
        let origin = file.clone();
        let port = serve(move |_| {
            let file = origin.clone();
            async move { reply(200, &[("content-type", media)], full(file)) }
        })
        .await;
        let response = agent.get(&format!("http://a.test:{port}/"), &[]).await;
        assert_eq!(response.end, BodyEnd::Complete, "{media}");
        assert!(response.body == file, "{media}");
    }
}

#[tokio::test]
async fn damaged_content_codings_fail_or_truncate_the_response() {
    let (_gateway, mut agent) = setup().await;
    let page = text(400_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&page).unwrap();
    let coded = gzip.finish().unwrap();
    let half = coded[..coded.len() / 2].to_vec();
    let port = serve(move |request: Request<Incoming>| {
        let body = if request.uri().path() == "/half" {
            half.clone()
        } else {
            b"not gzip".to_vec()
        };
        async move { reply(200, &[("content-encoding", "gzip")], full(body)) }
    })
    .await;
    let reason = agent.get_failure(&format!("http://a.test:{port}/plain")).await;
    assert_eq!(reason, FailureReason::MalformedResponse);
    let response = agent.get(&format!("http://a.test:{port}/half"), &[]).await;
    assert!(
        matches!(response.end, BodyEnd::Broken(DecodeError::Truncated { .. })),
        "{:?}",
        response.end
    );
    assert!(response.body.len() > 100_000 && page.starts_with(&response.body));
}

#[tokio::test]
async fn a_range_response_is_forwarded_unchanged() {
    let (_gateway, mut agent) = setup().await;
    let port = serve(|request: Request<Incoming>| async move {
        assert_eq!(request.headers()["range"], "bytes=5-9");
        assert_eq!(request.headers()["accept-encoding"], "identity");
        let fields = [("content-range", "bytes 5-9/20"), ("content-encoding", "gzip")];
        reply(206, &fields, full(&b"\x1f\x8bxyz"[..]))
    })
    .await;
    let response = agent
        .get(&format!("http://a.test:{port}/"), &[("range", "bytes=5-9")])
        .await;
    assert_eq!(response.status, 206);
    assert_eq!(response.body, b"\x1f\x8bxyz");
    assert_eq!(response.field("content-range"), Some("bytes 5-9/20"));
    assert_eq!(response.field("content-encoding"), Some("gzip"));
}

#[tokio::test]
async fn a_truncated_response_never_ends_cleanly() {
    let (_gateway, mut agent) = setup().await;
    for (length, sent) in [(1000, 100), (500_000, 200_000)] {
        let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").into_bytes();
        let body = text(sent);
        answer.extend(&body);
        let port = serve_raw(answer).await;
        let response = agent.get(&format!("http://a.test:{port}/"), &[]).await;
        assert_eq!(response.status, 200);
        let offset = response.body.len() as u64;
        assert_eq!(response.end, BodyEnd::Broken(DecodeError::Truncated { offset }));
        assert_eq!(response.body, body, "bytes before the error are delivered");
    }
}

#[tokio::test]
async fn private_addresses_are_refused_in_all_notations() {
    let (_gateway, mut agent) = setup().await;
    let port = serve(|_| async { reply(200, &[], full("secret")) }).await;
    for host in [
        "127.0.0.1",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "0x7f.1",
        "localhost",
        "[::1]",
        "169.254.169.254",
    ] {
        let reason = agent.get_failure(&format!("http://{host}:{port}/")).await;
        assert_eq!(reason, FailureReason::AddressRefused, "{host}");
    }
}

#[tokio::test]
async fn failures_have_their_reason() {
    let (_gateway, mut agent) = setup().await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let huge = format!("HTTP/1.1 200 OK\r\nx-huge: {}\r\n\r\n", "x".repeat(1_000_000)).into_bytes();
    let large = format!("HTTP/1.1 200 OK\r\nx-large: {}\r\n\r\n", "x".repeat(100_000)).into_bytes();
    for (url, expected) in [
        (
            format!("http://a.test:{closed}/"),
            FailureReason::ConnectionRefused,
        ),
        (
            format!("http://a.test:{}/", serve_raw(huge).await),
            FailureReason::HeaderTooLarge,
        ),
        (
            format!("http://a.test:{}/", serve_raw(large).await),
            FailureReason::HeaderTooLarge,
        ),
        (
            format!("http://a.test:{}/", serve_raw(b"nonsense\r\n\r\n".to_vec()).await),
            FailureReason::MalformedResponse,
        ),
        (
            format!("http://a.test:{}/", serve_raw(Vec::new()).await),
            FailureReason::ConnectionReset,
        ),
        (
            format!("https://a.test:{}/", serve_raw(b"no tls".to_vec()).await),
            FailureReason::TlsOther,
        ),
        ("ftp://a.test/".to_owned(), FailureReason::BadUrl),
        ("nonsense".to_owned(), FailureReason::BadUrl),
    ] {
        assert_eq!(agent.get_failure(&url).await, expected, "{url}");
    }
}

#[tokio::test]
async fn an_unknown_base_is_reported() {
    let (_gateway, agent) = setup().await;
    let fields = vec![("x-field".to_owned(), b"value".to_vec())];
    let mut sets = HeaderSets::new();
    sets.insert(FetchId::new(1), fields.clone());
    let fetch = Fetch {
        headers: encode_header_set(&fields, FetchId::new(2), Some(FetchId::new(1)), &sets).unwrap(),
        ..fetch_of(FetchId::new(2), Method::Get, "http://a.test/", &[])
    };
    assert_eq!(agent.failure(fetch).await, FailureReason::UnknownBase);
}

#[tokio::test]
async fn header_sets_serve_as_bases_both_ways() {
    let (_gateway, mut agent) = setup().await;
    let port = serve(|request: Request<Incoming>| async move {
        assert_eq!(request.headers()["x-request"], "the same each time");
        reply(200, &[("x-response", "the same each time, too")], full("ok"))
    })
    .await;
    let url = format!("http://a.test:{port}/");
    let fields = vec![("x-request".to_owned(), b"the same each time".to_vec())];
    let first = agent.get(&url, &[("x-request", "the same each time")]).await;
    let mut requests = HeaderSets::new();
    requests.insert(FetchId::new(1), fields.clone());
    let mut responses = HeaderSets::new();
    responses.insert(FetchId::new(1), first.fields.clone());
    let fetch = Fetch {
        headers: encode_header_set(&fields, FetchId::new(2), Some(FetchId::new(1)), &requests).unwrap(),
        seen: Some(FetchId::new(1)),
        ..fetch_of(FetchId::new(2), Method::Get, &url, &[])
    };
    agent.send(Message::Fetch(fetch)).await;
    let head = agent.answer().await.head();
    let size = wire(Message::Head(head.clone())).len();
    assert!(size < 60, "{size}");
    let fields = longhaul_session::decode_header_set(&head.headers, FetchId::new(2), &responses).unwrap();
    assert!(fields.contains(&("x-response".to_owned(), b"the same each time, too".to_vec())));
}

/// A body that a test feeds; the sender is closed when the origin's side is dropped.
fn fed() -> (mpsc::Sender<Bytes>, OriginBody) {
    let (sender, receiver) = mpsc::channel(1);
    let frames = futures_util::stream::unfold(receiver, |mut receiver: mpsc::Receiver<Bytes>| async move {
        let bytes = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), receiver))
    });
    (sender, StreamBody::new(frames).boxed_unsync())
}

#[tokio::test]
async fn received_bytes_are_sent_when_the_origin_pauses() {
    let (_gateway, mut agent) = setup().await;
    let (feeds_in, mut feeds) = mpsc::channel(1);
    let port = serve(move |_| {
        let feeds = feeds_in.clone();
        async move {
            let (feed, body) = fed();
            feeds.send(feed).await.unwrap();
            reply(200, &[("content-type", "text/event-stream")], body)
        }
    })
    .await;
    let fetch = fetch_of(agent.id(), Method::Get, &format!("http://a.test:{port}/"), &[]);
    agent.send(Message::Fetch(fetch)).await;
    let feed = feeds.recv().await.unwrap();
    let mut answer = agent.answer().await;
    assert_eq!(answer.head().status, 200, "the head does not wait for the body");
    feed.send("data: 1\n\n".into()).await.unwrap();
    let Message::Body(body) = answer.next_message().await.unwrap() else {
        panic!()
    };
    let mut decoder = BodyDecoder::new(
        window_key(&agent.session),
        coding(body.coding),
        BodyLimits::default(),
    );
    for event in ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"] {
        if event != "data: 1\n\n" {
            feed.send(event.into()).await.unwrap();
        }
        let mut found = Vec::new();
        while found.len() < event.len() {
            let bytes = answer.bytes().await.unwrap().unwrap();
            let mut wire = &bytes[..];
            while let longhaul_codec::BodyEvent::Window(window) = decoder.next(&mut wire).unwrap() {
                found.extend_from_slice(&window);
            }
        }
        assert_eq!(found, event.as_bytes());
    }
    drop(feed);
    assert_eq!(
        answer.windows(&mut decoder, &mut Vec::new()).await,
        BodyEnd::Complete
    );
}

#[tokio::test]
async fn a_cancelled_fetch_stops_the_origin() {
    let (_gateway, mut agent) = setup().await;
    let (feeds_in, mut feeds) = mpsc::channel(1);
    let port = serve(move |_| {
        let feeds = feeds_in.clone();
        async move {
            let (feed, body) = fed();
            feeds.send(feed).await.unwrap();
            reply(200, &[], body)
        }
    })
    .await;
    let id = agent.id();
    agent
        .send(Message::Fetch(fetch_of(
            id,
            Method::Get,
            &format!("http://a.test:{port}/"),
            &[],
        )))
        .await;
    let feed = feeds.recv().await.unwrap();
    feed.send("some".into()).await.unwrap();
    let mut answer = agent.answer().await;
    agent
        .control
        .write(wire(Message::Cancel(Cancel { fetch: id })).into())
        .await
        .unwrap();
    feed.closed().await;
    let Message::Body(_) = answer.next_message().await.unwrap() else {
        panic!()
    };
    while let Ok(bytes) = answer.bytes().await {
        assert!(bytes.is_some(), "a cancelled response must not end cleanly");
    }
}

#[tokio::test]
async fn a_slow_hop_slows_the_origin() {
    let (_gateway, mut agent) = setup().await;
    let (feeds_in, mut feeds) = mpsc::channel(1);
    let port = serve(move |_| {
        let feeds = feeds_in.clone();
        async move {
            let (feed, body) = fed();
            feeds.send(feed).await.unwrap();
            reply(200, &[("content-type", "image/jpeg")], body)
        }
    })
    .await;
    let fetch = fetch_of(agent.id(), Method::Get, &format!("http://a.test:{port}/"), &[]);
    agent.send(Message::Fetch(fetch)).await;
    let feed = feeds.recv().await.unwrap();
    let _unread = agent.answer().await;
    // Random bytes, which no coding compresses.
    let mut noise = blake3::Hasher::new().finalize_xof();
    let mut taken = 0_usize;
    loop {
        let mut piece = vec![0; 64 * 1024];
        noise.fill(&mut piece);
        // Back-pressure: the gateway reads nothing more; a second is very long on loopback.
        if tokio::time::timeout(std::time::Duration::from_secs(1), feed.send(piece.into()))
            .await
            .is_err()
        {
            break;
        }
        taken += 64 * 1024;
        assert!(taken < 256 * 1024 * 1024, "the gateway buffers without limit");
    }
    assert!(taken < 64 * 1024 * 1024, "{taken}");
}

#[tokio::test]
async fn a_damaged_response_is_resumed() {
    let (_gateway, mut agent) = setup().await;
    let page = text(150_000);
    let origin = page.clone();
    let port = serve(move |_| {
        let page = origin.clone();
        async move {
            reply(
                200,
                &[("etag", "\"v1\""), ("content-type", "text/html")],
                full(page),
            )
        }
    })
    .await;
    let url = format!("http://a.test:{port}/");
    let resumed = |id, tag: &str| Fetch {
        resume: Some(Resume {
            offset: 70_001,
            validator: Validator::EntityTag(tag.to_owned()),
        }),
        ..fetch_of(id, Method::Get, &url, &[])
    };
    // The part that the agent has already verified.
    let key = window_key(&agent.session);
    let mut sender = longhaul_codec::BodyEncoder::new(key, longhaul_codec::Coder::Identity, None).unwrap();
    let mut before = Vec::new();
    sender.push(&page[..70_001], &mut before).unwrap();
    sender.flush(&mut before).unwrap();
    let mut decoder = BodyDecoder::new(key, longhaul_codec::Coding::Identity, BodyLimits::default());
    let mut found = Vec::new();
    let mut wire = &before[..];
    while let longhaul_codec::BodyEvent::Window(window) = decoder.next(&mut wire).unwrap() {
        found.extend_from_slice(&window);
    }

    let id = agent.id();
    agent.send(Message::Fetch(resumed(id, "\"v1\""))).await;
    let mut answer = agent.answer().await;
    let Message::Body(body) = answer.next_message().await.unwrap() else {
        panic!()
    };
    assert_eq!((body.offset, body.coding), (70_001, BodyCoding::Identity));
    let mut decoder = decoder.resume(key, coding(body.coding));
    assert_eq!(answer.windows(&mut decoder, &mut found).await, BodyEnd::Complete);
    assert_eq!(found, page);
    let id = agent.id();
    assert_eq!(agent.failure(resumed(id, "\"v2\"")).await, FailureReason::Changed);
}

#[tokio::test]
async fn request_loops_are_refused() {
    let (_gateway, mut agent) = setup().await;
    let port = serve(|_| async { reply(StatusCode::OK.as_u16(), &[], full("")) }).await;
    let via = [("via", "1.1 longhaul, 1.1 longhaul")];
    let fetch = fetch_of(agent.id(), Method::Get, &format!("http://a.test:{port}/"), &via);
    assert_eq!(agent.failure(fetch).await, FailureReason::TargetRefused);
}
