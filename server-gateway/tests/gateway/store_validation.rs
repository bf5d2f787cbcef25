//! Stale responses in the gateway's cache: validation, update, and stale-if-error.
use std::sync::Arc;

use parking_lot::Mutex;

use http::{Request, header};
use hyper::body::Incoming;
use longhaul_session::{FailureReason, Method};

use crate::{
    agent::fetch_of,
    origin::{full, serve},
    store::{Log, get, reply, setup},
};

/// An origin that serves the body `version N` with an entity tag and this `Cache-Control`.
async fn versioned(control: &'static str) -> (String, Log, Arc<Mutex<Answer>>) {
    let answer = Arc::new(Mutex::new(Answer::Version("1")));
    let log = Log::default();
    let (served, counted) = (Arc::clone(&answer), log.clone());
    let port = serve(move |request: Request<Incoming>| {
        counted.add(request.headers());
        let answer = *served.lock();
        async move {
            let version = match answer {
                Answer::Version(version) => version,
                Answer::Status(status) => return reply(status, &[], full("sorry")),
            };
            let etag = format!("\"{version}\"");
            let fields = [
                ("etag", etag.as_str()),
                ("cache-control", control),
                ("x-at", version),
            ];
            if request
                .headers()
                .get(header::IF_NONE_MATCH)
                .is_some_and(|tag| *tag == etag)
            {
                return reply(
                    304,
                    &[&fields[..], &[("x-new", "1"), ("content-length", "77")]].concat(),
                    full(""),
                );
            }
            reply(200, &fields, full(format!("version {version}")))
        }
    })
    .await;
    (format!("http://a.test:{port}/"), log, answer)
}

#[derive(Clone, Copy)]
enum Answer {
    Version(&'static str),
    Status(u16),
}

#[tokio::test]
async fn stale_responses_are_validated() {
    let (_gateway, mut agent) = setup().await;
    let (url, log, answer) = versioned("no-cache").await;
    assert_eq!(get(&mut agent, &url, &[]).await, "version 1");
    let confirmed = agent.get(&url, &[]).await;
    assert_eq!(log.last()[header::IF_NONE_MATCH], "\"1\"");
    assert_eq!(
        (confirmed.status, confirmed.body.as_slice()),
        (200, &b"version 1"[..])
    );
    assert_eq!(
        confirmed.field("x-new"),
        Some("1"),
        "a 304 updates the stored fields"
    );
    assert_eq!(
        confirmed.field("content-length"),
        Some("9"),
        "a 304 does not update fields that describe the body"
    );
    *answer.lock() = Answer::Version("2");
    assert_eq!(get(&mut agent, &url, &[]).await, "version 2");
    assert_eq!(log.last()[header::IF_NONE_MATCH], "\"1\"");
    assert_eq!(get(&mut agent, &url, &[]).await, "version 2");
    assert_eq!(log.last()[header::IF_NONE_MATCH], "\"2\"");
}

#[tokio::test]
async fn a_validated_response_is_fresh_again() {
    let (_gateway, mut agent) = setup().await;
    let (url, log, _) = versioned("max-age=600").await;
    assert_eq!(get(&mut agent, &url, &[]).await, "version 1");
    let reload = [("cache-control", "max-age=0")];
    assert_eq!(get(&mut agent, &url, &reload).await, "version 1");
    assert_eq!(
        log.last()[header::IF_NONE_MATCH],
        "\"1\"",
        "a reload causes validation"
    );
    assert_eq!(get(&mut agent, &url, &[]).await, "version 1");
    assert_eq!(log.count(), 2);
    let force = [("cache-control", "no-cache"), ("pragma", "no-cache")];
    assert_eq!(get(&mut agent, &url, &force).await, "version 1");
    assert!(
        !log.last().contains_key(header::IF_NONE_MATCH),
        "a forced reload is not conditional"
    );
    assert_eq!(log.count(), 3);
}

#[tokio::test]
async fn conditional_requests_of_browsers_are_answered() {
    let (_gateway, mut agent) = setup().await;
    let (url, log, answer) = versioned("max-age=600").await;
    // Nothing is stored: the origin evaluates the condition.
    let first = agent.get(&url, &[("if-none-match", "\"1\"")]).await;
    assert_eq!((first.status, log.count()), (304, 1));
    let whole = agent.get(&url, &[("if-none-match", "\"0\"")]).await;
    assert_eq!((whole.status, log.count()), (200, 2));
    // Fresh: the cache evaluates the condition.
    let same = agent.get(&url, &[("if-none-match", "W/\"1\"")]).await;
    assert_eq!(
        (same.status, same.field("etag"), same.body.len()),
        (304, Some("\"1\""), 0)
    );
    assert_eq!(
        agent.get(&url, &[("if-none-match", "\"0\"")]).await.body,
        b"version 1"
    );
    assert_eq!(log.count(), 2);
    // The gateway validates the stored version, then evaluates the browser's condition against the result.
    let reload = ("cache-control", "max-age=0");
    let same = agent.get(&url, &[("if-none-match", "\"1\""), reload]).await;
    assert_eq!((same.status, log.count()), (304, 3));
    let other = agent.get(&url, &[("if-none-match", "\"0\""), reload]).await;
    assert_eq!((other.status, other.body.as_slice()), (200, &b"version 1"[..]));
    assert_eq!(log.last()[header::IF_NONE_MATCH], "\"1\"");
    *answer.lock() = Answer::Version("2");
    let ahead = agent.get(&url, &[("if-none-match", "\"2\""), reload]).await;
    assert_eq!(ahead.status, 304, "the browser already has the new version");
    assert_eq!(get(&mut agent, &url, &[]).await, "version 2");
    assert_eq!(log.count(), 5);
}

#[tokio::test]
async fn stale_if_error_applies_to_failing_origins_where_allowed() {
    let (_gateway, mut agent) = setup().await;
    let cases = [
        ("max-age=0", 503, Some("version 1")),
        ("max-age=0, stale-if-error=600", 500, Some("version 1")),
        ("max-age=0, must-revalidate", 503, None),
        ("no-cache", 503, None),
        ("s-maxage=0", 503, None),
        ("max-age=0", 404, None),
        ("max-age=0", 501, None),
    ];
    for (control, status, expected) in cases {
        let (url, _, answer) = versioned(control).await;
        assert_eq!(get(&mut agent, &url, &[]).await, "version 1");
        *answer.lock() = Answer::Status(status);
        let reload = agent.get(&url, &[("cache-control", "max-age=0")]).await;
        assert_eq!(
            reload.status, status,
            "a reload gets the origin's failure, not a stale response"
        );
        let response = agent.get(&url, &[]).await;
        match expected {
            Some(body) => {
                assert_eq!(
                    (response.status, response.body.as_slice()),
                    (200, body.as_bytes()),
                    "{control}"
                );
                assert!(response.field("age").is_some());
            }
            None => assert_eq!(response.status, status, "{control}"),
        }
    }
}

#[tokio::test]
async fn stale_if_error_applies_to_unreachable_origins() {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    let (_gateway, mut agent) = setup().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://a.test:{}/", listener.local_addr().unwrap().port());
    let origin = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        let _count = connection.read(&mut request).await.unwrap();
        let answer = b"HTTP/1.1 200 OK\r\netag: \"1\"\r\ncache-control: max-age=0\r\ncontent-length: 4\r\nconnection: close\r\n\r\nhere";
        connection.write_all(answer).await.unwrap();
    });
    assert_eq!(get(&mut agent, &url, &[]).await, "here");
    origin.await.unwrap();
    let response = agent.get(&url, &[]).await;
    assert_eq!((response.status, response.body.as_slice()), (200, &b"here"[..]));
    // A reload gets the failure instead of a stale response.
    let reload = fetch_of(agent.id(), Method::Get, &url, &[("cache-control", "max-age=0")]);
    assert_eq!(agent.failure(reload).await, FailureReason::ConnectionRefused);
}
