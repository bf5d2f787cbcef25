//! Page bundles: pages that the browser already has, and bodies that the gateway no longer has.
use longhaul_session::{BodyPlace, EntryBody, EntryId, Message, Method, PageId, Used, Want};

use crate::{
    agent::{Agent, fetch_of},
    bundles::{Resource, Site, resource, setup},
    bundles_load::{Load, LoadReader, StreamEnd},
    gateway::Gateway,
};

const PAGE: &str = "<link rel=stylesheet href=/main.css><p><img src=/1.png>";

async fn validated_site(page: Resource) -> Site {
    Site::start([
        ("/", page),
        (
            "/main.css",
            resource("text/css", "p{background:url(/bg.png)}").fresh(),
        ),
        ("/1.png", resource("image/png", vec![1; 5000]).fresh()),
        ("/bg.png", resource("image/png", vec![2; 500]).fresh()),
    ])
    .await
}

async fn revisit(
    agent: &mut Agent,
    url: &str,
    last: &Load,
    fields: &[(&str, &str)],
    is_enough: impl Fn(&Load) -> bool,
) -> Load {
    let mut fetch = fetch_of(agent.id(), Method::Get, url, fields);
    fetch.manifest = Some(last.manifest_id());
    let mut reader = LoadReader::begin(agent, fetch, &last.manifest_bytes).await;
    reader.until(is_enough).await;
    reader.load
}

#[tokio::test]
async fn the_objects_of_a_304_page_are_still_pushed() {
    for page in [
        // Confirmed by the origin, and by the gateway.
        resource("text/html", PAGE).with("etag", "\"1\""),
        resource("text/html", PAGE).with("etag", "\"1\"").fresh(),
    ] {
        let gateway = Gateway::start().await;
        let device = gateway.admit("laptop");
        let mut agent = Agent::connect_with(&gateway, &device, 77).await;
        let site = validated_site(page).await;
        let url = site.url("a", "/");
        let mut last = LoadReader::whole(&mut agent, &url, &[]).await;
        site.set(
            "/",
            Resource {
                status: 304,
                fields: vec![("etag", "\"1\"".to_owned())],
                ..Resource::default()
            },
        );
        agent.say(Message::Used(Used::new(last.page, 16, |_| true))).await;
        // Until the deliveries are acknowledged and the manifest is stored.
        let names = ["/main.css", "/1.png", "/bg.png"];
        loop {
            let condition = [("if-none-match", "\"1\"")];
            let load = revisit(&mut agent, &url, &last, &condition, Load::is_complete).await;
            let head = load.head.as_ref().unwrap();
            assert_eq!((head.status, head.body), (304, BodyPlace::None));
            assert!(load.manifest_stream < load.head_stream);
            let mut urls = load.urls();
            urls.sort();
            assert_eq!(urls, ["/1.png", "/bg.png", "/main.css"]);
            let is_before = |path: &&str| load.head_of(path).body == EntryBody::AsBefore;
            if names.iter().all(is_before) {
                assert!(load.pushes.is_empty());
                break;
            }
            last = load;
        }
    }
}

#[tokio::test]
async fn a_304_for_a_page_unknown_to_the_gateway_plans_nothing() {
    let (_gateway, mut agent) = setup().await;
    let site = validated_site(resource("text/html", PAGE).with("etag", "\"1\"")).await;
    let url = site.url("a", "/");
    LoadReader::whole(&mut agent, &url, &[("cookie", "user=1")]).await;
    for (cookie, tag) in [
        // Another version, and another person.
        ("user=1", "\"2\""),
        ("user=2", "\"1\""),
    ] {
        // Bypasses the store's own validation, which would use the stored version of this person.
        let fields = [
            ("cookie", cookie),
            ("if-none-match", tag),
            ("cache-control", "no-cache"),
        ];
        site.set(
            "/",
            Resource {
                status: 304,
                fields: vec![("etag", tag.to_owned())],
                ..Resource::default()
            },
        );
        let fetch = fetch_of(agent.id(), Method::Get, &url, &fields);
        let mut reader = LoadReader::begin(&agent, fetch, &[]).await;
        reader.until(|load| load.body_end == StreamEnd::Complete).await;
        assert_eq!(reader.load.head.as_ref().unwrap().status, 304);
        assert!(reader.load.manifest.is_none(), "{fields:?}");
    }
}

#[tokio::test]
async fn a_requested_body_missing_in_the_cache_is_fetched_again() {
    let (_gateway, mut agent) = setup().await;
    // Never stored, so the cache never has it.
    let image = |byte| resource("image/png", vec![byte; 10_000]).with("cache-control", "no-store");
    let site = Site::start([
        ("/", resource("text/html", "<img src=/1.png>")),
        ("/1.png", image(7)),
    ])
    .await;
    let fetch = fetch_of(agent.id(), Method::Get, &site.url("a", "/"), &[]);
    let page = PageId::of(fetch.id);
    let mut reader = LoadReader::begin(&agent, fetch, &[]).await;
    reader.until(Load::is_complete).await;
    agent
        .say(Message::Want(Want {
            page,
            entry: EntryId::FIRST,
        }))
        .await;
    reader
        .until(|load| {
            load.pushes[&EntryId::FIRST].times == 2 && load.pushes[&EntryId::FIRST].end == StreamEnd::Complete
        })
        .await;
    assert_eq!(reader.load.body_of("/1.png"), vec![7; 10_000]);
    assert_eq!(site.requests("/1.png").len(), 2);

    // A different body is not pushed, because the manifest contains the hash of the first one. The session
    // continues.
    site.set("/1.png", image(8));
    agent
        .say(Message::Want(Want {
            page,
            entry: EntryId::FIRST,
        }))
        .await;
    site.requested("/1.png", 3).await;
    agent
        .say(Message::Want(Want {
            page,
            entry: EntryId::FIRST,
        }))
        .await;
    let next = LoadReader::whole(&mut agent, &site.url("a", "/"), &[]).await;
    assert_eq!(next.body_of("/1.png"), vec![8; 10_000]);
    assert_eq!(reader.load.pushes[&EntryId::FIRST].times, 2);
}
