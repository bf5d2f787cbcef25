//! Bodies that the agent holds: what it reports to the gateway, and page loads that need only their hashes.
use longhaul_session::{EntryBody, EntryId, ManifestId, Message, MirrorState};
use longhaul_types::{ByteCount, ContentHash};

use super::cache::{OBJECT, fetched, kept, short};
use crate::support::{
    gateway::answers::noise,
    script::{AS_PAGE, FRESH, OF_PAGE, PAGE, World, entry, pushed, reusable},
};

/// Loads the page with `/a` and `/b` pushed and `/c` the same as `/a`; returns the manifest's decoded bytes.
async fn first_load(world: &mut World) -> Vec<u8> {
    let browser = world.agent.begin(PAGE, &[AS_PAGE]);
    let page = world.fetch().await;
    assert_eq!((page.fetch.held, page.fetch.manifest), (None, None));
    let mut manifest = page.manifest(None).await;
    for url in ["/a", "/b", "/c"] {
        manifest.record(entry(url)).await;
    }
    let stale = ("cache-control", "max-age=0");
    manifest.head(reusable(0, &[stale], pushed())).await;
    manifest.head(reusable(1, &[stale], pushed())).await;
    manifest
        .head(reusable(
            2,
            &[stale],
            EntryBody::SameAs {
                entry: EntryId::FIRST,
            },
        ))
        .await;
    page.answer(200, &[("cache-control", "no-cache")], b"<html>")
        .await;
    page.push(0, b"body a").await;
    page.push(1, b"body b").await;
    assert_eq!(browser.await.unwrap().text(), "<html>");
    for (path, text) in [("a", "body a"), ("b", "body b"), ("c", "body a")] {
        let url = format!("http://site.test/{path}");
        assert_eq!(world.agent.begin(&url, &[OF_PAGE]).await.unwrap().text(), text);
    }
    let bytes = manifest.finish().await;
    world
        .agent
        .until("the manifest", |status| status.manifests_kept > 0)
        .await;
    kept(world).await;
    bytes
}

#[tokio::test]
async fn an_unchanged_page_costs_its_hashes() {
    let mut world = World::new().await;
    let before = first_load(&mut world).await;
    let browser = world.agent.begin(PAGE, &[AS_PAGE]);
    let page = world.fetch().await;
    let chk = ContentHash::of(b"<html>");
    assert_eq!(page.fetch.held, Some(chk));
    let id = ManifestId::of(&before);
    assert_eq!(page.fetch.manifest, Some(id));
    assert!(page.fetch.holding.is_empty(), "both ends agree on the mirror");
    let mut manifest = page.manifest(Some((id, &before))).await;
    for url in ["/a", "/b", "/c", "/d"] {
        manifest.record(entry(url)).await;
    }
    // If the responses were fresh, the cache alone would answer.
    let stale = ("cache-control", "max-age=0");
    manifest.head(reusable(0, &[stale], EntryBody::AsBefore)).await;
    let half = |body: &[u8]| ContentHash::of(body).as_bytes()[..16].try_into().unwrap();
    manifest
        .head(reusable(
            1,
            &[stale],
            EntryBody::Held {
                hash: half(b"body b"),
            },
        ))
        .await;
    manifest.head(reusable(2, &[stale], EntryBody::AsBefore)).await;
    // The gateway's mirror is wrong for this entry.
    manifest
        .head(reusable(
            3,
            &[stale],
            EntryBody::Held {
                hash: half(b"body d"),
            },
        ))
        .await;
    page.held(&[("cache-control", "no-cache")], chk).await;
    assert_eq!(browser.await.unwrap().text(), "<html>");
    for (path, text) in [("a", "body a"), ("b", "body b"), ("c", "body a")] {
        let url = format!("http://site.test/{path}");
        assert_eq!(world.agent.begin(&url, &[OF_PAGE]).await.unwrap().text(), text);
    }
    let wrong = world.agent.begin("http://site.test/d", &[OF_PAGE]);
    let wanted = world
        .control(|message| {
            if let Message::Want(want) = message {
                Some(want)
            } else {
                None
            }
        })
        .await;
    assert_eq!((wanted.page, wanted.entry), (page.page_id(), EntryId::new(3)));
    page.push(3, b"body d").await;
    assert_eq!(wrong.await.unwrap().text(), "body d");
    world.no_fetch();
    let status = world.agent.status();
    assert_eq!(
        (status.held_hits, status.push_wanted, status.pushed_objects),
        (4, 1, 3)
    );
    assert_eq!(status.exits["arriving.held"], 3);
}

#[tokio::test]
async fn a_gateway_without_mirror_receives_the_held_hashes() {
    let mut world = World::new().await;
    first_load(&mut world).await;
    let dir = world.agent.stop().await;
    let mut world = World::with(dir, MirrorState::Unknown, |_| {}).await;
    world
        .agent
        .until("the welcome", |status| status.gateway_software.is_some())
        .await;
    let browser = world.agent.begin(PAGE, &[AS_PAGE]);
    let page = world.fetch().await;
    let mut expected = [short(b"body a"), short(b"body b")];
    expected.sort_unstable();
    assert_eq!(page.fetch.holding, expected);
    page.answer(200, &[], b"<html>").await;
    browser.await.unwrap();
}

#[tokio::test]
async fn a_page_requested_before_the_welcome_still_reports_held_hashes() {
    let mut world = World::new().await;
    first_load(&mut world).await;
    let dir = world.agent.stop().await;
    let mut world = World::starting(dir, MirrorState::Unknown, |_| {}).await;
    let browser = world.agent.begin(PAGE, &[AS_PAGE]);
    let page = world.fetch().await;
    let hashes = if page.fetch.holding.is_empty() {
        let told = world.control(|message| {
            if let Message::Holding(told) = message {
                Some(told)
            } else {
                None
            }
        });
        let told = told.await;
        assert_eq!(told.page, page.page_id());
        told.hashes
    } else {
        page.fetch.holding.clone()
    };
    let mut expected = [short(b"body a"), short(b"body b")];
    expected.sort_unstable();
    assert_eq!(hashes, expected);
    page.answer(200, &[], b"<html>").await;
    browser.await.unwrap();
}

#[tokio::test]
async fn a_held_body_that_is_gone_is_fetched() {
    let mut world = World::new().await;
    let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
    let chk = ContentHash::of(b"never held");
    world.fetch().await.held(&[FRESH], chk).await;
    let asked = world.fetch().await;
    let told = world
        .control(|message| {
            if let Message::Evicted(evicted) = message {
                Some(evicted)
            } else {
                None
            }
        })
        .await;
    assert_eq!(told.hashes, [short(b"never held")]);
    asked.answer(200, &[FRESH], b"never held").await;
    assert_eq!(browser.await.unwrap().text(), "never held");
    assert_eq!(world.agent.exits("sent.held-missing"), 1);
}

#[tokio::test]
async fn a_full_cache_evicts_and_reports_to_the_gateway() {
    let dir = tempfile::tempdir().unwrap();
    let small = |config: &mut longhaul_agent::config::Config| config.cache.size = ByteCount::mib(1);
    let mut world = World::with(dir, MirrorState::Agreed, small).await;
    let body = |number: u8| [&[number][..], &noise(100_000)].concat();
    for number in 0..15 {
        fetched(
            &mut world,
            &format!("http://site.test/{number}"),
            &[OF_PAGE],
            &[FRESH],
            &body(number),
        )
        .await;
    }
    // A body that the cache never accepts.
    fetched(
        &mut world,
        "http://site.test/large",
        &[OF_PAGE],
        &[FRESH],
        &noise(400_000),
    )
    .await;
    let mut gone = Vec::new();
    let large = short(&noise(400_000));
    while gone.len() < 2 || !gone.contains(&large) {
        let more = world
            .control(|message| {
                if let Message::Evicted(told) = message {
                    Some(told.hashes)
                } else {
                    None
                }
            })
            .await;
        gone.extend(more);
    }
    assert_eq!(world.agent.status().failures, 0);
}
