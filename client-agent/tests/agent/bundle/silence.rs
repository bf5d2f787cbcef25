//! Tests of a gateway that becomes silent while the browser waits for an announced entry: the agent fetches
//! directly, if its settings allow this.
use std::time::Duration;

use longhaul_agent::config::{Config, Fallback};
use longhaul_session::MirrorState;
use longhaul_udp_relay::{Passage, UdpRelay};

use crate::support::{
    origin::origin,
    script::{FRESH, OF_OTHER_SITE, OF_PAGE, World, answers::ManifestWriter, pushed, reusable, shaped},
};

fn around_soon(config: &mut Config) {
    config.fallback = Fallback::After(Duration::from_millis(200));
    // Longer than the transport takes to detect the silence.
    config.push.patience = Duration::from_secs(60);
}

/// The transport detects silence only while it awaits an answer: a request to a closed port causes this.
const UNANSWERED: &str = "http://127.0.0.1:9/";

/// Returns a page behind a hop, whose manifest announces an object of a real origin.
async fn promising() -> (World, UdpRelay, ManifestWriter, String) {
    let (mut world, hop) = World::behind_hop(MirrorState::Agreed, around_soon).await;
    let object = format!("http://{}/object", origin().await);
    let (_page, manifest) = world.page(&[&object]).await;
    (world, hop, manifest, object)
}

#[tokio::test]
async fn a_promise_without_a_head_is_fetched_directly_from_the_origin() {
    let (world, hop, _manifest, object) = promising().await;
    let browser = world.agent.begin(&object, &[OF_PAGE]);
    world
        .agent
        .until("it waits", |status| status.exits.contains_key("lookup.announced"))
        .await;
    hop.set(Passage::Blocked);
    let _unanswered = world.agent.begin(UNANSWERED, &[]);
    let reply = browser.await.unwrap();
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (200, "GET /object HTTP/1.1")
    );
    assert_eq!(world.agent.exits("promised.silent"), 1);
}

#[tokio::test]
async fn a_promise_without_a_body_is_fetched_from_the_origin() {
    let (world, hop, mut manifest, object) = promising().await;
    manifest
        .head(shaped(OF_OTHER_SITE, reusable(0, &[FRESH], pushed())))
        .await;
    let browser = world.agent.begin(&object, &[OF_PAGE]);
    world
        .agent
        .until("it waits", |status| status.exits.contains_key("promised.head"))
        .await;
    hop.set(Passage::Blocked);
    let _unanswered = world.agent.begin(UNANSWERED, &[]);
    let reply = browser.await.unwrap();
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (200, "GET /object HTTP/1.1")
    );
    assert_eq!(world.agent.exits("arriving.silent"), 1);
}
