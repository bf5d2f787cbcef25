//! Isolation of sites, clients and credentials in the gateway's cache, the mirror and the learned plans.
use longhaul_session::{EntryBody, Fetch, FetchKind, Message, Method, ShortHash};
use longhaul_types::{ClientId, ContentHash};

use crate::{
    agent::{Agent, NOBODY, fetch_of},
    bundles::{Site, resource},
    bundles_load::{Load, LoadReader},
    store::{get, numbered, setup},
};

const PRIVATE: &[(&str, &str)] = &[("cache-control", "private, max-age=600")];

/// The URL of an object at an origin.
fn object(origin: &str) -> String {
    format!("{origin}x.js")
}

async fn get_for(agent: &mut Agent, client: u64, url: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let fetch = Fetch {
        client: ClientId(client),
        kind: FetchKind::Object,
        ..fetch_of(agent.id(), Method::Get, url, fields)
    };
    agent.send(Message::Fetch(fetch)).await;
    agent.answer().await.response(&agent.session).await.body
}

#[tokio::test]
async fn responses_fetched_for_one_site_serve_no_other() {
    let (_gateway, mut agent) = setup().await;
    for fields in [PRIVATE, &[("cache-control", "max-age=600"), ("x-y", "z")]] {
        let (origin, log) = numbered(fields).await;
        let url = object(&origin);
        // Requests without credentials of one browser: a shareable response is separated by `Referer`,
        // another one by its partition.
        let of = |referrer| [("referer", referrer)];
        assert_eq!(get(&mut agent, &url, &of("http://a.test/")).await, "answer 1");
        assert_eq!(
            get(&mut agent, &url, &of("http://www.a.test/2")).await,
            "answer 1"
        );
        assert_eq!(get(&mut agent, &url, &of("http://evil.test/")).await, "answer 2");
        assert_eq!(get(&mut agent, &url, &of("http://evil.test/")).await, "answer 2");
        assert_eq!(log.count(), 2);
    }
    let (origin, log) = numbered(PRIVATE).await;
    let url = object(&origin);
    for number in 1..4 {
        let answer = format!("answer {number}");
        assert_eq!(
            get(&mut agent, &url, &[NOBODY]).await,
            answer,
            "requests without requester share no stored response"
        );
    }
    assert_eq!(log.count(), 3);
}

#[tokio::test]
async fn clients_of_a_device_have_separate_private_responses() {
    let (_gateway, mut agent) = setup().await;
    let (origin, _) = numbered(PRIVATE).await;
    let url = object(&origin);
    assert_eq!(get_for(&mut agent, 0, &url, &[]).await, b"answer 1");
    assert_eq!(get_for(&mut agent, 5, &url, &[]).await, b"answer 2");
    assert_eq!(get_for(&mut agent, 0, &url, &[]).await, b"answer 1");
    assert_eq!(get_for(&mut agent, 5, &url, &[]).await, b"answer 2");
}

#[tokio::test]
async fn objects_with_credentials_are_shared_only_if_public_and_documents_never() {
    let (_gateway, mut agent) = setup().await;
    let (ann, amy) = ([("cookie", "id=ann")], [("cookie", "id=amy")]);
    // Regression: the second requester once got the first one's response.
    let (origin, _) = numbered(&[("cache-control", "max-age=600")]).await;
    let url = object(&origin);
    assert_eq!(get(&mut agent, &url, &ann).await, "answer 1");
    assert_eq!(get(&mut agent, &url, &amy).await, "answer 2");
    assert_eq!(get(&mut agent, &url, &[]).await, "answer 3");
    assert_eq!(get(&mut agent, &url, &ann).await, "answer 1");
    for fields in [
        &[("cache-control", "public, max-age=600")][..],
        &[("cache-control", "immutable, max-age=600")],
    ] {
        let (origin, _) = numbered(fields).await;
        let url = object(&origin);
        assert_eq!(get(&mut agent, &url, &ann).await, "answer 1");
        assert_eq!(get(&mut agent, &url, &amy).await, "answer 1", "{fields:?}");
        // A document answers only requests with the same credentials.
        assert_eq!(get(&mut agent, &origin, &ann).await, "answer 2");
        assert_eq!(get(&mut agent, &origin, &amy).await, "answer 3", "{fields:?}");
        assert_eq!(get(&mut agent, &origin, &ann).await, "answer 2");
    }
}

#[tokio::test]
async fn clear_site_data_removes_the_origins_responses() {
    let (_gateway, mut agent) = setup().await;
    let site = Site::start([
        (
            "/x.js",
            resource("text/javascript", "x").with("cache-control", "private, max-age=600"),
        ),
        (
            "/logout",
            resource("text/plain", "bye").with("clear-site-data", "\"cache\""),
        ),
    ])
    .await;
    let (own, other) = (site.url("a", "/x.js"), site.url("b", "/x.js"));
    for _ in 0..2 {
        agent.get(&own, &[]).await;
        agent.get(&other, &[]).await;
    }
    assert_eq!(site.requests("/x.js").len(), 2);
    agent.get(&site.url("a", "/logout"), &[]).await;
    agent.get(&other, &[]).await;
    assert_eq!(
        site.requests("/x.js").len(),
        2,
        "responses of another origin remain stored"
    );
    agent.get(&own, &[]).await;
    assert_eq!(site.requests("/x.js").len(), 3);
}

/// Finding F9: a page contains an image whose bytes equal an object that the user holds of another site.
#[tokio::test]
async fn held_hashes_are_used_only_for_the_site_that_loaded_them() {
    let (gateway, _) = setup().await;
    let device = gateway.admit("holder");
    let mut agent = Agent::connect_with(&gateway, &device, 77).await;
    let secret = resource("image/png", vec![7; 30_000]).with("cache-control", "private, max-age=600");
    let site = Site::start([
        ("/", resource("text/html", "<img src=/secret.png>")),
        (
            "/evil/",
            resource("text/html", "<img src=/guess.png><img src=/twin.png>"),
        ),
        ("/own/", resource("text/html", "<img src=/copy.png>")),
        ("/secret.png", secret.clone()),
        ("/guess.png", secret.clone()),
        ("/twin.png", secret.clone()),
        ("/copy.png", secret),
    ])
    .await;
    LoadReader::whole(&mut agent, &site.url("victim", "/"), &[]).await;
    // The mirror records a delivery once it is acknowledged, which takes a moment.
    loop {
        let own = LoadReader::whole(&mut agent, &site.url("victim", "/own/"), &[]).await;
        if matches!(own.head_of("/copy.png").body, EntryBody::Held { .. }) {
            break;
        }
    }
    let evil = LoadReader::whole(&mut agent, &site.url("evil", "/evil/"), &[]).await;
    let body = |load: &Load, path| load.head_of(path).body;
    assert!(
        matches!(body(&evil, "/guess.png"), EntryBody::Pushed { .. }),
        "{:?}",
        evil.records
    );
    // The two images of this page may be pushed once.
    assert!(matches!(
        body(&evil, "/twin.png"),
        EntryBody::SameAs { .. } | EntryBody::Pushed { .. }
    ));
}

/// A request of another site's style sheet names no document; the plan records the document that it belongs
/// to.
#[tokio::test]
async fn images_of_a_cross_site_style_sheet_are_held_for_the_page() {
    let (gateway, _) = setup().await;
    let device = gateway.admit("holder");
    let mut agent = Agent::connect_with(&gateway, &device, 79).await;
    let site = Site::start([]).await;
    let sheet = format!("<link rel=stylesheet href={}>", site.url("cdn", "/s.css"));
    for path in ["/", "/again/", "/evil/"] {
        site.set(path, resource("text/html", sheet.clone()));
    }
    let css = resource("text/css", "body { background: url(/x.png) }").fresh();
    site.set("/s.css", css.with("referrer-policy", "no-referrer"));
    site.set("/x.png", resource("image/png", vec![9; 30_000]).fresh());
    let picture = site.url("cdn", "/x.png");
    LoadReader::whole(&mut agent, &site.url("a", "/"), &[]).await;
    // The mirror learns of a delivery with its acknowledgement, which may not have arrived yet.
    loop {
        let again = LoadReader::whole(&mut agent, &site.url("a", "/again/"), &[]).await;
        if matches!(again.head_of(&picture).body, EntryBody::Held { .. }) {
            break;
        }
    }
    let other = LoadReader::whole(&mut agent, &site.url("b", "/evil/"), &[]).await;
    let body = other.head_of(&picture).body;
    assert!(matches!(body, EntryBody::Pushed { .. }), "{body:?}");
}

#[tokio::test]
async fn hashes_reported_with_a_page_are_held_for_that_page() {
    let (gateway, _) = setup().await;
    let device = gateway.admit("holder");
    let mut agent = Agent::connect_with(&gateway, &device, 78).await;
    let image = resource("image/png", vec![8; 30_000]).fresh();
    let site = Site::start([
        ("/", resource("text/html", "<img src=/x.png>")),
        ("/x.png", image.clone()),
    ])
    .await;
    let short = ShortHash::of(&ContentHash::of(&image.body));
    for (host, holding) in [("a", vec![short]), ("b", Vec::new())] {
        let mut fetch = fetch_of(agent.id(), Method::Get, &site.url(host, "/"), &[]);
        let is_held = !holding.is_empty();
        fetch.holding = holding;
        let mut reader = LoadReader::begin(&agent, fetch, &[]).await;
        reader.until(Load::is_complete).await;
        let body = reader.load.head_of("/x.png").body;
        assert_eq!(
            matches!(body, EntryBody::Held { .. }),
            is_held,
            "{host}: {body:?}"
        );
    }
}
