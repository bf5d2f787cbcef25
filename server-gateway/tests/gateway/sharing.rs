//! Sharing between devices: only responses to requests that are the same for all devices
//! (docs/decisions/0020-what-devices-share.md).
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use longhaul_session::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{
    agent::Agent,
    store::{get, numbered, setup},
};

const PUBLIC: &[(&str, &str)] = &[("cache-control", "public, max-age=600")];
const FROM: (&str, &str) = ("referer", "http://a.test/");

#[tokio::test]
async fn responses_to_distinguishing_request_fields_are_not_shared() {
    let (gateway, mut ann) = setup().await;
    let mut bob = Agent::connect(&gateway).await;
    for name in [
        "user-agent",
        "accept",
        "accept-language",
        "via",
        "dnt",
        "sec-gpc",
        "sec-fetch-dest",
        "sec-ch-ua",
        "priority",
        "x-made-up",
        "from",
        "forwarded",
        "cookie",
        "cache-control",
        "pragma",
        "if-none-match",
        "range",
        "early-data",
    ] {
        let (url, log) = numbered(PUBLIC).await;
        assert_eq!(get(&mut ann, &url, &[FROM, (name, "poison")]).await, "answer 1");
        assert_eq!(get(&mut bob, &url, &[FROM]).await, "answer 2", "{name}");
        assert_eq!(log.count(), 2);
    }
    let (url, _) = numbered(PUBLIC).await;
    assert_eq!(
        get(&mut ann, &url, &[("referer", "http://a.test/poison")]).await,
        "answer 1"
    );
    assert_eq!(get(&mut bob, &url, &[FROM]).await, "answer 2", "referer");
}

#[tokio::test]
async fn equal_browsers_share_responses() {
    let (gateway, mut ann) = setup().await;
    let mut bob = Agent::connect(&gateway).await;
    let (url, log) = numbered(PUBLIC).await;
    let browser = [FROM, ("user-agent", "one"), ("accept", "*/*")];
    assert_eq!(get(&mut ann, &url, &browser).await, "answer 1");
    assert_eq!(get(&mut bob, &url, &browser).await, "answer 1");
    let known = [browser[0], browser[1], browser[2], ("cookie", "a=1")];
    assert_eq!(
        get(&mut bob, &url, &known).await,
        "answer 1",
        "a public response is shared"
    );
    // Another page of the same site sends another `Referer`.
    let elsewhere = [("referer", "http://a.test/2"), browser[1], browser[2]];
    assert_eq!(get(&mut ann, &url, &elsewhere).await, "answer 1");
    assert_eq!(get(&mut bob, &url, &elsewhere).await, "answer 2");
    assert_eq!(log.count(), 2);
}

#[tokio::test]
async fn a_304_for_one_device_changes_nothing_for_others() {
    let (gateway, mut ann) = setup().await;
    let mut bob = Agent::connect(&gateway).await;
    let port = crate::origin::serve(|request: http::Request<hyper::body::Incoming>| async move {
        let said = request.headers().get("x-made-up");
        let said = said.and_then(|said| said.to_str().ok()).unwrap_or("nothing");
        let is_known = request.headers().contains_key("if-none-match");
        let fields = [
            ("cache-control", "max-age=600"),
            ("etag", "\"1\""),
            ("x-echo", said),
        ];
        let body = if is_known { "" } else { "body" };
        crate::store::reply(
            if is_known { 304 } else { 200 },
            &fields,
            crate::origin::full(body),
        )
    })
    .await;
    let url = format!("http://a.test:{port}/x.js");
    ann.get(&url, &[FROM]).await;
    let poisoned = [FROM, ("cache-control", "max-age=0"), ("x-made-up", "poison")];
    let answer = ann.request(Method::Get, &url, &poisoned).await;
    assert_eq!(
        answer.field("x-echo"),
        Some("poison"),
        "the sender of the field receives it"
    );
    assert_eq!(bob.get(&url, &[FROM]).await.field("x-echo"), Some("nothing"));
}

/// A later response on a connection of HTTP/1.1 may be one that an earlier request caused.
#[tokio::test]
async fn a_later_response_of_a_connection_is_shared_once_it_was_the_first_of_another() {
    let (gateway, mut ann) = setup().await;
    let mut bob = Agent::connect(&gateway).await;
    let mut carol = Agent::connect(&gateway).await;
    let (url, log) = numbered(PUBLIC).await;
    let (first, later) = (format!("{url}first"), format!("{url}later"));
    assert_eq!(get(&mut ann, &first, &[FROM]).await, "answer 1");
    assert_eq!(get(&mut ann, &later, &[FROM]).await, "answer 2");
    assert_eq!(get(&mut ann, &later, &[FROM]).await, "answer 2", "her own");
    assert_eq!(
        get(&mut bob, &first, &[FROM]).await,
        "answer 1",
        "certain at once"
    );
    assert_eq!(get(&mut bob, &later, &[FROM]).await, "answer 3");
    for agent in [&mut bob, &mut carol] {
        assert_eq!(get(agent, &later, &[FROM]).await, "answer 3", "shared");
    }
    assert_eq!(log.count(), 3);
}

/// Another response of the connection could confirm what the origin does not.
#[tokio::test]
async fn a_shared_response_is_validated_on_a_connection_that_carried_nothing_else() {
    let (gateway, mut ann) = setup().await;
    let mut bob = Agent::connect(&gateway).await;
    let connections = AtomicUsize::new(0);
    let port = crate::origin::serve_tcp(move |mut stream| {
        let number = connections.fetch_add(1, Relaxed);
        async move {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                let head = format!("Cache-Control: max-age=600\r\nETag: \"1\"\r\nX-Number: {number}\r\n");
                let is_known = String::from_utf8_lossy(&buffer[..length]).contains("if-none-match");
                let answer = match is_known {
                    true => format!("HTTP/1.1 304 Not Modified\r\n{head}\r\n"),
                    false => format!("HTTP/1.1 200 OK\r\n{head}Content-Length: 1\r\n\r\nx"),
                };
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let url = format!("http://a.test:{port}/x.js");
    let number = async |agent: &mut Agent, fields: &[(&str, &str)]| {
        let response = agent.request(Method::Get, &url, fields).await;
        response.field("x-number").unwrap().to_owned()
    };
    assert_eq!(number(&mut ann, &[FROM]).await, "0");
    let reload = [FROM, ("cache-control", "max-age=0")];
    assert_eq!(number(&mut ann, &reload).await, "1");
    assert_eq!(number(&mut bob, &[FROM]).await, "1");
    assert_eq!(number(&mut bob, &reload).await, "2");
}
