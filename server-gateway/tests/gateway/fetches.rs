//! Requests and their responses.
mod failures;
mod flow;

use std::{
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use longhaul_session::{BodyCoding, Fetch, FetchId, HeaderSets, Message, Method, encode_header_set};

use crate::{
    agent::{Agent, BodyEnd, fetch_of, wire},
    gateway::Gateway,
    origin::{OriginBody, full, serve, text},
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
        .get(
            &format!("http://a.test:{port}/"),
            &[("accept-encoding", "gzip, deflate")],
        )
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
        .get(
            &format!("http://a.test:{port}/"),
            &[("range", "bytes=5-9"), ("accept-encoding", "gzip, deflate")],
        )
        .await;
    assert_eq!(response.status, 206);
    assert_eq!(response.body, b"\x1f\x8bxyz");
    assert_eq!(response.field("content-range"), Some("bytes 5-9/20"));
    assert_eq!(response.field("content-encoding"), Some("gzip"));
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
