//! The gateway's cache: stored responses and their users (RFC 9111).
use std::sync::Arc;

use parking_lot::Mutex;

use http::{HeaderMap, Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use longhaul_session::Method;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    agent::{Agent, BROWSER, BodyEnd},
    gateway::Gateway,
    origin::{OriginBody, full, serve, text},
};

/// Log of an origin's requests.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<HeaderMap>>>);

impl Log {
    pub(crate) fn add(&self, headers: &HeaderMap) -> usize {
        let mut log = self.0.lock();
        log.push(headers.clone());
        log.len()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().len()
    }

    pub(crate) fn last(&self) -> HeaderMap {
        self.0.lock().last().unwrap().clone()
    }
}

/// An origin that answers each request with these fields, and with the number of the request as body.
pub(crate) async fn numbered(fields: &'static [(&'static str, &'static str)]) -> (String, Log) {
    let log = Log::default();
    let counted = log.clone();
    let port = serve(move |request: Request<Incoming>| {
        let number = counted.add(request.headers());
        async move { reply(200, fields, full(format!("answer {number}"))) }
    })
    .await;
    (format!("http://a.test:{port}/"), log)
}

pub(crate) fn reply(status: u16, fields: &[(&str, &str)], body: OriginBody) -> Response<OriginBody> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(body).unwrap()
}

pub(crate) async fn setup() -> (Gateway, Agent) {
    let gateway = Gateway::start().await;
    let agent = Agent::connect(&gateway).await;
    (gateway, agent)
}

/// Returns the body as text; the body must be complete.
pub(crate) async fn get(agent: &mut Agent, url: &str, fields: &[(&str, &str)]) -> String {
    let response = agent.get(url, fields).await;
    assert_eq!(response.end, BodyEnd::Complete);
    String::from_utf8(response.body).unwrap()
}

#[tokio::test]
async fn fresh_responses_come_from_the_cache() {
    let (gateway, mut agent) = setup().await;
    let mut other = Agent::connect(&gateway).await;
    let (url, log) = numbered(&[
        ("cache-control", "public, max-age=600"),
        ("content-type", "text/css"),
    ])
    .await;
    let first = agent.get(&url, &[]).await;
    assert_eq!(first.field("age"), None);
    assert_eq!(first.body, b"answer 1");
    for agent in [&mut agent, &mut other] {
        let again = agent.get(&url, &[]).await;
        assert_eq!(again.body, b"answer 1");
        assert!(again.field("age").unwrap().parse::<u32>().unwrap() < 60);
        assert_eq!(again.field("content-length"), Some("8"));
        assert_eq!(again.field("content-type"), Some("text/css"));
        assert_eq!(again.field("via"), Some("1.1 longhaul"));
    }
    assert_eq!(log.count(), 1);
    // Another URL is another resource.
    assert_eq!(get(&mut agent, &format!("{url}?x"), &[]).await, "answer 2");
}

#[tokio::test]
async fn no_store_responses_are_fetched_each_time() {
    let (_gateway, mut agent) = setup().await;
    for fields in [
        &[("cache-control", "no-store")][..],
        &[("cache-control", "public, max-age=600, no-store")],
        &[("cache-control", "max-age=600"), ("vary", "*")],
        &[("cache-control", "max-age=0")],
        &[],
        &[
            ("cache-control", "max-age=600"),
            ("content-type", "text/event-stream"),
        ],
    ] {
        let (url, log) = numbered(fields).await;
        assert_eq!(get(&mut agent, &url, &[]).await, "answer 1");
        assert_eq!(get(&mut agent, &url, &[]).await, "answer 2", "{fields:?}");
        assert!(!log.last().contains_key(header::IF_NONE_MATCH));
    }
    let (url, _) = numbered(&[("cache-control", "public, max-age=600")]).await;
    let no_store = [("cache-control", "no-store")];
    assert_eq!(get(&mut agent, &url, &no_store).await, "answer 1");
    assert_eq!(
        get(&mut agent, &url, &[]).await,
        "answer 2",
        "the response to a request with `no-store` is not stored"
    );
}

#[tokio::test]
async fn private_responses_serve_only_their_user() {
    let (gateway, mut ann) = setup().await;
    let mut bob = Agent::connect(&gateway).await;
    for (fields, request) in [
        (&[("cache-control", "private, max-age=600")][..], &[][..]),
        (
            &[("cache-control", "public, max-age=600"), ("set-cookie", "id=1")],
            &[],
        ),
        (&[("cache-control", "max-age=600")], &[("cookie", "id=1")]),
        (
            &[("cache-control", "public, max-age=600")],
            &[("x-forwarded-host", "evil.test")],
        ),
        (
            &[
                ("cache-control", "public, max-age=600"),
                ("access-control-allow-origin", "http://b.test"),
            ],
            &[("origin", "http://b.test")],
        ),
    ] {
        let (url, log) = numbered(fields).await;
        assert_eq!(get(&mut ann, &url, request).await, "answer 1", "{fields:?}");
        assert_eq!(get(&mut bob, &url, request).await, "answer 2", "{fields:?}");
        assert_eq!(get(&mut ann, &url, request).await, "answer 1", "{fields:?}");
        assert_eq!(get(&mut bob, &url, request).await, "answer 2", "{fields:?}");
        assert_eq!(log.count(), 2);
    }
}

#[tokio::test]
async fn stored_responses_match_by_cookie() {
    let (gateway, mut ann) = setup().await;
    let mut bob = Agent::connect(&gateway).await;
    // `public`: a shared response answers requests with cookies, but a response to a request with cookies is
    // not shared.
    let (url, _) = numbered(&[("cache-control", "public, max-age=600")]).await;
    assert_eq!(get(&mut ann, &url, &[("cookie", "id=ann")]).await, "answer 1");
    assert_eq!(get(&mut bob, &url, &[("cookie", "id=bob")]).await, "answer 2");
    let (url, _) = numbered(&[("cache-control", "public, max-age=600")]).await;
    assert_eq!(get(&mut ann, &url, &[]).await, "answer 1");
    assert_eq!(get(&mut bob, &url, &[("cookie", "id=bob")]).await, "answer 1");
    // Without `public`: a response to a request without cookies does not answer a request with cookies.
    let (url, _) = numbered(&[("cache-control", "max-age=600")]).await;
    assert_eq!(get(&mut ann, &url, &[]).await, "answer 1");
    assert_eq!(get(&mut bob, &url, &[]).await, "answer 1");
    assert_eq!(get(&mut bob, &url, &[("cookie", "id=bob")]).await, "answer 2");
    // Two people on one device.
    let (url, _) = numbered(&[("cache-control", "private, max-age=600")]).await;
    assert_eq!(get(&mut ann, &url, &[("cookie", "id=ann")]).await, "answer 1");
    assert_eq!(get(&mut ann, &url, &[("cookie", "id=amy")]).await, "answer 2");
    assert_eq!(get(&mut ann, &url, &[("cookie", "id=amy")]).await, "answer 2");
}

#[tokio::test]
async fn set_cookie_is_not_repeated_from_the_cache() {
    let (_gateway, mut agent) = setup().await;
    let (url, _) = numbered(&[("cache-control", "max-age=600"), ("set-cookie", "id=1")]).await;
    assert_eq!(agent.get(&url, &[]).await.field("set-cookie"), Some("id=1"));
    let again = agent.get(&url, &[]).await;
    assert_eq!(
        (again.body.as_slice(), again.field("set-cookie")),
        (&b"answer 1"[..], None)
    );
}

#[tokio::test]
async fn credentials_are_always_checked_by_the_origin() {
    let (_gateway, mut agent) = setup().await;
    let (url, _) = numbered(&[("cache-control", "public, max-age=600")]).await;
    assert_eq!(get(&mut agent, &url, &[]).await, "answer 1");
    let secret = [("authorization", "Basic x")];
    assert_eq!(get(&mut agent, &url, &secret).await, "answer 2");
    assert_eq!(get(&mut agent, &url, &secret).await, "answer 3");
    let (url, _) = numbered(&[("cache-control", "max-age=600")]).await;
    assert_eq!(get(&mut agent, &url, &secret).await, "answer 1");
    assert_eq!(
        get(&mut agent, &url, &[]).await,
        "answer 2",
        "a response to a request with credentials answered another request"
    );
}

#[tokio::test]
async fn variants_are_distinguished() {
    let (_gateway, mut agent) = setup().await;
    let fields = &[
        ("cache-control", "max-age=600"),
        ("vary", "accept-language, accept-encoding"),
    ];
    let (url, log) = numbered(fields).await;
    let german = [BROWSER, ("accept-language", "de")];
    let french = [BROWSER, ("accept-language", "fr")];
    assert_eq!(get(&mut agent, &url, &german).await, "answer 1");
    assert_eq!(get(&mut agent, &url, &french).await, "answer 2");
    assert_eq!(get(&mut agent, &url, &[BROWSER]).await, "answer 3");
    assert_eq!(get(&mut agent, &url, &german).await, "answer 1");
    assert_eq!(get(&mut agent, &url, &french).await, "answer 2");
    // The browser's further content codings do not concern the origin.
    let fields = [
        ("accept-language", "de"),
        ("accept-encoding", "gzip, deflate, br"),
    ];
    assert_eq!(get(&mut agent, &url, &fields).await, "answer 1");
    assert_eq!(log.count(), 3);
    // A client that is no browser negotiates itself.
    let fields = [("accept-language", "de"), ("accept-encoding", "br")];
    assert_eq!(get(&mut agent, &url, &fields).await, "answer 4");
}

#[tokio::test]
async fn unsafe_requests_make_stored_responses_invalid() {
    let (gateway, mut agent) = setup().await;
    let mut other = Agent::connect(&gateway).await;
    let log = Log::default();
    let counted = log.clone();
    let port = serve(move |request: Request<Incoming>| {
        let counted = counted.clone();
        async move {
            let number = counted.add(request.headers());
            if request.method() == http::Method::GET {
                // The first response of a connection is stored for all devices.
                let fields = [("cache-control", "public, max-age=600"), ("connection", "close")];
                return reply(200, &fields, full(format!("answer {number}")));
            }
            let path = request.uri().path().to_owned();
            let _body = request.into_body().collect().await.unwrap();
            let status = if path == "/refused" { 403 } else { 303 };
            reply(status, &[("location", "/list")], full(""))
        }
    })
    .await;
    let url = |path: &str| format!("http://a.test:{port}{path}");
    assert_eq!(get(&mut agent, &url("/list"), &[]).await, "answer 1");
    assert_eq!(get(&mut agent, &url("/form"), &[]).await, "answer 2");
    assert_eq!(get(&mut agent, &url("/other"), &[]).await, "answer 3");
    assert_eq!(
        other.upload(Method::Post, &url("/refused"), b"x").await.status,
        403
    );
    assert_eq!(
        get(&mut agent, &url("/list"), &[]).await,
        "answer 1",
        "an error response does not invalidate"
    );
    assert_eq!(other.upload(Method::Post, &url("/form"), b"x").await.status, 303);
    assert_eq!(get(&mut agent, &url("/list"), &[]).await, "answer 6");
    assert_eq!(get(&mut agent, &url("/form"), &[]).await, "answer 7");
    assert_eq!(get(&mut agent, &url("/other"), &[]).await, "answer 3");
    let deleted = agent.request(Method::Delete, &url("/other"), &[]).await;
    assert_eq!(deleted.status, 303);
    assert_eq!(get(&mut agent, &url("/other"), &[]).await, "answer 9");
}

#[tokio::test]
async fn a_head_request_is_answered_from_a_stored_get() {
    let (_gateway, mut agent) = setup().await;
    let page = text(5000);
    let log = Log::default();
    let (counted, origin) = (log.clone(), page.clone());
    let port = serve(move |request: Request<Incoming>| {
        counted.add(request.headers());
        let page = origin.clone();
        async move {
            reply(
                200,
                &[("cache-control", "max-age=600"), ("etag", "\"1\"")],
                full(page),
            )
        }
    })
    .await;
    let url = format!("http://a.test:{port}/");
    let asked = agent.request(Method::Head, &url, &[]).await;
    assert_eq!((asked.field("content-length"), log.count()), (Some("5000"), 1));
    assert_eq!(
        agent.get(&url, &[]).await.body,
        page,
        "the response to a HEAD is not used for a GET"
    );
    let asked = agent.request(Method::Head, &url, &[]).await;
    assert_eq!((asked.status, asked.field("content-length")), (200, Some("5000")));
    assert!(asked.body.is_empty() && asked.field("age").is_some());
    assert_eq!(log.count(), 2);
}

#[tokio::test]
async fn range_requests_bypass_the_cache() {
    let (_gateway, mut agent) = setup().await;
    let log = Log::default();
    let counted = log.clone();
    let port = serve(move |request: Request<Incoming>| {
        counted.add(request.headers());
        async move {
            let control = ("cache-control", "public, max-age=600");
            if request.headers().contains_key(header::RANGE) {
                return reply(206, &[control, ("content-range", "bytes 0-3/10")], full("0123"));
            }
            reply(200, &[control], full("0123456789"))
        }
    })
    .await;
    let url = format!("http://a.test:{port}/");
    let range = [("range", "bytes=0-3")];
    assert_eq!(agent.get(&url, &range).await.status, 206);
    assert_eq!(
        get(&mut agent, &url, &[]).await,
        "0123456789",
        "a partial response is not used as the complete one"
    );
    assert_eq!(agent.get(&url, &range).await.status, 206);
    assert_eq!(log.count(), 3);
    assert_eq!(get(&mut agent, &url, &[]).await, "0123456789");
    assert_eq!(log.count(), 3);
}

#[tokio::test]
async fn responses_of_connection_bound_logins_are_not_stored() {
    let (_gateway, mut agent) = setup().await;
    let port = serve(|request: Request<Incoming>| async move {
        let fields = [
            ("www-authenticate", "NTLM"),
            ("cache-control", "public, max-age=600"),
        ];
        match request.headers().get(header::AUTHORIZATION) {
            None => reply(401, &fields, full("who are you")),
            Some(_) => reply(200, &fields[1..], full("hello")),
        }
    })
    .await;
    let url = format!("http://a.test:{port}/");
    for _ in 0..2 {
        let refused = agent.get(&url, &[]).await;
        assert_eq!((refused.status, refused.field("age")), (401, None));
        assert_eq!(
            agent.get(&url, &[("authorization", "NTLM x")]).await.body,
            b"hello"
        );
    }
}

#[tokio::test]
async fn metrics_count_cache_results() {
    let (gateway, mut agent) = setup().await;
    let (url, _) = numbered(&[("cache-control", "max-age=600"), ("etag", "\"1\"")]).await;
    for _ in 0..3 {
        assert_eq!(get(&mut agent, &url, &[]).await, "answer 1");
    }
    let mut connection = TcpStream::connect(gateway.metrics).await.unwrap();
    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    for line in [
        "longhaul_cache_answers_total{result=\"hit\"} 2",
        "longhaul_cache_answers_total{result=\"miss\"} 1",
        "longhaul_cache_bodies 1",
        "longhaul_cache_resets_total 0",
    ] {
        assert!(answer.lines().any(|found| found == line), "{line} in\n{answer}");
    }
}
