//! Page loads of pages that the agent's cache answers.
use longhaul_session::FetchKind;
use longhaul_types::ContentHash;

use super::cache::kept;
use crate::support::script::{AS_PAGE, FRESH, OF_PAGE, PAGE, World, entry, pushed, reusable};

const HTML: (&str, &str) = ("content-type", "text/html");

/// Loads the page, so that the cache has it.
async fn load(world: &mut World) {
    let browser = world.agent.begin(PAGE, &[AS_PAGE]);
    let first = world.fetch().await;
    first.answer(200, &[FRESH, HTML], b"<html>").await;
    assert_eq!(browser.await.unwrap().text(), "<html>");
    kept(world).await;
}

#[tokio::test]
async fn the_gateway_plans_the_objects_of_a_cached_page() {
    let mut world = World::new().await;
    load(&mut world).await;
    let reply = world.agent.begin(PAGE, &[AS_PAGE]).await.unwrap();
    assert_eq!((reply.status, reply.text().as_str()), (200, "<html>"));
    let again = world.fetch().await;
    assert_eq!(again.fetch.kind, FetchKind::Page);
    assert_eq!(again.fetch.held, Some(ContentHash::of(b"<html>")));
    let only_if_cached = ("cache-control".to_owned(), b"only-if-cached".to_vec());
    assert!(again.fields.contains(&only_if_cached));
    let mut manifest = again.manifest(None).await;
    again.held(&[FRESH, HTML], ContentHash::of(b"<html>")).await;
    manifest.record(entry("/a.css")).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    again.push(0, b"pushed").await;
    world
        .agent
        .until("the push", |status| status.pushed_objects == 1)
        .await;
    let object = world
        .agent
        .begin("http://site.test/a.css", &[OF_PAGE])
        .await
        .unwrap();
    assert_eq!(object.text(), "pushed");
    world.no_fetch();
    assert_eq!(world.agent.status().pages, 2);
}

#[tokio::test]
async fn a_cached_page_that_the_gateway_does_not_have_begins_no_page_load() {
    let mut world = World::new().await;
    load(&mut world).await;
    let reply = world.agent.begin(PAGE, &[AS_PAGE]).await.unwrap();
    assert_eq!(reply.text(), "<html>");
    let again = world.fetch().await;
    again.answer(504, &[], b"").await;
    let object = world.agent.begin("http://site.test/a.css", &[OF_PAGE]);
    let own = world.fetch().await;
    own.answer(200, &[], b"own").await;
    assert_eq!(object.await.unwrap().text(), "own");
}
