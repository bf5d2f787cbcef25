//! Tests of the agent's cache: stored responses, their contexts, and the messages to the gateway.
use longhaul_raw_client::Ending;
use longhaul_session::{Message, MirrorState, Record, ShortHash};
use longhaul_types::{ByteCount, ContentHash};

use crate::support::{
    gateway::answers::noise,
    script::{FRESH, OF_PAGE, PAGE, World, pushed, reusable},
};

pub(super) const OBJECT: &str = "http://site.test/a";

/// Sends a request and answers the agent's fetch.
pub(super) async fn fetched(
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
pub(super) fn short(body: &[u8]) -> ShortHash {
    ShortHash::of(&ContentHash::of(body))
}

/// Waits until the delivered bodies are stored in the cache.
pub(super) async fn kept(world: &World) {
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
