//! Tests of the cache with a real origin.
use futures_util::FutureExt as _;
use http_body_util::Empty;

use super::*;
use crate::test_origin::{TestOrigin, answer, cache_request, fetch, raw_answer, web_cache, whole};

mod bodies;

const QUOTA: Option<ByteCount> = Some(ByteCount::mib(16));
/// Without a lifetime, each use must be confirmed.
const SHARED_STALE: &[&str] = &["cache-control: public", "etag: \"1\""];
const PRIVATE_STALE: &[&str] = &["cache-control: private, max-age=0", "etag: \"1\""];

fn ok(fields: &[&str]) -> Vec<u8> {
    answer("200 OK", fields, b"body")
}

/// A 304 with this `Cache-Control`.
fn confirmation(control: &str) -> Vec<u8> {
    let control = format!("cache-control: {control}");
    raw_answer("HTTP/1.1 304 Not Modified", &[&control, "etag: \"1\""], b"")
}

async fn status(web: &WebCache, device: u8, url: &str, fields: &[(&'static str, &str)]) -> CacheStatus {
    fetch(web, cache_request(device, url, fields)).await.0
}

async fn post(web: &WebCache, device: u8, url: &str) {
    let CacheRequest {
        mut parts,
        browser,
        identity,
        ..
    } = cache_request(device, url, &[]);
    parts.method = Method::POST;
    let request = OriginRequest {
        parts,
        browser,
        identity,
        login: None,
    };
    whole(web.upload(request, Empty::<Bytes>::new()).await.unwrap()).await;
}

#[test]
fn the_time_is_that_of_the_clock() {
    let clock = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    assert!(now().since_epoch() >= clock);
}

#[tokio::test]
async fn only_whole_reads_that_accept_stored_responses_are_shared() {
    let (_dir, web) = web_cache(None);
    let mut origin = TestOrigin::start(vec![ok(&["cache-control: public, max-age=60"]); 9]).await;
    let url = origin.url("/x");
    let plain = || cache_request(1, &url, &[]);
    let ranged = || cache_request(1, &url, &[("range", "bytes=0-3")]);
    let mut head = plain();
    head.parts.method = Method::HEAD;
    let mut bypass = plain();
    bypass.reload = Reload::Bypass;
    let plain_status = CacheStatus::Coalesced;
    for (request, expected) in [
        (plain(), plain_status),
        (ranged(), CacheStatus::Miss),
        (bypass, CacheStatus::Miss),
    ] {
        origin.hold_after(0);
        let first = tokio::spawn({
            let (web, request) = (web.clone(), request.clone());
            async move { fetch(&web, request).await }
        });
        origin.request().await;
        let mut second = Box::pin(fetch(&web, request));
        assert!((&mut second).now_or_never().is_none());
        if expected == CacheStatus::Miss {
            origin.request().await;
        }
        origin.release();
        assert_eq!(second.await, (expected, b"body".to_vec()));
        assert_eq!(first.await.unwrap().0, CacheStatus::Miss);
        assert_eq!(origin.arrived(), 0);
    }
    // The answers to HEAD have no body.
    let empty = raw_answer("HTTP/1.1 200 OK", &["content-length: 4"], b"");
    let mut origin = TestOrigin::start([empty.clone(), empty]).await;
    let url = origin.url("/x");
    head.parts.uri = url.parse().unwrap();
    origin.hold_after(0);
    let both = tokio::spawn(futures_util::future::join_all([0, 1].map(|_| {
        let (web, head) = (web.clone(), head.clone());
        async move { whole(web.fetch(head).await.unwrap()).await.0 }
    })));
    for _ in 0..2 {
        origin.request().await;
    }
    origin.release();
    assert_eq!(both.await.unwrap(), [CacheStatus::Miss; 2]);
}

#[tokio::test]
async fn a_request_after_an_own_unsafe_one_joins_no_older_fetch() {
    let (_dir, web) = web_cache(None);
    let mut origin = TestOrigin::start(vec![ok(&["cache-control: public, max-age=60"]); 3]).await;
    let url = origin.url("/list");
    origin.hold_after(0);
    let mut old = Box::pin(fetch(&web, cache_request(1, &url, &[])));
    assert!((&mut old).now_or_never().is_none());
    origin.request().await;
    let mut write = Box::pin(post(&web, 1, &url));
    assert!((&mut write).now_or_never().is_none());
    assert!(origin.request().await.starts_with("post"));
    let mut new = Box::pin(fetch(&web, cache_request(1, &url, &[])));
    assert!((&mut new).now_or_never().is_none());
    assert!(
        origin.request().await.starts_with("get"),
        "the new one does not join"
    );
    origin.release();
    assert_eq!(old.await.0, CacheStatus::Miss);
    assert_eq!(new.await.0, CacheStatus::Miss);
    write.await;
}

#[tokio::test]
async fn a_write_invalidates_the_stored_response() {
    let (_dir, web) = web_cache(QUOTA);
    let fresh = ok(&["cache-control: public, max-age=60"]);
    let origin = TestOrigin::start(vec![fresh; 4]).await;
    let (url, other) = (origin.url("/list"), origin.url("/other"));
    for (url, expected) in [
        (&url, CacheStatus::Miss),
        (&url, CacheStatus::Hit),
        (&other, CacheStatus::Miss),
    ] {
        assert_eq!(status(&web, 1, url, &[]).await, expected);
    }
    post(&web, 1, &url).await;
    assert_eq!(status(&web, 1, &url, &[]).await, CacheStatus::Miss);
    assert_eq!(status(&web, 1, &other, &[]).await, CacheStatus::Hit);
}

#[tokio::test]
async fn a_request_that_bypasses_the_cache_leaves_no_trace_in_it() {
    let (_dir, web) = web_cache(QUOTA);
    let origin = TestOrigin::start(vec![ok(&["cache-control: public, max-age=60"]); 5]).await;
    let url = origin.url("/x");
    let client = web.0.origin.isolated();
    // The URL is one that usually takes a new connection: a login is bound to its own.
    web.0.first_use.remember(&url);
    for _ in 0..2 {
        let response = web.fetch_bypassing_cache(cache_request(1, &url, &[]), &client);
        assert_eq!(whole(response.await.unwrap()).await.0, CacheStatus::Miss);
    }
    assert_eq!(origin.connections(), 1);
    assert_eq!(status(&web, 1, &url, &[]).await, CacheStatus::Miss);
    assert_eq!(status(&web, 1, &url, &[]).await, CacheStatus::Hit);
    let mut reload = cache_request(1, &url, &[]);
    reload.reload = Reload::Bypass;
    assert_eq!(fetch(&web, reload).await.0, CacheStatus::Miss);
}

#[tokio::test]
async fn a_device_uses_its_connection_again() {
    let (_dir, web) = web_cache(QUOTA);
    let origin = TestOrigin::start(vec![ok(&["cache-control: public, max-age=60"]); 3]).await;
    for path in ["/1", "/2", "/3"] {
        assert_eq!(status(&web, 1, &origin.url(path), &[]).await, CacheStatus::Miss);
    }
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn an_empty_response_is_stored() {
    let (_dir, web) = web_cache(QUOTA);
    let empty = answer("200 OK", &["cache-control: public, max-age=60"], b"");
    let origin = TestOrigin::start(vec![empty]).await;
    let url = origin.url("/empty");
    assert_eq!(status(&web, 1, &url, &[]).await, CacheStatus::Miss);
    assert_eq!(
        status(&web, 1, &url, &[]).await,
        CacheStatus::Hit,
        "it waits for the store"
    );
}

#[tokio::test]
async fn a_predicted_response_with_a_cookie_does_not_answer_the_browser() {
    let (_dir, web) = web_cache(QUOTA);
    let cookie = ["cache-control: private, max-age=60", "set-cookie: a=1"];
    let origin = TestOrigin::start(vec![ok(&cookie); 3]).await;
    let url = origin.url("/x");
    let mut predicted = cache_request(1, &url, &[]);
    predicted.purpose = Purpose::Predicted;
    assert_eq!(fetch(&web, predicted).await.0, CacheStatus::Miss);
    let response = web.fetch(cache_request(1, &url, &[])).await.unwrap();
    assert!(response.headers.contains_key(header::SET_COOKIE));
    assert_eq!(whole(response).await.0, CacheStatus::Miss);
    assert_eq!(
        status(&web, 1, &url, &[]).await,
        CacheStatus::Hit,
        "it has the cookie"
    );
}

#[tokio::test]
async fn a_confirmation_to_one_requester_does_not_refresh_the_shared_response() {
    let (_dir, web) = web_cache(QUOTA);
    let fresh = || confirmation("public, max-age=60");
    let mut origin = TestOrigin::start([ok(SHARED_STALE), fresh(), fresh()]).await;
    let url = origin.url("/x");
    let own = [("x-own", "1")];
    assert_eq!(status(&web, 1, &url, &[]).await, CacheStatus::Miss);
    assert_eq!(status(&web, 2, &url, &own).await, CacheStatus::Revalidated);
    assert_eq!(status(&web, 2, &url, &own).await, CacheStatus::Hit, "its copy");
    assert_eq!(status(&web, 3, &url, &[]).await, CacheStatus::Revalidated);
    assert_eq!(status(&web, 4, &url, &[]).await, CacheStatus::Hit, "now for all");
    origin.request().await;
    for _ in 0..2 {
        assert!(origin.request().await.contains("if-none-match: \"1\""));
    }
}

#[tokio::test]
async fn a_shared_response_that_became_private_is_removed() {
    let (_dir, web) = web_cache(QUOTA);
    let now_private = confirmation("private, max-age=60");
    let mut origin = TestOrigin::start([ok(SHARED_STALE), now_private, ok(SHARED_STALE)]).await;
    let url = origin.url("/x");
    assert_eq!(status(&web, 1, &url, &[]).await, CacheStatus::Miss);
    assert_eq!(status(&web, 2, &url, &[]).await, CacheStatus::Revalidated);
    assert_eq!(status(&web, 3, &url, &[]).await, CacheStatus::Miss);
    for expected in [false, true, false] {
        let request = origin.request().await;
        assert_eq!(request.contains("if-none-match"), expected, "{request}");
    }
}

#[tokio::test]
async fn a_private_response_never_becomes_shared() {
    let (_dir, web) = web_cache(QUOTA);
    // Fresh in shared caches only.
    let public = || confirmation("max-age=0, s-maxage=60");
    let origin = TestOrigin::start([ok(PRIVATE_STALE), public(), public(), ok(PRIVATE_STALE)]).await;
    let url = origin.url("/x");
    assert_eq!(status(&web, 1, &url, &[]).await, CacheStatus::Miss);
    assert_eq!(status(&web, 1, &url, &[]).await, CacheStatus::Revalidated);
    assert_eq!(
        status(&web, 1, &url, &[]).await,
        CacheStatus::Revalidated,
        "not fresh in a private cache"
    );
    assert_eq!(status(&web, 2, &url, &[]).await, CacheStatus::Miss);
}

#[tokio::test]
async fn a_confirmed_response_is_as_certain_as_before() {
    // Fresh in private caches only.
    let control = "private, max-age=60, s-maxage=0";
    for (first, expected) in [
        (PRIVATE_STALE, CacheStatus::Hit),
        (SHARED_STALE, CacheStatus::Revalidated),
    ] {
        let (_dir, web) = web_cache(QUOTA);
        let confirmed = || confirmation(control);
        let answers = [ok(&[]), ok(first), confirmed(), confirmed()];
        let origin = TestOrigin::start(answers).await;
        let url = origin.url("/x");
        // The second response on a connection is uncertain if it would be shared.
        assert_eq!(
            status(&web, 1, &origin.url("/before"), &[]).await,
            CacheStatus::Miss
        );
        assert_eq!(status(&web, 1, &url, &[]).await, CacheStatus::Miss);
        assert_eq!(status(&web, 1, &url, &[]).await, CacheStatus::Revalidated);
        assert_eq!(status(&web, 1, &url, &[]).await, expected, "{first:?}");
    }
}
