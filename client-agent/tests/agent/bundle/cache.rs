//! Tests of the agent's cache: stored responses, their contexts, and the messages to the gateway.
use longhaul_raw_client::Ending;
use longhaul_session::{EntryBody, EntryId, ManifestId, Message, MirrorState, Record, ShortHash};
use longhaul_types::{ByteCount, ContentHash};

use crate::support::{
    gateway::noise,
    script::{AS_PAGE, FRESH, OF_PAGE, PAGE, World, entry, pushed, reusable},
};

const OBJECT: &str = "http://site.test/a";

/// Sends a request and answers the agent's fetch.
async fn fetched(
    world: &mut World,
    url: &str,
    request: &[(&str, &str)],
    fields: &[(&str, &str)],
    body: &[u8],
) {
    let browser = world.agent.begin(url, request);
    world.fetch().await.answer(200, fields, body).await;
    let reply = browser.await.unwrap();
    assert!(reply.status == 200 && reply.body == body, "{url}");
}

async fn answered_alone(world: &mut World, url: &str, request: &[(&str, &str)], body: &[u8]) {
    let reply = world.agent.begin(url, request).await.unwrap();
    assert!(reply.status == 200 && reply.body == body, "{url}");
    world.no_fetch();
}

/// Returns the short hash of a body.
fn short(body: &[u8]) -> ShortHash {
    ShortHash::of(&ContentHash::of(body))
}

/// Waits until the delivered bodies are stored in the cache.
async fn kept(world: &World) {
    world.agent.agent.control().handles.storage.store.settle().await;
}

#[tokio::test]
async fn fresh_responses_are_served_without_the_gateway() {
    let mut world = World::new().await;
    let fields = [FRESH, ("etag", "\"v1\"")];
    fetched(&mut world, OBJECT, &[OF_PAGE], &fields, b"kept").await;
    kept(&world).await;
    let reply = world.agent.begin(OBJECT, &[OF_PAGE]).await.unwrap();
    assert_eq!((reply.status, reply.text().as_str()), (200, "kept"));
    assert!(reply.field("age").is_some());
    let reply = world
        .agent
        .begin(OBJECT, &[OF_PAGE, ("if-none-match", "\"v1\"")])
        .await
        .unwrap();
    assert_eq!(reply.status, 304);
    world.no_fetch();
    assert_eq!(
        (
            world.agent.exits("lookup.fresh"),
            world.agent.exits("lookup.not-modified")
        ),
        (1, 1)
    );
    // A reload that bypasses caches or revalidates does not use the stored response, but its fetch names the
    // held version.
    for reload in ["no-cache", "max-age=0"] {
        let browser = world.agent.begin(OBJECT, &[OF_PAGE, ("cache-control", reload)]);
        let asked = world.fetch().await;
        let chk = ContentHash::of(b"kept");
        assert_eq!(asked.fetch.held, Some(chk), "{reload}");
        asked.held(&fields, chk).await;
        assert_eq!(browser.await.unwrap().text(), "kept", "{reload}");
    }
    assert_eq!(world.agent.exits("sent.held"), 2);
    // A changed response replaces the stored one.
    let browser = world
        .agent
        .begin(OBJECT, &[OF_PAGE, ("cache-control", "no-cache")]);
    world.fetch().await.answer(200, &fields, b"new").await;
    assert_eq!(browser.await.unwrap().text(), "new");
    kept(&world).await;
    answered_alone(&mut world, OBJECT, &[OF_PAGE], b"new").await;
}

#[tokio::test]
async fn with_an_old_gateway_only_answers_of_the_cache_are_saved() {
    let mut world = World::new().await;
    let body = "a body of the test ".repeat(40);
    fetched(&mut world, OBJECT, &[OF_PAGE], &[FRESH], body.as_bytes()).await;
    kept(&world).await;
    let before = world.agent.status().savings;
    assert_eq!(
        (before.saved.bytes, before.reported),
        (0, false),
        "nothing is known about the origin"
    );
    answered_alone(&mut world, OBJECT, &[OF_PAGE], body.as_bytes()).await;
    let after = world.agent.status();
    let saved = after.savings.saved;
    assert_eq!(
        (saved.bytes, saved.by_cause.sum()),
        (saved.by_cause.cache, saved.bytes)
    );
    assert!(
        0 < saved.bytes && saved.bytes.unsigned_abs() < after.bytes_down,
        "{saved:?} of {} B on the hop",
        after.bytes_down
    );
    assert_eq!(after.bytes_saved, saved.bytes.unsigned_abs());
}

#[tokio::test]
async fn a_site_cannot_detect_what_another_site_loaded() {
    let mut world = World::new().await;
    let url = "http://cdn.test/lib.js";
    fetched(
        &mut world,
        url,
        &[("referer", "http://a.test/")],
        &[FRESH],
        b"lib",
    )
    .await;
    kept(&world).await;
    answered_alone(&mut world, url, &[("referer", "http://a.test/other")], b"lib").await;
    for probe in [
        &[("referer", "http://b.test/")][..],
        &[],
        &[("referer", "http://cdn.test/")],
    ] {
        fetched(&mut world, url, probe, &[FRESH], b"lib").await;
    }
}

#[tokio::test]
async fn no_store_responses_are_nowhere_on_the_disk() {
    let mut world = World::new().await;
    let secret = [b"this is a secret of length ".as_slice(), &[b'x'; 3000]].concat();
    let private = ("cache-control", "no-store");
    fetched(&mut world, OBJECT, &[OF_PAGE], &[private], &secret).await;
    fetched(
        &mut world,
        OBJECT,
        &[OF_PAGE, ("cache-control", "no-store")],
        &[FRESH],
        &secret,
    )
    .await;
    let (page, mut manifest) = world.page(&["/pushed"]).await;
    manifest.head(reusable(0, &[private], pushed())).await;
    page.push(0, &secret).await;
    assert!(
        world
            .agent
            .begin("http://site.test/pushed", &[OF_PAGE])
            .await
            .unwrap()
            .body
            == secret
    );
    fetched(
        &mut world,
        "http://site.test/public",
        &[OF_PAGE],
        &[FRESH],
        b"this may be found",
    )
    .await;
    kept(&world).await;
    // The gateway considers the second body held, because its response permitted storing.
    let gone = world
        .control(|message| {
            if let Message::Evicted(evicted) = message {
                Some(evicted)
            } else {
                None
            }
        })
        .await;
    assert_eq!(gone.hashes, [short(&secret)]);
    let dir = world.agent.stop().await;
    let (mut files, mut found) = (0, false);
    for file in std::fs::read_dir(dir.path().join("cache")).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        files += 1;
        assert!(!bytes.windows(16).any(|part| part == &secret[..16]));
        found |= bytes.windows(17).any(|part| part == b"this may be found");
    }
    assert!(files > 0 && found, "the search does not find a stored response");
}

#[tokio::test]
async fn truncated_bodies_are_not_stored() {
    let mut world = World::new().await;
    let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
    let asked = world.fetch().await;
    let body = asked.begin(&[FRESH], &noise(100_000)).await;
    world
        .agent
        .until("a part of the body is decoded", |status| {
            status.body_bytes_decoded >= 98_304
        })
        .await;
    drop(body);
    assert_eq!(browser.await.unwrap().ending, Ending::Truncated);
    kept(&world).await;
    let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
    let asked = world.fetch().await;
    assert_eq!(asked.fetch.held, None);
    asked.answer(200, &[], b"x").await;
    browser.await.unwrap();
}

#[tokio::test]
async fn an_unsafe_request_makes_stored_responses_invalid() {
    let mut world = World::new().await;
    fetched(&mut world, OBJECT, &[OF_PAGE], &[FRESH], b"old").await;
    kept(&world).await;
    let mut client = world.agent.connect().await;
    client
        .send(format!(
            "DELETE {OBJECT} HTTP/1.1\r\nhost: a\r\nreferer: {PAGE}\r\n\r\n"
        ))
        .await
        .unwrap();
    let asked = world.fetch().await;
    asked
        .link
        .open(&[asked.bodyless(204)], &[], longhaul_driver::End::Finish)
        .await;
    assert_eq!(client.head().await.unwrap().status, 204);
    fetched(&mut world, OBJECT, &[OF_PAGE], &[FRESH], b"new").await;
}

#[tokio::test]
async fn a_304_updates_the_stored_response() {
    let mut world = World::new().await;
    fetched(
        &mut world,
        OBJECT,
        &[OF_PAGE],
        &[("cache-control", "max-age=0"), ("etag", "\"v1\"")],
        b"body",
    )
    .await;
    kept(&world).await;
    let browser = world.agent.begin(OBJECT, &[OF_PAGE, ("if-none-match", "\"v1\"")]);
    world
        .fetch()
        .await
        .answer(304, &[FRESH, ("etag", "\"v1\"")], b"")
        .await;
    assert_eq!(browser.await.unwrap().status, 304);
    kept(&world).await;
    answered_alone(&mut world, OBJECT, &[OF_PAGE], b"body").await;
}

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
async fn a_damaged_file_is_set_aside() {
    let mut world = World::new().await;
    fetched(&mut world, OBJECT, &[OF_PAGE], &[FRESH], &noise(50_000)).await;
    kept(&world).await;
    let dir = world.agent.stop().await;
    let file = dir.path().join("cache/cache.sqlite");
    let length = std::fs::metadata(&file).unwrap().len();
    std::fs::write(&file, noise(usize::try_from(length).unwrap())).unwrap();
    let mut world = World::with(dir, MirrorState::Agreed, |_| {}).await;
    fetched(&mut world, OBJECT, &[OF_PAGE], &[FRESH], b"anew").await;
    kept(&world).await;
    answered_alone(&mut world, OBJECT, &[OF_PAGE], b"anew").await;
    world
        .agent
        .agent
        .control()
        .handles
        .storage
        .store
        .refresh_usage()
        .await;
    let status = world.agent.status();
    assert_eq!((status.cache_resets, status.cache_quota), (1, 16 * 1024 * 1024));
    assert!(status.cache_bytes > 0 && status.cache_hits > 0);
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

#[tokio::test]
async fn without_a_cache_everything_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let off = |config: &mut longhaul_agent::config::Config| config.cache.size = ByteCount::ZERO;
    let mut world = World::with(dir, MirrorState::Agreed, off).await;
    let hello = world
        .control(|message| {
            if let Message::Hello(hello) = message {
                Some(hello)
            } else {
                None
            }
        })
        .await;
    assert_eq!(hello.cache_state, None);
    for _ in 0..2 {
        fetched(&mut world, OBJECT, &[OF_PAGE], &[FRESH], b"x").await;
    }
    let (page, mut manifest) = world.page(&["/p"]).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    page.push(0, b"pushed").await;
    assert_eq!(
        world
            .agent
            .begin("http://site.test/p", &[OF_PAGE])
            .await
            .unwrap()
            .text(),
        "pushed"
    );
    manifest.record(Record::Planned).await;
    assert!(!world.agent.dir.path().join("cache").exists());
}
