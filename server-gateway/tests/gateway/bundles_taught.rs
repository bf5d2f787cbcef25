//! Page bundles: what one device's visit of a page that no cache stores teaches others.
use longhaul_session::Message;

use crate::{
    agent::Agent,
    bundles::{Site, resource},
    bundles_correctness::object,
    bundles_learned::{PLAIN, sorted, teach, until_planned, visit},
    bundles_load::{Load, LoadReader},
    gateway::Gateway,
};

/// A page whose scripts compose the names of objects of words that stand in it.
const PAGE: &str = "<script src=/app.js></script><script>['alpha','beta','gamma','json']</script>";

/// A site whose page no cache stores.
async fn unstored_site() -> Site {
    let page = resource("text/html", PAGE).with("cache-control", "no-store");
    Site::start([
        ("/", page),
        ("/app.js", resource("text/javascript", "").fresh()),
        ("/alpha.json", resource("application/json", "1")),
        ("/beta.json", resource("application/json", "2")),
        ("/gamma.json", resource("application/json", "3")),
    ])
    .await
}

async fn two_devices() -> (Gateway, Agent, Agent, Site) {
    let gateway = Gateway::start().await;
    let (first, second) = (Agent::connect(&gateway).await, Agent::connect(&gateway).await);
    (gateway, first, second, unstored_site().await)
}

/// Visits the page on `first`, then loads it on `second` until `/alpha.json` is planned. A further visit on `first` would
/// plan the other objects without credentials, and the gateway would tell their names after that.
async fn teach_once(
    first: &mut Agent,
    second: &mut Agent,
    site: &Site,
    objects: &[(&str, &[(&str, &str)])],
) -> Load {
    visit(first, site, PLAIN, objects).await;
    until_planned(second, site, "/alpha.json", PLAIN).await
}

#[tokio::test]
async fn a_page_that_no_cache_stores_teaches_its_words() {
    let (_gateway, mut first, mut second, site) = two_devices().await;
    let load = teach(
        &mut first,
        &mut second,
        &site,
        (PLAIN, &[("/alpha.json", PLAIN)]),
        "/alpha.json",
    )
    .await;
    assert_eq!(sorted(&load), ["/alpha.json", "/app.js"]);
}

/// Chromium tells origins when it would not load a script at all.
#[tokio::test]
async fn what_browsers_add_by_themselves_is_no_credential() {
    const WARNED: &[(&str, &str)] = &[
        ("user-agent", "test"),
        ("accept", "*/*"),
        (
            "intervention",
            "<https://www.chromestatus.com/feature/5718547946799104>; level=\"warning\"",
        ),
    ];
    const OWN: &[(&str, &str)] = &[("user-agent", "test"), ("accept", "*/*"), ("intervention", "k3y")];
    let (_gateway, mut first, mut second, site) = two_devices().await;
    let objects: &[(&str, &[(&str, &str)])] = &[("/beta.json", OWN), ("/alpha.json", WARNED)];
    let load = teach_once(&mut first, &mut second, &site, objects).await;
    assert_eq!(sorted(&load), ["/alpha.json", "/app.js"]);
}

#[tokio::test]
async fn cookies_of_this_visit_are_expected_in_later_requests() {
    const SET: &[(&str, &str)] = &[("user-agent", "test"), ("accept", "*/*"), ("cookie", "seen=1")];
    const OTHER: &[(&str, &str)] = &[("user-agent", "test"), ("accept", "*/*"), ("cookie", "user=1")];
    let (_gateway, mut first, mut second, site) = two_devices().await;
    site.set(
        "/gamma.json",
        resource("application/json", "3").with("set-cookie", "seen=1"),
    );
    let objects: &[(&str, &[(&str, &str)])] = &[
        ("/gamma.json", PLAIN),
        ("/beta.json", OTHER),
        ("/alpha.json", SET),
    ];
    let load = teach_once(&mut first, &mut second, &site, objects).await;
    assert_eq!(sorted(&load), ["/alpha.json", "/app.js"]);
}

/// A request with cookies of earlier visits, whose response is the same for all, is told after two devices.
#[tokio::test]
async fn two_devices_teach_what_they_requested_with_cookies_of_their_own() {
    const FIRST: &[(&str, &str)] = &[("user-agent", "test"), ("cookie", "user=1")];
    const SECOND: &[(&str, &str)] = &[("user-agent", "test"), ("cookie", "user=2")];
    let gateway = Gateway::start().await;
    let mut first = Agent::connect(&gateway).await;
    let mut second = Agent::connect(&gateway).await;
    let mut third = Agent::connect(&gateway).await;
    let site = unstored_site().await;
    site.set(
        "/alpha.json",
        resource("application/json", "1").with("cache-control", "public, max-age=600"),
    );
    let objects: &[(&str, &[(&str, &str)])] = &[
        ("/alpha.json", FIRST),
        ("/beta.json", FIRST),
        ("/gamma.json", PLAIN),
    ];
    visit(&mut first, &site, PLAIN, objects).await;
    let load = until_planned(&mut third, &site, "/gamma.json", PLAIN).await;
    assert_eq!(sorted(&load), ["/app.js", "/gamma.json"]);
    let objects: &[(&str, &[(&str, &str)])] = &[("/alpha.json", SECOND), ("/beta.json", SECOND)];
    visit(&mut second, &site, PLAIN, objects).await;
    let load = until_planned(&mut third, &site, "/alpha.json", PLAIN).await;
    assert_eq!(sorted(&load), ["/alpha.json", "/app.js", "/gamma.json"]);
}

/// A page whose first response sets a cookie, so that its bundle is requested with one and may be one visitor's.
#[tokio::test]
async fn hashed_names_in_a_bundle_are_told_to_those_who_get_the_same_bundle() {
    const CHUNK: &str = "/9f86d081884c.js";
    const COOKIE: &[(&str, &str)] = &[("user-agent", "test"), ("accept", "*/*"), ("cookie", "seen=1")];
    let gateway = Gateway::start().await;
    let mut first = Agent::connect(&gateway).await;
    let mut second = Agent::connect(&gateway).await;
    let page = resource("text/html", "<script src=/app.js></script>").with("set-cookie", "seen=1");
    let bundle = |text| resource("text/javascript", text).fresh();
    let site = Site::start([
        ("/", page),
        ("/app.js", bundle("import('9f86d081884c.js')")),
        (CHUNK, bundle("1")),
        ("/js", bundle("")),
    ])
    .await;
    visit(&mut first, &site, PLAIN, &[(CHUNK, COOKIE)]).await;
    let load = until_planned(&mut second, &site, CHUNK, PLAIN).await;
    assert_eq!(sorted(&load), [CHUNK, "/app.js"]);

    // The bundle of another visitor, with the same name in it.
    site.set("/app.js", bundle("import('9f86d081884c.js');"));
    let mut third = Agent::connect(&gateway).await;
    for _ in 0..3 {
        let load = LoadReader::whole(&mut third, &site.url("b", "/"), PLAIN).await;
        assert_eq!(sorted(&load), ["/app.js"]);
    }
}

/// A device that leaves right after its visit has reported nothing.
#[tokio::test]
async fn a_visit_teaches_although_its_session_ends_with_it() {
    let gateway = Gateway::start().await;
    let site = unstored_site().await;
    let page = site.url("a", "/");
    for _ in 0..1000 {
        let mut agent = Agent::connect(&gateway).await;
        let load = LoadReader::whole(&mut agent, &page, PLAIN).await;
        if load.urls().contains(&"/alpha.json".to_owned()) {
            return;
        }
        let fields = [PLAIN, &[("referer", page.as_str())]].concat();
        let asked = object(&mut agent, load.page, &site.url("a", "/alpha.json"), &fields);
        agent.send(Message::Fetch(asked)).await;
        assert_eq!(agent.answer().await.response(&agent.session).await.status, 200);
    }
    panic!("the visit taught nothing");
}
