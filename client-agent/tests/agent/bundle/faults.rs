//! Tests of pushes that end early, are damaged or never arrive, and of sessions that end: no request is lost.
use std::time::Duration;

use longhaul_agent::config::Config;
use longhaul_raw_client::Ending;
use longhaul_session::{Delivery, EntryId, Message, MirrorState, Validator};
use longhaul_types::ContentHash;

use crate::support::{
    gateway::answers::noise,
    script::{AS_PAGE, FRESH, OF_PAGE, PAGE, World, entry, pushed, reusable},
};

const OBJECT: &str = "http://site.test/a";
const TAGGED: [(&str, &str); 2] = [("etag", "\"v1\""), FRESH];

pub(super) fn wanted(message: Message) -> Option<EntryId> {
    if let Message::Want(want) = message {
        Some(want.entry)
    } else {
        None
    }
}

#[tokio::test]
async fn a_damaged_push_is_requested_again() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/a"]).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
    let body = noise(100_000);
    page.begin_push(0, &body[..40_000])
        .await
        .damage(&body[40_000..50_000])
        .await;
    assert_eq!(world.control(wanted).await, EntryId::FIRST);
    page.push(0, &body).await;
    let reply = browser.await.unwrap();
    assert!(reply.ending == Ending::Whole && reply.body == body);
    let status = world.agent.status();
    assert_eq!(
        (status.windows_bad, status.push_wanted, status.failures),
        (1, 1, 0)
    );
    world.no_fetch();
}

#[tokio::test]
async fn a_push_that_is_damaged_twice_is_fetched() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/a"]).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
    for _ in 0..2 {
        page.begin_push(0, b"").await.damage(b"damaged").await;
        assert_eq!(world.control(wanted).await, EntryId::FIRST);
    }
    page.begin_push(0, b"").await.damage(b"damaged").await;
    let asked = world.fetch().await;
    assert_eq!(asked.fetch.delivery, Delivery::Own);
    asked.answer(200, &[], b"own").await;
    assert_eq!(browser.await.unwrap().text(), "own");
    assert_eq!(world.agent.exits("arriving.broken"), 1);
}

#[tokio::test]
async fn an_interrupted_push_continues_as_a_fetch() {
    for fields in [&TAGGED[..], &TAGGED[1..]] {
        let mut world = World::new().await;
        let (page, mut manifest) = world.page(&["/a"]).await;
        manifest.head(reusable(0, fields, pushed())).await;
        let body = noise(100_000);
        let push = page.begin_push(0, &body[..40_000]).await;
        let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
        world
            .agent
            .until("the first part has arrived", |status| {
                status.exits.contains_key("arriving.pushed")
            })
            .await;
        drop(push);
        let asked = world.fetch().await;
        assert_eq!(asked.fetch.delivery, Delivery::Own);
        let resume = asked.fetch.resume.clone();
        let tagged = fields.len() == 2;
        assert_eq!(
            resume.map(|resume| resume.validator),
            tagged.then(|| Validator::EntityTag("\"v1\"".to_owned()))
        );
        asked.answer(200, fields, &body).await;
        let reply = browser.await.unwrap();
        assert!(reply.ending == Ending::Whole && reply.body == body);
    }
}

#[tokio::test]
async fn a_fetch_of_another_body_after_a_push_truncates_the_response() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/a"]).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    let body = noise(100_000);
    let push = page.begin_push(0, &body[..40_000]).await;
    let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
    world
        .agent
        .until("the first part has arrived", |status| {
            status.exits.contains_key("arriving.pushed")
        })
        .await;
    drop(push);
    world.fetch().await.answer(200, &[FRESH], &body[1..]).await;
    let reply = browser.await.unwrap();
    assert_eq!(reply.ending, Ending::Truncated);
    assert!(body.starts_with(&reply.body));
    assert_eq!(world.agent.status().truncated, 1);
}

/// The origin has received a request whose response names a hash that the agent does not hold.
#[tokio::test]
async fn an_unsafe_request_is_not_repeated_for_a_body_that_is_missing() {
    let mut world = World::new().await;
    let chk = ContentHash::of(b"never seen");
    for (method, status) in [("DELETE", 502), ("POST", 502), ("GET", 200)] {
        let mut client = world.agent.connect().await;
        client
            .send(format!(
                "{method} {OBJECT} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"
            ))
            .await
            .unwrap();
        world.fetch().await.held(&[FRESH], chk).await;
        if status == 200 {
            world.fetch().await.answer(200, &[], b"again").await;
        }
        assert_eq!(client.response().await.unwrap().status, status, "{method}");
        world.no_fetch();
    }
}

#[tokio::test]
async fn a_lost_session_loses_no_request() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/begun", "/body", "/head", "/here"]).await;
    for entry in [0, 1, 3] {
        manifest.head(reusable(entry, &TAGGED, pushed())).await;
    }
    let body = noise(100_000);
    let _push = page.begin_push(0, &body[..40_000]).await;
    page.push(3, b"here").await;
    let urls = ["begun", "body", "head"].map(|path| format!("http://site.test/{path}"));
    let [begun, waiting, headless] = urls.clone().map(|url| world.agent.begin(&url, &[OF_PAGE]));
    world
        .agent
        .until("all wait", |status| {
            let count = |exit: &str| status.exits.get(exit).copied().unwrap_or(0);
            count("lookup.announced") == 3 && count("promised.head") == 2 && count("arriving.pushed") == 1
        })
        .await;
    world
        .agent
        .until("the push is complete", |status| status.pushed_objects == 1)
        .await;
    page.link.session.close(1, "test");
    for _ in 0..3 {
        let asked = world.fetch().await;
        assert_eq!(
            asked.fetch.page, None,
            "the page load belongs to an ended session"
        );
        // One or two windows had arrived.
        let resumed = asked.fetch.resume.as_ref().map(|resume| resume.offset);
        assert_eq!(
            resumed.is_some_and(|offset| offset >= 32_768),
            asked.fetch.url == urls[0]
        );
        asked.answer(200, &TAGGED, &body).await;
    }
    for request in [begun, waiting, headless] {
        let reply = request.await.unwrap();
        assert!(reply.ending == Ending::Whole && reply.body == body);
    }
    assert_eq!(
        (
            world.agent.exits("arriving.lost"),
            world.agent.exits("promised.lost")
        ),
        (1, 1)
    );
    // Data that arrived before the session ended remains valid.
    assert_eq!(
        world
            .agent
            .begin("http://site.test/here", &[OF_PAGE])
            .await
            .unwrap()
            .text(),
        "here"
    );
    assert_eq!(world.agent.status().failures, 0);
}

#[tokio::test]
async fn a_page_whose_session_ends_is_requested_again() {
    let mut world = World::new().await;
    let browser = world.agent.begin(PAGE, &[AS_PAGE]);
    let lost = world.fetch().await;
    let mut manifest = lost.manifest(None).await;
    manifest.record(entry("/a")).await;
    lost.link.session.close(1, "test");
    let page = world.fetch().await;
    let mut manifest = page.manifest(None).await;
    manifest.record(entry("/a")).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    page.push(0, b"pushed").await;
    page.answer(200, &[], b"<html>").await;
    assert_eq!(browser.await.unwrap().text(), "<html>");
    assert_eq!(
        world.agent.begin(OBJECT, &[OF_PAGE]).await.unwrap().text(),
        "pushed"
    );
    assert_eq!(world.agent.status().pages, 2);
}

#[tokio::test]
async fn the_wait_for_a_missing_promised_response_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let change = |config: &mut Config| config.push.patience = Duration::from_millis(100);
    let mut world = World::with(dir, MirrorState::Agreed, change).await;
    let (_page, mut manifest) = world.page(&["/a", "/b"]).await;
    manifest.head(reusable(1, &[FRESH], pushed())).await;
    for (url, exit) in [
        (OBJECT, "promised.stuck"),
        ("http://site.test/b", "arriving.stuck"),
    ] {
        let browser = world.agent.begin(url, &[OF_PAGE]);
        let asked = world.fetch().await;
        assert_eq!(asked.fetch.delivery, Delivery::Own);
        asked.answer(200, &[], b"own").await;
        assert_eq!(browser.await.unwrap().text(), "own");
        assert_eq!(world.agent.exits(exit), 1);
    }
}

#[tokio::test]
async fn a_shorter_wait_for_promised_responses_applies_to_the_next_request_after_a_reload() {
    let patient = |config: &mut Config| config.push.patience = Duration::from_secs(3600);
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::with(dir, MirrorState::Agreed, patient).await;
    let (_page, _manifest) = world.page(&["/a", "/b"]).await;
    let earlier = world.agent.begin(OBJECT, &[OF_PAGE]);
    world
        .agent
        .until("the earlier request waits", |status| {
            status.exits.contains_key("lookup.announced")
        })
        .await;
    world.reload(|config| config.push.patience = Duration::from_millis(100));
    let later = world.agent.begin("http://site.test/b", &[OF_PAGE]);
    let asked = world.fetch().await;
    assert!(asked.fetch.url.ends_with("/b"), "{}", asked.fetch.url);
    asked.answer(200, &[], b"own").await;
    assert_eq!(later.await.unwrap().text(), "own");
    // The earlier request keeps its hour.
    assert!(!earlier.is_finished());
    world.no_fetch();
    earlier.abort();
}

#[tokio::test]
async fn a_push_that_is_too_large_is_stopped() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/a"]).await;
    manifest.head(reusable(0, &TAGGED, pushed())).await;
    let mut push = page.begin_push(0, b"start").await;
    let part = noise(1024 * 1024);
    let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
    for _ in 0..9 {
        push.write(&part).await;
    }
    push.stopped().await;
    let asked = world.fetch().await;
    let whole = [b"start".as_slice(), &part.repeat(9)].concat();
    asked.answer(200, &TAGGED, &whole).await;
    let reply = browser.await.unwrap();
    assert!(reply.ending == Ending::Whole && reply.body == whole);
}

#[tokio::test]
async fn a_malformed_manifest_ends_only_itself() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/a", "/b"]).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    page.push(0, b"good").await;
    let alias = longhaul_session::EntryBody::SameAs {
        entry: EntryId::new(1),
    };
    manifest.head(reusable(1, &[FRESH], alias)).await;
    assert_eq!(
        world.agent.begin(OBJECT, &[OF_PAGE]).await.unwrap().text(),
        "good"
    );
    let browser = world.agent.begin("http://site.test/b", &[OF_PAGE]);
    world.fetch().await.answer(200, &[], b"own").await;
    assert_eq!(browser.await.unwrap().text(), "own");
}

#[tokio::test]
async fn the_wait_for_a_stalled_push_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let change = |config: &mut Config| config.push.patience = Duration::from_millis(100);
    let mut world = World::with(dir, MirrorState::Agreed, change).await;
    let (page, mut manifest) = world.page(&["/a"]).await;
    manifest.head(reusable(0, &TAGGED, pushed())).await;
    let body = noise(100_000);
    let _push = page.begin_push(0, &body[..32_768]).await;
    // The push stalls after these bytes, and not before they have arrived.
    world
        .agent
        .until("the push", |status| status.pushed_bytes > 32_768)
        .await;
    let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
    let asked = world.fetch().await;
    assert_eq!(
        asked.fetch.resume.as_ref().map(|resume| resume.offset),
        Some(32_768)
    );
    asked.answer(200, &TAGGED, &body).await;
    assert!(browser.await.unwrap().body == body);
}

#[tokio::test]
async fn a_session_that_ends_before_the_repetition_comes_loses_nothing() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/a"]).await;
    manifest.head(reusable(0, &TAGGED, pushed())).await;
    let body = noise(100_000);
    let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
    page.begin_push(0, &body[..32_768])
        .await
        .damage(&body[32_768..40_000])
        .await;
    assert_eq!(world.control(wanted).await, EntryId::FIRST);
    page.link.session.close(1, "test");
    let asked = world.fetch().await;
    assert_eq!(
        asked.fetch.resume.as_ref().map(|resume| resume.offset),
        Some(32_768)
    );
    asked.answer(200, &TAGGED, &body).await;
    assert!(browser.await.unwrap().body == body);
}
