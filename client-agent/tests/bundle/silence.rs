//! A gateway that falls silent while the browser waits for what it has promised: the agent goes around it, where its user
//! lets it.
use std::time::Duration;

use longhaul_agent::config::{Config, Fallback};
use longhaul_protocol::session::MirrorState;

use crate::support::{
    hop::Hop,
    origin::origin,
    script::{FRESH, OF_OTHER_SITE, OF_PAGE, World, pushed, reusable, shaped},
};

fn around_soon(config: &mut Config) {
    config.fallback = Fallback::After(Duration::from_millis(200));
    // Longer than the transport takes to notice.
    config.push.patience = Duration::from_secs(60);
}

/// What waits for nobody does not notice silence: another request does, on its way to a port where nobody listens.
const UNANSWERED: &str = "http://127.0.0.1:9/";

/// A page behind a hop, which promises an object of a real origin.
async fn promising() -> (World, Hop, crate::support::script::ManifestWriter, String) {
    let (mut world, hop) = World::behind_hop(MirrorState::Agreed, around_soon).await;
    let object = format!("http://{}/object", origin().await);
    let (_page, manifest) = world.page(&[&object]).await;
    (world, hop, manifest, object)
}

#[tokio::test]
async fn a_promise_without_a_head_is_fetched_from_the_origin() {
    let (world, hop, _manifest, object) = promising().await;
    let browser = world.agent.begin(&object, &[OF_PAGE]);
    world
        .agent
        .until("it waits", |status| {
            status.exits.contains_key("looking.announced")
        })
        .await;
    hop.cut();
    let _unanswered = world.agent.begin(UNANSWERED, &[]);
    let reply = browser.await.unwrap();
    assert_eq!((reply.status, reply.text()), (200, "GET /object HTTP/1.1"));
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
    hop.cut();
    let _unanswered = world.agent.begin(UNANSWERED, &[]);
    let reply = browser.await.unwrap();
    assert_eq!((reply.status, reply.text()), (200, "GET /object HTTP/1.1"));
    assert_eq!(world.agent.exits("arriving.silent"), 1);
}
