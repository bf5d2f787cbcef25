//! Bodies in the gateway's cache: decoded, complete, shared while they arrive, and not sent to agents that
//! hold them.
use std::io::Write as _;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use longhaul_codec::DecodeError;
use longhaul_session::{BodyPlace, Cancel, FailureReason, Fetch, FetchId, FetchKind, Message, Method};
use longhaul_types::{ContentHash, SecretKey};
use tokio::sync::mpsc;

use crate::{
    agent::{Agent, BodyEnd, fetch_of, wire},
    gateway::Gateway,
    origin::{OriginBody, full, serve, serve_tcp, text},
    store::{Log, reply, setup},
};

const FRESH: (&str, &str) = ("cache-control", "public, max-age=600");

fn coded(coding: &str, body: &[u8]) -> Vec<u8> {
    match coding {
        "gzip" => {
            let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            coder.write_all(body).unwrap();
            coder.finish().unwrap()
        }
        "deflate" => {
            let mut coder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            coder.write_all(body).unwrap();
            coder.finish().unwrap()
        }
        "br" => {
            let mut coder = mbrotli::Compressor::new(mbrotli::EncoderConfig::default()).unwrap();
            coder.compress(body).unwrap()
        }
        "zstd" => zstd::bulk::compress(body, 3).unwrap(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn content_codings_are_decoded_before_storage() {
    let (_gateway, mut agent) = setup().await;
    let page = text(300_000);
    for coding in ["gzip", "deflate", "br", "zstd"] {
        let (log, body) = (Log::default(), coded(coding, &page));
        let counted = log.clone();
        let port = serve(move |request: Request<Incoming>| {
            counted.add(request.headers());
            let body = body.clone();
            async move {
                let fields = [FRESH, ("content-encoding", coding), ("content-type", "text/html")];
                reply(200, &fields, full(body))
            }
        })
        .await;
        let url = format!("http://a.test:{port}/");
        // The second browser accepts no content coding.
        for fields in [&[("accept-encoding", "gzip, br")][..], &[]] {
            let response = agent.get(&url, fields).await;
            assert_eq!(response.end, BodyEnd::Complete, "{coding}");
            assert!(response.body == page, "{coding}");
            assert_eq!(response.field("content-encoding"), None);
        }
        assert_eq!(log.count(), 1, "{coding}");
        assert_eq!(agent.get(&url, &[]).await.field("content-length"), Some("300000"));
    }
}

#[tokio::test]
async fn no_transform_bodies_are_stored_encoded() {
    let (_gateway, mut agent) = setup().await;
    let (page, log) = (text(5000), Log::default());
    let (body, counted) = (coded("gzip", &page), log.clone());
    let origin = body.clone();
    let port = serve(move |request: Request<Incoming>| {
        counted.add(request.headers());
        let body = origin.clone();
        async move {
            let fields = [
                ("cache-control", "max-age=600, no-transform"),
                ("content-encoding", "gzip"),
            ];
            reply(200, &fields, full(body))
        }
    })
    .await;
    let url = format!("http://a.test:{port}/");
    let gzip = [("accept-encoding", "gzip")];
    for _ in 0..2 {
        let response = agent.get(&url, &gzip).await;
        assert_eq!(
            (response.field("content-encoding"), response.body == body),
            (Some("gzip"), true)
        );
    }
    assert_eq!(log.count(), 1);
    let plain = agent.get(&url, &[]).await;
    assert_eq!(
        (plain.field("content-encoding"), plain.body == page),
        (None, true)
    );
    assert_eq!(
        log.count(),
        2,
        "a browser without that content coding gets its own response"
    );
}

#[tokio::test]
async fn truncated_bodies_are_not_stored() {
    let (_gateway, mut agent) = setup().await;
    let page = text(200_000);
    let whole = coded("gzip", &page);
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    let head = |length: usize, more: &str| {
        format!(
            "HTTP/1.1 200 OK\r\ncache-control: max-age=600\r\ncontent-length: {length}\r\n{more}connection: close\r\n\r\n"
        )
    };
    let gzip = "content-encoding: gzip\r\n";
    let bad = [
        [head(page.len(), "").into_bytes(), page[..100_000].to_vec()].concat(),
        [head(whole.len(), gzip).into_bytes(), whole[..middle].to_vec()].concat(),
        [head(middle, gzip).into_bytes(), whole[..middle].to_vec()].concat(),
        [head(whole.len(), gzip).into_bytes(), damaged].concat(),
    ];
    for bad in bad {
        let log = Log::default();
        let (counted, good) = (
            log.clone(),
            [head(page.len(), "").into_bytes(), page.clone()].concat(),
        );
        let port = serve_tcp(move |mut connection| {
            let first = counted.add(&http::HeaderMap::new()) == 1;
            let answer = if first { bad.clone() } else { good.clone() };
            async move {
                use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
                let mut request = [0; 4096];
                let _count = connection.read(&mut request).await.unwrap();
                let _gone = connection.write_all(&answer).await;
            }
        })
        .await;
        let url = format!("http://a.test:{port}/");
        let broken = agent.get(&url, &[]).await;
        assert!(
            matches!(broken.end, BodyEnd::Broken(DecodeError::Truncated { .. })),
            "{:?}",
            broken.end
        );
        let response = agent.get(&url, &[]).await;
        assert_eq!((response.end, response.body == page), (BodyEnd::Complete, true));
        assert_eq!(log.count(), 2);
    }
}

#[tokio::test]
async fn bodies_ended_by_connection_close_are_not_stored() {
    let (_gateway, mut agent) = setup().await;
    let log = Log::default();
    let counted = log.clone();
    let port = serve_tcp(move |mut connection| {
        counted.add(&http::HeaderMap::new());
        async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let mut request = [0; 4096];
            let _count = connection.read(&mut request).await.unwrap();
            let answer = b"HTTP/1.0 200 OK\r\ncache-control: max-age=600\r\n\r\nuntil close";
            connection.write_all(answer).await.unwrap();
        }
    })
    .await;
    let url = format!("http://a.test:{port}/");
    for _ in 0..2 {
        assert_eq!(agent.get(&url, &[]).await.body, b"until close");
    }
    assert_eq!(log.count(), 2);
}

/// A body that a test feeds.
fn fed() -> (mpsc::Sender<Bytes>, OriginBody) {
    let (sender, receiver) = mpsc::channel(1);
    let frames = futures_util::stream::unfold(receiver, |mut receiver: mpsc::Receiver<Bytes>| async move {
        let bytes = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(Frame::data(bytes)), receiver))
    });
    (sender, StreamBody::new(frames).boxed_unsync())
}

/// An origin whose bodies a test feeds, with one sender per request.
async fn fed_origin(
    fields: &'static [(&'static str, &'static str)],
) -> (String, mpsc::Receiver<mpsc::Sender<Bytes>>) {
    let (feeds_in, feeds) = mpsc::channel(8);
    let port = serve(move |_| {
        let feeds = feeds_in.clone();
        async move {
            let (feed, body) = fed();
            feeds.send(feed).await.unwrap();
            reply(200, fields, body)
        }
    })
    .await;
    (format!("http://a.test:{port}/"), feeds)
}

async fn ask(agent: &mut Agent, url: &str, fields: &[(&str, &str)]) -> FetchId {
    let fetch = fetch_of(agent.id(), Method::Get, url, fields);
    let id = fetch.id;
    agent.send(Message::Fetch(fetch)).await;
    id
}

#[tokio::test]
async fn equal_concurrent_requests_share_a_fetch() {
    let (gateway, mut ann) = setup().await;
    let mut bob = Agent::connect(&gateway).await;
    let (url, mut feeds) = fed_origin(&[FRESH]).await;
    ask(&mut ann, &url, &[]).await;
    let feed = feeds.recv().await.unwrap();
    feed.send("first, ".into()).await.unwrap();
    // The response has begun: both requests join its fetch.
    let first = ann.answer().await;
    ask(&mut bob, &url, &[]).await;
    ask(&mut bob, &url, &[]).await;
    let (second, third) = (bob.answer().await, bob.answer().await);
    feed.send("second".into()).await.unwrap();
    drop(feed);
    assert_eq!(first.response(&ann.session).await.body, b"first, second");
    assert_eq!(second.response(&bob.session).await.body, b"first, second");
    assert_eq!(third.response(&bob.session).await.body, b"first, second");
    assert!(
        feeds.try_recv().is_err(),
        "the origin received more than one request"
    );
}

#[tokio::test]
async fn private_responses_are_not_shared_while_they_arrive() {
    let (gateway, ann) = setup().await;
    let bob = Agent::connect(&gateway).await;
    let (url, mut feeds) = fed_origin(&[("cache-control", "private, max-age=600")]).await;
    // One after the other: the requests of two sessions reach the origin in any order.
    let mut asked = Vec::new();
    for mut agent in [ann, bob] {
        ask(&mut agent, &url, &[]).await;
        asked.push((feeds.recv().await.unwrap(), agent));
    }
    for (feed, agent) in asked {
        let answer = agent.answer().await;
        feed.send("mine".into()).await.unwrap();
        drop(feed);
        assert_eq!(answer.response(&agent.session).await.body, b"mine");
    }
}

#[tokio::test]
async fn a_cancelled_request_does_not_stop_its_shared_fetch() {
    let (gateway, mut ann) = setup().await;
    let mut bob = Agent::connect(&gateway).await;
    let (url, mut feeds) = fed_origin(&[FRESH]).await;
    let id = ask(&mut ann, &url, &[]).await;
    let feed = feeds.recv().await.unwrap();
    let _first = ann.answer().await;
    ask(&mut bob, &url, &[]).await;
    let second = bob.answer().await;
    let cancel = wire(Message::Cancel(Cancel { fetch: id }));
    ann.control.write(cancel.into()).await.unwrap();
    for piece in ["all ", "of ", "it"] {
        feed.send(piece.into()).await.unwrap();
    }
    drop(feed);
    assert_eq!(second.response(&bob.session).await.body, b"all of it");
}

#[tokio::test]
async fn a_small_body_is_completed_without_a_reader() {
    let (_gateway, mut agent) = setup().await;
    let (url, mut feeds) = fed_origin(&[FRESH, ("content-length", "9")]).await;
    let id = ask(&mut agent, &url, &[]).await;
    let feed = feeds.recv().await.unwrap();
    feed.send("all ".into()).await.unwrap();
    let mut answer = agent.answer().await;
    let cancel = wire(Message::Cancel(Cancel { fetch: id }));
    agent.control.write(cancel.into()).await.unwrap();
    while answer.bytes().await.is_ok_and(|bytes| bytes.is_some()) {}
    feed.send("of it".into()).await.unwrap();
    drop(feed);
    // Joins the fetch in progress, or finds the stored body.
    assert_eq!(agent.get(&url, &[]).await.body, b"all of it");
    assert!(feeds.try_recv().is_err());
}

#[tokio::test]
async fn a_large_body_without_a_reader_is_aborted() {
    let (_gateway, mut agent) = setup().await;
    let (url, mut feeds) = fed_origin(&[FRESH, ("content-length", "9000000")]).await;
    let id = ask(&mut agent, &url, &[]).await;
    let feed = feeds.recv().await.unwrap();
    feed.send(vec![0; 10_000].into()).await.unwrap();
    let _answer = agent.answer().await;
    let cancel = wire(Message::Cancel(Cancel { fetch: id }));
    agent.control.write(cancel.into()).await.unwrap();
    feed.closed().await;
}

async fn with_held(
    agent: &mut Agent,
    url: &str,
    held: &[u8],
    kind: FetchKind,
) -> (BodyPlace, Option<ContentHash>) {
    asked_with_held(agent, Method::Get, url, held, kind).await
}

async fn asked_with_held(
    agent: &mut Agent,
    method: Method,
    url: &str,
    held: &[u8],
    kind: FetchKind,
) -> (BodyPlace, Option<ContentHash>) {
    let fetch = Fetch {
        held: Some(ContentHash::of(held)),
        kind,
        ..fetch_of(agent.id(), method, url, &[])
    };
    agent.send(Message::Fetch(fetch)).await;
    let mut answer = agent.answer().await;
    let head = answer.head();
    if head.body == BodyPlace::Held {
        assert_eq!(
            answer.bytes().await,
            Ok(None),
            "the response contains only the hash"
        );
    }
    (head.body, head.content_hash)
}

/// A session that has measured nothing, and whose profile is slow: the gateway waits for the origin's body as long as the
/// body would take on the link, here up to 5 s.
async fn slow_agent(gateway: &Gateway, device: &SecretKey) -> Agent {
    Agent::connect_over(gateway, device, 0, "gprs-3+1").await
}

#[tokio::test]
async fn a_held_body_is_not_sent() {
    let gateway = Gateway::start().await;
    let device = gateway.admit("a device");
    let page = text(100_000);
    let body = coded("gzip", &page);
    for control in ["no-store", "max-age=600"] {
        let body = body.clone();
        let port = serve(move |_| {
            let body = body.clone();
            async move {
                let fields = [("cache-control", control), ("content-encoding", "gzip")];
                reply(200, &fields, full(body))
            }
        })
        .await;
        let url = format!("http://a.test:{port}/");
        let hash = Some(ContentHash::of(&page));
        for kind in [FetchKind::Page, FetchKind::Object] {
            // Fetched first, then from the cache if the response may be stored.
            for _ in 0..2 {
                let mut agent = slow_agent(&gateway, &device).await;
                let answer = with_held(&mut agent, &url, &page, kind).await;
                assert_eq!(answer, (BodyPlace::Held, hash), "{control}");
            }
            let mut agent = slow_agent(&gateway, &device).await;
            let (place, _) = with_held(&mut agent, &url, b"an older version", kind).await;
            assert_eq!(place, BodyPlace::Follows);
        }
    }
}

/// If the agent does not hold the body after all, it repeats the request, which the origin has then received
/// already.
#[tokio::test]
async fn only_repeatable_requests_are_answered_by_a_hash() {
    let (_gateway, mut agent) = setup().await;
    let port = serve(|_| async { reply(200, &[], full("done")) }).await;
    let url = format!("http://a.test:{port}/");
    for (method, place) in [
        (Method::Get, BodyPlace::Held),
        (Method::Delete, BodyPlace::Follows),
        (Method::Post, BodyPlace::Follows),
        (Method::Other("PROPFIND".to_owned()), BodyPlace::Follows),
    ] {
        let said = format!("{method:?}");
        let answer = asked_with_held(&mut agent, method, &url, b"done", FetchKind::Object).await;
        assert_eq!(answer.0, place, "{said}");
    }
}

#[tokio::test]
async fn a_slow_origin_is_not_awaited_to_compare_hashes() {
    let (_gateway, mut agent) = setup().await;
    let (url, mut feeds) = fed_origin(&[]).await;
    let fetch = Fetch {
        held: Some(ContentHash::of(b"slow")),
        ..fetch_of(agent.id(), Method::Get, &url, &[])
    };
    agent.send(Message::Fetch(fetch)).await;
    let feed = feeds.recv().await.unwrap();
    feed.send("sl".into()).await.unwrap();
    let answer = agent.answer().await;
    assert_eq!(answer.head().body, BodyPlace::Follows);
    feed.send("ow".into()).await.unwrap();
    drop(feed);
    assert_eq!(answer.response(&agent.session).await.body, b"slow");
}

#[tokio::test]
async fn knowing_a_hash_gives_no_access_to_private_bodies() {
    let (gateway, mut ann) = setup().await;
    let mut bob = Agent::connect(&gateway).await;
    let port = serve(|request: Request<Incoming>| async move {
        match request.headers().get(header::COOKIE) {
            Some(_) => reply(
                200,
                &[("cache-control", "private, max-age=600")],
                full("a secret"),
            ),
            None => reply(404, &[], full("nothing")),
        }
    })
    .await;
    let url = format!("http://a.test:{port}/");
    assert_eq!(ann.get(&url, &[("cookie", "id=ann")]).await.body, b"a secret");
    let answer = with_held(&mut bob, &url, b"a secret", FetchKind::Object).await;
    assert_ne!(answer.0, BodyPlace::Held);
    let resumed = Fetch {
        resume: Some(longhaul_session::Resume {
            offset: 2,
            validator: longhaul_session::Validator::ContentHash(ContentHash::of(b"a secret")),
        }),
        ..fetch_of(bob.id(), Method::Get, &url, &[])
    };
    assert_eq!(bob.failure(resumed).await, FailureReason::Changed);
}
