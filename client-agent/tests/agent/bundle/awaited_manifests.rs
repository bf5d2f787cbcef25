//! Requests that wait for a manifest.
use std::time::Duration;

use longhaul_session::{Delivery, FetchKind, Message, Record};

use super::promises::OBJECT;
use crate::support::script::{
    AS_PAGE, FRESH, OF_NOBODY, OF_PAGE, PAGE, World, document, entry, pushed, reusable, shaped,
};

#[tokio::test]
async fn a_request_is_sent_while_the_manifest_may_announce_its_response() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&[]).await;
    let announced = world.agent.begin(OBJECT, &[OF_PAGE]);
    let sent = world.fetch().await;
    assert_eq!(
        (sent.fetch.page, sent.fetch.kind, sent.fetch.delivery),
        (Some(page.page_id()), FetchKind::Object, Delivery::Any)
    );
    let by_script = world.agent.begin("http://site.test/by-script", &[OF_PAGE]);
    let other = world.fetch().await;
    manifest.record(entry("/a.css")).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    page.push(0, b"pushed").await;
    assert_eq!(announced.await.unwrap().text(), "pushed");
    // The gateway need not answer any more.
    let cancelled = world
        .control(|message| {
            if let Message::Cancel(cancel) = message {
                Some(cancel.fetch)
            } else {
                None
            }
        })
        .await;
    assert_eq!(cancelled, sent.fetch.id);
    // After `Planned`, the answer to the fetch is still awaited.
    manifest.record(Record::Planned).await;
    other.answer(200, &[], b"own").await;
    assert_eq!(by_script.await.unwrap().text(), "own");
    assert_eq!(world.agent.exits("manifest.open"), 2);
    assert_eq!(world.agent.exits("sent.announced"), 1);
}

#[tokio::test]
async fn the_gateways_answer_is_used_if_the_announced_response_does_not_match() {
    let mut world = World::new().await;
    let (_page, mut manifest) = world.page(&[]).await;
    let browser = world.agent.begin(OBJECT, &[OF_PAGE, ("accept-language", "de")]);
    let sent = world.fetch().await;
    manifest.record(entry("/a.css")).await;
    let fields = [FRESH, ("vary", "accept-language")];
    manifest.head(reusable(0, &fields, pushed())).await;
    sent.answer(200, &fields, b"own").await;
    assert_eq!(browser.await.unwrap().text(), "own");
    assert_eq!(world.agent.exits("sent.announced"), 0);
    world.no_fetch();
}

#[tokio::test]
async fn requests_wait_for_the_target_of_a_redirected_page() {
    let change =
        |config: &mut longhaul_agent::config::Config| config.push.reordering = Duration::from_secs(10);
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::with(dir, longhaul_session::MirrorState::Agreed, change).await;
    let browser = world.agent.begin(PAGE, &[AS_PAGE]);
    let page = world.fetch().await;
    let mut manifest = page.manifest(None).await;
    page.answer(302, &[("location", "http://site.test/next")], b"")
        .await;
    assert_eq!(browser.await.unwrap().status, 302);
    let browser = world.agent.begin("http://site.test/next", &[AS_PAGE]);
    world
        .agent
        .until("it waits", |status| {
            status.exits.contains_key("lookup.redirected")
        })
        .await;
    manifest.record(document("/next")).await;
    manifest
        .head(shaped(OF_NOBODY, reusable(0, &[FRESH], pushed())))
        .await;
    page.push(0, b"<html>next").await;
    assert_eq!(browser.await.unwrap().text(), "<html>next");
    assert_eq!(world.agent.exits("manifest.announced"), 1);
    world.no_fetch();
}

#[tokio::test]
async fn a_manifest_without_records_delays_no_request() {
    let mut world = World::new().await;
    let (page, _manifest) = world.page(&[]).await;
    let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
    let asked = world.fetch().await;
    assert_eq!(asked.fetch.page, Some(page.page_id()));
    asked.answer(200, &[], b"own").await;
    assert_eq!(browser.await.unwrap().text(), "own");
    assert_eq!(world.agent.exits("manifest.open"), 1);
    let foreign = world.agent.begin(OBJECT, &[("referer", "http://other.test/")]);
    let asked = world.fetch().await;
    assert_eq!(asked.fetch.page, None);
    asked.answer(200, &[], b"own").await;
    foreign.await.unwrap();
    assert_eq!(world.agent.exits("lookup.no-page-load"), 1);
}

#[tokio::test]
async fn a_redirected_page_is_followed_to_its_manifest() {
    let mut world = World::new().await;
    let browser = world.agent.begin(PAGE, &[AS_PAGE]);
    let page = world.fetch().await;
    page.answer(302, &[("location", "http://www.site.test/")], b"")
        .await;
    assert_eq!(browser.await.unwrap().status, 302);
    let mut manifest = page.manifest(None).await;
    manifest.record(document("http://www.site.test/")).await;
    manifest.record(entry("http://www.site.test/a.css")).await;
    world
        .agent
        .until("the entries", |status| status.announced == 2)
        .await;
    let target = world.agent.begin("http://www.site.test/", &[AS_PAGE]);
    manifest.head(shaped(OF_NOBODY, reusable(0, &[], pushed()))).await;
    page.push(0, b"<html>").await;
    assert_eq!(target.await.unwrap().text(), "<html>");
    // The style sheet's `Referer` is only the origin of the target.
    let style = world.agent.begin(
        "http://www.site.test/a.css",
        &[("referer", "http://www.site.test/")],
    );
    manifest.head(reusable(1, &[FRESH], pushed())).await;
    page.push(1, b"body{}").await;
    assert_eq!(style.await.unwrap().text(), "body{}");
    world.no_fetch();
    assert_eq!(world.agent.status().pages, 1);
}
