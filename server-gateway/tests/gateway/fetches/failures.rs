//! Fetches that fail, and responses that are damaged or truncated.
use std::io::Write as _;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use longhaul_codec::{BodyDecoder, BodyLimits, DecodeError};
use longhaul_session::{
    BodyCoding, FailureReason, Fetch, FetchId, HeaderSets, Message, Method, Resume, Validator,
    encode_header_set,
};

use super::{reply, setup};
use crate::{
    agent::{BROWSER, BodyEnd, coding, fetch_of, window_key},
    origin::{full, serve, serve_raw, text},
};

#[tokio::test]
async fn content_codings_fail_or_end_where_their_data_ends() {
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
    let response = agent.get(&format!("http://a.test:{port}/half"), &[BROWSER]).await;
    // The message itself is complete: browsers show what the coding contains.
    assert_eq!(response.end, BodyEnd::Complete);
    assert!(response.body.len() > 100_000 && page.starts_with(&response.body));
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
