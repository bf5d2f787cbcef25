//! Tests of the messages to the gateway when the browser leaves a page.
use std::time::Duration;

use longhaul_raw_client::RawClient;
use longhaul_session::{EntryId, FetchId, Message, MirrorState, Used};

use crate::support::{
    gateway::answers::noise,
    script::{AS_PAGE, FRESH, OF_PAGE, PAGE, World, pushed, reusable},
};

fn cancelled(message: Message) -> Option<FetchId> {
    if let Message::Cancel(cancel) = message {
        Some(cancel.fetch)
    } else {
        None
    }
}

fn used(message: Message) -> Option<Used> {
    if let Message::Used(used) = message {
        Some(used)
    } else {
        None
    }
}

#[tokio::test]
async fn the_next_page_cancels_pushes_of_the_previous_page() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/a", "/b"]).await;
    for entry in 0..2 {
        manifest.head(reusable(entry, &[FRESH], pushed())).await;
    }
    page.push(0, b"taken").await;
    assert_eq!(
        world
            .agent
            .begin("http://site.test/a", &[OF_PAGE])
            .await
            .unwrap()
            .text(),
        "taken"
    );
    let mut push = page.begin_push(1, &noise(40_000)).await;
    world
        .agent
        .until("some waste", |status| status.pushed_bytes > 40_000)
        .await;
    let next = world.agent.begin("http://site.test/next", &[AS_PAGE]);
    let told = world.control(used).await;
    assert_eq!(
        (
            told.page,
            told.is_taken(EntryId::new(0)),
            told.is_taken(EntryId::new(1))
        ),
        (page.page_id(), true, false)
    );
    assert_eq!(world.control(cancelled).await, page.fetch.id);
    push.stopped().await;
    world.fetch().await.answer(200, &[], b"next").await;
    assert_eq!(next.await.unwrap().text(), "next");
    let status = world
        .agent
        .until("the waste", |status| status.push_wasted_bytes > 40_000)
        .await;
    assert!(status.push_taken_bytes > 0 && status.push_taken_bytes < 200);
    world
        .agent
        .until("the memory of pushes is free", |status| {
            status.push_memory_bytes == 0
        })
        .await;
}

#[tokio::test]
async fn a_page_that_is_still_used_is_not_cancelled() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/a", "/b"]).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    let waiting = world.agent.begin("http://site.test/a", &[OF_PAGE]);
    world
        .agent
        .until("it waits", |status| status.exits.contains_key("promised.head"))
        .await;
    let next = world.agent.begin("http://site.test/next", &[AS_PAGE]);
    world.fetch().await.answer(200, &[], b"next").await;
    assert_eq!(next.await.unwrap().text(), "next");
    assert!(
        world
            .controls()
            .into_iter()
            .filter_map(cancelled)
            .next()
            .is_none()
    );
    page.push(0, b"x").await;
    assert_eq!(waiting.await.unwrap().text(), "x");
    // The page's last request is answered.
    assert_eq!(world.control(cancelled).await, page.fetch.id);
}

#[tokio::test]
async fn a_page_that_the_browser_aborts_is_cancelled() {
    let mut world = World::new().await;
    let mut client = RawClient::connect(world.agent.agent.proxy()).await.unwrap();
    client
        .send(format!(
            "GET {PAGE} HTTP/1.1\r\nhost: a\r\nupgrade-insecure-requests: 1\r\n\r\n"
        ))
        .await
        .unwrap();
    let page = world.fetch().await;
    drop(client);
    assert_eq!(world.control(cancelled).await, page.fetch.id);
    let mut client = RawClient::connect(world.agent.agent.proxy()).await.unwrap();
    client
        .send(format!(
            "GET {PAGE} HTTP/1.1\r\nhost: a\r\nupgrade-insecure-requests: 1\r\n\r\n"
        ))
        .await
        .unwrap();
    let page = world.fetch().await;
    let _manifest = page.manifest(None).await;
    let mut body = page.begin(&[], &noise(100_000)).await;
    client.head().await.unwrap();
    drop(client);
    body.write(&noise(400_000)).await;
    assert_eq!(world.control(cancelled).await, page.fetch.id);
}

#[tokio::test]
async fn a_complete_page_ends_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let change = |config: &mut longhaul_agent::config::Config| config.push.linger = Duration::from_millis(50);
    let mut world = World::with(dir, MirrorState::Agreed, change).await;
    let (page, mut manifest) = world.page(&["/a", "/b"]).await;
    for entry in 0..2 {
        manifest.head(reusable(entry, &[FRESH], pushed())).await;
        page.push(entry, b"x").await;
    }
    assert_eq!(
        world
            .agent
            .begin("http://site.test/b", &[OF_PAGE])
            .await
            .unwrap()
            .text(),
        "x"
    );
    manifest.finish().await;
    let told = world.control(used).await;
    assert_eq!(
        (
            told.page,
            told.is_taken(EntryId::new(0)),
            told.is_taken(EntryId::new(1))
        ),
        (page.page_id(), false, true)
    );
    world
        .agent
        .until("the memory of pushes is free", |status| {
            status.push_memory_bytes == 0
        })
        .await;
    assert!(
        world
            .controls()
            .into_iter()
            .filter_map(cancelled)
            .next()
            .is_none()
    );
    // The unused response is in the cache.
    assert_eq!(
        world
            .agent
            .begin("http://site.test/a", &[OF_PAGE])
            .await
            .unwrap()
            .text(),
        "x"
    );
    assert_eq!(world.agent.exits("lookup.fresh"), 1);
}

#[tokio::test]
async fn cache_hits_count_as_taken_entries() {
    let mut world = World::new().await;
    let (page, mut manifest) = world.page(&["/a"]).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    let body = noise(100_000);
    page.push(0, &body).await;
    let store = world.agent.agent.control().handles.storage.store.clone();
    while world.agent.status().cache_bytes < 100_000 {
        store.refresh_usage().await;
    }
    // The index entry is written just after the body.
    while world.agent.exits("lookup.fresh") == 0 {
        assert!(
            world
                .agent
                .begin("http://site.test/a", &[OF_PAGE])
                .await
                .unwrap()
                .body
                == body
        );
    }
    let next = world.agent.begin("http://site.test/next", &[AS_PAGE]);
    assert!(world.control(used).await.is_taken(EntryId::FIRST));
    world.fetch().await.answer(200, &[], b"next").await;
    next.await.unwrap();
    let status = world.agent.status();
    assert_eq!((status.push_taken_objects, status.push_wasted_bytes), (1, 0));
}

#[tokio::test]
async fn requests_of_the_old_page_show_that_a_navigation_was_a_frame() {
    let dir = tempfile::tempdir().unwrap();
    let change =
        |config: &mut longhaul_agent::config::Config| config.push.leaving = Duration::from_millis(50);
    let mut world = World::with(dir, MirrorState::Agreed, change).await;
    let (page, mut manifest) = world.page(&["/a"]).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    let waiting = world.agent.begin("http://site.test/a", &[OF_PAGE]);
    world
        .agent
        .until("it waits", |status| status.exits.contains_key("promised.head"))
        .await;
    for number in 0..3 {
        let frame = world
            .agent
            .begin(&format!("http://ads.test/{number}"), &[AS_PAGE, OF_PAGE]);
        world.fetch().await.answer(200, &[], b"frame").await;
        assert_eq!(frame.await.unwrap().text(), "frame");
    }
    page.push(0, b"x").await;
    assert_eq!(waiting.await.unwrap().text(), "x");
    assert!(
        world
            .controls()
            .into_iter()
            .filter_map(cancelled)
            .all(|fetch| fetch != page.fetch.id)
    );
    // The page sends no more requests: the navigation was a link.
    let next = world.agent.begin("http://site.test/next", &[AS_PAGE, OF_PAGE]);
    world.fetch().await.answer(200, &[], b"next").await;
    assert_eq!(next.await.unwrap().text(), "next");
    while world.control(cancelled).await != page.fetch.id {}
}
