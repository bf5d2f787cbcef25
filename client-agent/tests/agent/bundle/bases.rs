//! Tests of bodies encoded against a base, held or missing.
use longhaul_codec::dictionary;
use longhaul_session::{Delivery, Dictionaries, EntryId, Message, ShortHash};

use crate::support::{
    gateway::answers::noise,
    script::{AS_PAGE, FRESH, OF_PAGE, PAGE, World, pushed, reusable, short},
};

const OBJECT: &str = "http://site.test/a";
const OLD: &str = "http://site.test/old";

fn evicted(message: Message) -> Option<Vec<ShortHash>> {
    if let Message::Evicted(evicted) = message {
        Some(evicted.hashes)
    } else {
        None
    }
}

fn wanted(message: Message) -> Option<EntryId> {
    if let Message::Want(want) = message {
        Some(want.entry)
    } else {
        None
    }
}

/// Returns two bodies with much in common.
fn editions() -> (Vec<u8>, Vec<u8>) {
    let old = noise(400_000);
    let mut new = old.clone();
    new.splice(200_000..200_010, noise(500));
    (old, new)
}

/// Makes the agent hold a body.
async fn hold(world: &mut World, body: &[u8]) {
    let browser = world.agent.begin(OLD, &[OF_PAGE]);
    world.fetch().await.answer(200, &[FRESH], body).await;
    assert!(browser.await.unwrap().body == body);
    world.agent.agent.control().handles.storage.store.settle().await;
}

#[tokio::test]
async fn a_held_body_is_the_base_of_responses_and_pushes() {
    let mut world = World::new().await;
    let (old, new) = editions();
    hold(&mut world, &old).await;
    let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
    world.fetch().await.answer_based(&[], &new, &old).await;
    assert!(browser.await.unwrap().body == new);

    let (page, mut manifest) = world.page(&["/b"]).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    let browser = world.agent.begin("http://site.test/b", &[OF_PAGE]);
    page.push_based(0, &new, &old).await;
    assert!(browser.await.unwrap().body == new);
    let status = world.agent.status();
    assert_eq!(
        (status.bases_used, status.bases_missing, status.windows_bad),
        (2, 0, 0)
    );
}

#[tokio::test]
async fn a_push_whose_base_is_missing_is_requested_again() {
    let mut world = World::new().await;
    let (old, new) = editions();
    let (page, mut manifest) = world.page(&["/a"]).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
    page.push_based(0, &new, &old).await;
    // The agent sends the messages in this order, so that the gateway does not name the same base again.
    assert_eq!(world.control(evicted).await, [short(&old)]);
    assert_eq!(world.control(wanted).await, EntryId::FIRST);
    page.push(0, &new).await;
    assert!(browser.await.unwrap().body == new);
    let status = world.agent.status();
    assert_eq!(
        (status.bases_used, status.bases_missing, status.failures),
        (0, 1, 0)
    );
}

#[tokio::test]
async fn a_response_whose_base_is_missing_is_requested_without_a_base() {
    let mut world = World::new().await;
    let (old, new) = editions();
    for (url, fields) in [(OBJECT, &[][..]), (PAGE, &[AS_PAGE][..])] {
        let browser = world.agent.begin(url, fields);
        world.fetch().await.answer_based(&[], &new, &old).await;
        assert_eq!(world.control(evicted).await, [short(&old)]);
        let again = world.fetch().await;
        assert_eq!(
            (again.fetch.delivery, again.fetch.resume.is_some()),
            (Delivery::Plain, false)
        );
        again.answer(200, &[], &new).await;
        assert!(browser.await.unwrap().body == new);
    }
    assert_eq!(world.agent.exits("sent.base-missing"), 2);
    assert_eq!(world.agent.status().failures, 0);
}

#[tokio::test]
async fn dictionaries_are_held_from_the_start() {
    let mut world = World::new().await;
    let told = world
        .control(|message| {
            if let Message::Dictionaries(told) = message {
                Some(told)
            } else {
                None
            }
        })
        .await;
    assert_eq!(
        told,
        Dictionaries {
            set: dictionary::NEWEST_SET
        }
    );
    let mut used = 0;
    for hash in dictionary::all() {
        let base = dictionary::find(hash.as_bytes()).unwrap();
        let body = [&base[base.len() / 2..], b"new"].concat();
        let browser = world.agent.begin(OBJECT, &[OF_PAGE]);
        world.fetch().await.answer_based(&[], &body, &base).await;
        assert!(browser.await.unwrap().body == body);
        used += 1;
    }
    let (page, mut manifest) = world.page(&["/b"]).await;
    manifest.head(reusable(0, &[FRESH], pushed())).await;
    let browser = world.agent.begin("http://site.test/b", &[OF_PAGE]);
    let base = dictionary::find(dictionary::all().next().unwrap().as_bytes()).unwrap();
    page.push_based(0, b"a { display: block }", &base).await;
    assert!(browser.await.unwrap().body == b"a { display: block }");
    let status = world.agent.status();
    assert_eq!(
        (status.dictionaries_used, status.bases_used, status.bases_missing),
        (used + 1, 0, 0)
    );
}
