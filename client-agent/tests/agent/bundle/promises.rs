//! Tests of entries and of the requests that they answer.

use std::time::Duration;

use longhaul_http::{request_context::identity_key, vary};
use longhaul_raw_client::RawClient;
use longhaul_session::{
    Delivery, EntryBody, EntryId, FetchId, FetchKind, Message, MirrorState, PageId, Record, Scope, Withdrawal,
};

use super::faults::wanted;
use crate::support::{
    gateway::answers::noise,
    script::{AS_PAGE, FRESH, OF_OTHER_SITE, OF_PAGE, PAGE, World, entry, pushed, reusable, shaped},
};

pub(super) const OBJECT: &str = "http://site.test/a.css";

#[tokio::test]
async fn a_push_serves_the_browsers_request() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/a.css", "http://cdn.test/b.png"]).await;
    assert_eq!(
        (page.fetch.kind, page.fetch.page, page.fetch.delivery),
        (FetchKind::Page, None, Delivery::Any)
    );
    manifest
        .head(reusable(0, &[("content-type", "text/css"), FRESH], pushed()))
        .await;
    page.push(0, b"body{}").await;
    let reply = world.agent.begin(OBJECT, &[OF_PAGE]).await.unwrap();
    assert_eq!(
        (reply.status, reply.text().as_str(), reply.field("content-type")),
        (200, "body{}", Some("text/css"))
    );
    assert!(reply.field("via").unwrap().contains("longhaul"));
    // The second object is requested when only its URL is known.
    let waiting = world.agent.begin("http://cdn.test/b.png", &[OF_PAGE]);
    world
        .agent
        .until("it waits", |status| {
            status.exits.get("lookup.announced") == Some(&2)
        })
        .await;
    manifest
        .head(shaped(OF_OTHER_SITE, reusable(1, &[FRESH], pushed())))
        .await;
    let image = noise(200_000);
    page.push(1, &image).await;
    assert!(waiting.await.unwrap().body == image);
    world.no_fetch();
    let status = world
        .agent
        .until("both pushed objects are counted", |status| {
            status.push_taken_objects == 2
        })
        .await;
    assert_eq!((status.pages, status.pushed_objects, status.announced), (1, 2, 2));
    assert!(status.pushed_bytes > 200_000 && status.push_taken_bytes == status.pushed_bytes);
    assert_eq!(status.push_wasted_bytes, 0);
    assert_eq!(status.exits["arriving.pushed"], 2);
}

#[tokio::test]
async fn head_push_and_request_may_come_in_any_order() {
    let mut world = World::new().await;
    let browser = world.agent.begin(PAGE, &[AS_PAGE]);
    let page = world.fetch().await;
    let mut manifest = page.manifest(None).await;
    manifest.head(reusable(1, &[FRESH], pushed())).await;
    page.push(1, b"second").await;
    page.push(0, b"first").await;
    world
        .agent
        .until("the pushes", |status| status.pushed_objects == 2)
        .await;
    page.answer(200, &[], b"<html>").await;
    browser.await.unwrap();
    manifest.record(entry("/0")).await;
    manifest.record(entry("/1")).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    world
        .agent
        .until("the entries", |status| status.announced == 2)
        .await;
    for (url, text) in [("http://site.test/1", "second"), ("http://site.test/0", "first")] {
        assert_eq!(world.agent.begin(url, &[OF_PAGE]).await.unwrap().text(), text);
    }
    world.no_fetch();
}

#[tokio::test]
async fn the_gateway_may_answer_a_forwarded_request_with_a_promise() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&[]).await;
    let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
    let asked = world.fetch().await;
    asked.promised(page.page_id(), 0).await;
    world
        .agent
        .until("the promise", |status| status.exits.contains_key("sent.promised"))
        .await;
    manifest.record(entry("/a.css")).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    page.push(0, b"promised").await;
    assert_eq!(browser.await.unwrap().text(), "promised");
    // A `Promised` for a page load that the agent does not know.
    let browser = world.agent.begin("http://site.test/other", &[OF_PAGE]);
    let unknown = PageId::of(FetchId::new(4711));
    world.fetch().await.promised(unknown, 0).await;
    let asked = world.fetch().await;
    assert_eq!(asked.fetch.delivery, Delivery::Own);
    asked.answer(200, &[], b"own").await;
    assert_eq!(browser.await.unwrap().text(), "own");
}

#[tokio::test]
async fn two_requests_share_a_reusable_entry_but_not_a_single_use_one() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/shared", "/once"]).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    let mut once = reusable(1, &[], pushed());
    once.scope = Scope::ThisPage;
    manifest.head(once).await;
    let both = [(); 2].map(|()| world.agent.begin("http://site.test/shared", &[OF_PAGE]));
    let mut push = page.begin_push(0, &noise(40_000)).await;
    push.write(b"more").await;
    push.finish(b"end").await;
    let whole = [&noise(40_000)[..], b"moreend"].concat();
    for reply in both {
        assert!(reply.await.unwrap().body == whole);
    }
    page.push(1, b"once").await;
    assert_eq!(
        world
            .agent
            .begin("http://site.test/once", &[OF_PAGE])
            .await
            .unwrap()
            .text(),
        "once"
    );
    world.no_fetch();
    let second = world.agent.begin("http://site.test/once", &[OF_PAGE]);
    let asked = world.fetch().await;
    assert_eq!(asked.fetch.delivery, Delivery::Own);
    asked.answer(200, &[], b"twice").await;
    assert_eq!(second.await.unwrap().text(), "twice");
    assert_eq!(world.agent.exits("promised.used"), 1);
}

#[tokio::test]
async fn a_request_that_differs_from_its_prediction_is_fetched() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/cookie", "/vary", "/withdrawn", "/broken"]).await;
    let sent = |name: http::HeaderName, value| {
        http::HeaderMap::from_iter([(name, http::HeaderValue::from_static(value))])
    };
    let mut cookie = reusable(0, &[], pushed());
    cookie.scope = Scope::ThisPage;
    cookie.cookie = identity_key(&sent(http::header::COOKIE, "a=1"));
    manifest.head(cookie).await;
    let fields = [("vary", "accept-language"), FRESH];
    let mut varying = reusable(1, &fields, pushed());
    let response = sent(http::header::VARY, "accept-language");
    varying.vary = vary::key(&response, &sent(http::header::ACCEPT_LANGUAGE, "de"));
    manifest.head(varying).await;
    page.push(0, b"pushed").await;
    page.push(1, b"pushed").await;
    for (url, field, exit) in [
        ("http://site.test/cookie", ("cookie", "a=2"), "promised.mismatch"),
        (
            "http://site.test/vary",
            ("accept-language", "en"),
            "promised.mismatch",
        ),
    ] {
        let before = world.agent.exits(exit);
        let browser = world.agent.begin(url, &[OF_PAGE, field]);
        let asked = world.fetch().await;
        assert_eq!(asked.fetch.delivery, Delivery::Own, "{url}");
        asked.answer(200, &[], b"own").await;
        assert_eq!(browser.await.unwrap().text(), "own", "{url}");
        assert_eq!(world.agent.exits(exit), before + 1, "{url}");
    }
    for (url, field) in [
        ("http://site.test/cookie", ("cookie", "a=1")),
        ("http://site.test/vary", ("accept-language", "de")),
    ] {
        assert_eq!(
            world.agent.begin(url, &[OF_PAGE, field]).await.unwrap().text(),
            "pushed",
            "{url}"
        );
    }
    // The cache may have answered the request with `de`, which then did not count as announced.
    let announced = world.agent.exits("lookup.announced") + 1;
    let waiting = world.agent.begin("http://site.test/withdrawn", &[OF_PAGE]);
    world
        .agent
        .until("it waits", |status| {
            status.exits.get("lookup.announced") == Some(&announced)
        })
        .await;
    let reason = Withdrawal::Private;
    manifest
        .record(Record::Withdrawn {
            entry: EntryId::new(2),
            reason,
        })
        .await;
    world.fetch().await.answer(200, &[], b"own").await;
    assert_eq!(waiting.await.unwrap().text(), "own");
    assert_eq!(world.agent.exits("promised.withdrawn"), 1);
    manifest
        .head(reusable(3, &[("not a name", "x")], EntryBody::None))
        .await;
    let broken = world.agent.begin("http://site.test/broken", &[OF_PAGE]);
    world.fetch().await.answer(200, &[], b"own").await;
    assert_eq!(broken.await.unwrap().text(), "own");
}

#[tokio::test]
async fn conditional_requests_are_answered_with_304() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/a.css", "/empty"]).await;
    let fields = [
        ("etag", "\"v1\""),
        ("content-type", "text/css"),
        ("cache-control", "no-cache"),
    ];
    manifest.head(reusable(0, &fields, pushed())).await;
    let reply = world
        .agent
        .begin(OBJECT, &[OF_PAGE, ("if-none-match", "\"v1\"")])
        .await
        .unwrap();
    assert_eq!((reply.status, reply.field("etag")), (304, Some("\"v1\"")));
    page.push(0, b"new").await;
    let reply = world
        .agent
        .begin(OBJECT, &[OF_PAGE, ("if-none-match", "\"v0\"")])
        .await
        .unwrap();
    assert_eq!((reply.status, reply.text().as_str()), (200, "new"));
    let mut moved = reusable(1, &[("location", "/elsewhere")], EntryBody::None);
    moved.status = 302;
    manifest.head(moved).await;
    let reply = world
        .agent
        .begin("http://site.test/empty", &[OF_PAGE])
        .await
        .unwrap();
    assert_eq!((reply.status, reply.field("location")), (302, Some("/elsewhere")));
    assert_eq!(world.agent.exits("arriving.empty"), 1);
    world.no_fetch();
}

#[tokio::test]
async fn requests_for_waiting_entries_are_announced_to_the_gateway() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/0", "/1", "/2"]).await;
    for entry in 0..3 {
        manifest.head(reusable(entry, &[FRESH], pushed())).await;
    }
    let requests = ["/2", "/1"].map(|path| world.agent.begin(&format!("http://site.test{path}"), &[OF_PAGE]));
    let mut asked = Vec::new();
    while asked.len() < 2 {
        asked.extend(
            world
                .control(|message| {
                    if let Message::Ask(ask) = message {
                        Some(ask.entries)
                    } else {
                        None
                    }
                })
                .await,
        );
    }
    asked.sort_unstable();
    assert_eq!(asked, [1, 2].map(EntryId::new));
    for entry in 0..3 {
        page.push(entry, b"x").await;
    }
    for request in requests {
        assert_eq!(request.await.unwrap().text(), "x");
    }
    // No other data is ahead of this entry.
    assert_eq!(
        world
            .agent
            .begin("http://site.test/0", &[OF_PAGE])
            .await
            .unwrap()
            .text(),
        "x"
    );
    assert!(
        world
            .controls()
            .iter()
            .all(|message| !matches!(message, Message::Ask(_)))
    );
}

#[tokio::test]
async fn without_push_a_page_is_an_object() {
    let dir = tempfile::tempdir().unwrap();
    let change = |config: &mut longhaul_agent::config::Config| config.push.enabled = false;
    let mut world = World::with(dir, MirrorState::Agreed, change).await;
    let browser = world.agent.begin(PAGE, &[AS_PAGE]);
    let page = world.fetch().await;
    assert_eq!((page.fetch.kind, page.fetch.manifest), (FetchKind::Object, None));
    page.answer(200, &[], b"<html>").await;
    assert_eq!(browser.await.unwrap().text(), "<html>");
    let status = world.agent.status();
    assert_eq!((status.push_enabled, status.pages), (false, 0));
}

#[tokio::test]
async fn a_page_behind_a_password_is_an_object() {
    let mut world = World::new().await;
    let browser = world
        .agent
        .begin(PAGE, &[AS_PAGE, ("authorization", "Basic eA==")]);
    let page = world.fetch().await;
    assert_eq!(page.fetch.kind, FetchKind::Object);
    page.answer(200, &[FRESH], b"<html>").await;
    assert_eq!(browser.await.unwrap().text(), "<html>");
    // No other request gets the response.
    let browser = world.agent.begin(PAGE, &[AS_PAGE]);
    world.fetch().await.answer(401, &[], b"no").await;
    assert_eq!(browser.await.unwrap().status, 401);
}

/// On a slow hop, the push of a large object begins minutes after its announcement.
#[tokio::test]
async fn the_head_does_not_wait_for_the_beginning_of_a_large_body() {
    let change = |config: &mut longhaul_agent::config::Config| {
        config.push.head_after = Duration::ZERO;
    };
    let mut world = World::with(tempfile::tempdir().unwrap(), MirrorState::Agreed, change).await;
    let (page, mut manifest) = world.page(&["/pushed", "/broken"]).await;
    let mut clients = Vec::new();
    for (entry, path) in (0..).zip(["pushed", "broken"]) {
        manifest
            .head(reusable(entry, &[FRESH, ("x-name", path)], pushed()))
            .await;
        let mut client = RawClient::connect(world.agent.agent.proxy()).await.unwrap();
        let request =
            format!("GET http://site.test/{path} HTTP/1.1\r\nhost: ignored\r\nreferer: {PAGE}\r\n\r\n");
        client.send(request).await.unwrap();
        let head = client.head().await.unwrap();
        assert_eq!((head.status, head.field("x-name")), (200, Some(path)));
        clients.push(client);
    }
    page.push(0, b"pushed").await;
    for _ in 0..2 {
        page.begin_push(1, b"").await.damage(b"damaged").await;
        world.control(wanted).await;
    }
    page.begin_push(1, b"").await.damage(b"damaged").await;
    let asked = world.fetch().await;
    assert_eq!(asked.fetch.delivery, Delivery::Own);
    asked.answer(200, &[FRESH], b"fetched").await;
    for (client, text) in clients.iter_mut().zip(["pushed", "fetched"]) {
        let mut body = Vec::new();
        while !body.ends_with(b"\r\n0\r\n\r\n") {
            let more = client.read().await.unwrap();
            assert!(!more.is_empty(), "the body is incomplete");
            body.extend(more);
        }
        assert!(String::from_utf8_lossy(&body).contains(text));
    }
    let exits = world.agent.status().exits;
    for (exit, count) in [
        ("arriving.later", 2),
        ("arriving.pushed", 1),
        ("arriving.broken", 1),
    ] {
        assert_eq!(exits.get(exit), Some(&count), "{exits:?}");
    }
    world.no_fetch();
}
