//! Page bundles: what stands in a page, and browsers do not load.
use longhaul_session::{EntryId, Message, Method, Used, Withdrawal};

use crate::{
    agent::{Agent, fetch_of},
    bundles::{Gate, Resource, Site, resource},
    bundles_correctness::object,
    bundles_learned::{PLAIN, sorted, teach, until_planned, visit},
    bundles_load::{Load, LoadReader, StreamEnd},
    gateway::Gateway,
};

/// A script removes `unused.png` before the browser loads it.
const PAGE: &str = "<script src=/app.js></script><img src=/used.png><img src=/unused.png>";

async fn site() -> Site {
    Site::start([
        ("/", resource("text/html", PAGE)),
        (
            "/app.js",
            resource("text/javascript", "load('/data.json', '/more.json')").fresh(),
        ),
        ("/used.png", resource("image/png", "used").fresh()),
        ("/unused.png", resource("image/png", "unused").fresh()),
        ("/data.json", resource("application/json", "{}")),
        ("/more.json", resource("application/json", "[]")),
    ])
    .await
}

/// Visits the page, without use of one object, until this object is no longer planned on the device.
async fn ignore(agent: &mut Agent, site: &Site, path: &str) {
    for _ in 0..1000 {
        let load = LoadReader::whole(agent, &site.url("a", "/"), PLAIN).await;
        if !load.urls().contains(&path.to_owned()) {
            return;
        }
        let unwanted = load.entry(path);
        let used = Used::new(load.page, 16, |entry: EntryId| entry != unwanted);
        agent.say(Message::Used(used)).await;
    }
    panic!("{path} stays planned");
}

#[tokio::test]
async fn what_two_devices_do_not_use_is_not_planned_until_a_browser_asks_for_it() {
    let gateway = Gateway::start().await;
    let mut agents = Vec::new();
    for _ in 0..4 {
        agents.push(Agent::connect(&gateway).await);
    }
    let [first, second, third, fourth] = agents.as_mut_slice() else {
        unreachable!("there are four");
    };
    let site = site().await;
    ignore(first, &site, "/unused.png").await;
    // Visits are learned in order: once a later one of the device is learned, the previous ones are as well.
    let load = teach(
        first,
        fourth,
        &site,
        (PLAIN, &[("/data.json", PLAIN)]),
        "/data.json",
    )
    .await;
    assert!(
        load.urls().contains(&"/unused.png".to_owned()),
        "one device is not enough"
    );
    ignore(second, &site, "/unused.png").await;
    let load = teach(
        second,
        third,
        &site,
        (PLAIN, &[("/more.json", PLAIN)]),
        "/more.json",
    )
    .await;
    assert_eq!(
        sorted(&load),
        ["/app.js", "/data.json", "/more.json", "/used.png"]
    );

    // The browser of the third device loads the image: it is planned on a fourth one again.
    visit(third, &site, PLAIN, &[("/unused.png", PLAIN)]).await;
    let load = until_planned(fourth, &site, "/unused.png", PLAIN).await;
    assert_eq!(load.body_of("/unused.png"), b"unused");
}

/// The style sheet of the page shows some backgrounds only once a script has changed the classes of their elements.
const BACKGROUNDS: &str =
    "<link rel=stylesheet href=/x.css><img class=lazy style='background: url(/lazy.png)'>
    <img class=plain style='background: url(/plain.png)'>";

async fn site_of_backgrounds(gate: Option<Gate>) -> Site {
    let sheet = resource("text/css", ".js .lazy { background: 0 0 !important }").fresh();
    Site::start([
        ("/", resource("text/html", BACKGROUNDS).fresh()),
        ("/x.css", Resource { gate, ..sheet }),
        ("/lazy.png", resource("image/png", "lazy").fresh()),
        ("/plain.png", resource("image/png", "plain").fresh()),
    ])
    .await
}

#[tokio::test]
async fn backgrounds_of_attributes_wait_for_the_style_sheets_that_override_them() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let gate = Gate::default();
    let site = site_of_backgrounds(Some(gate.clone())).await;
    let page = site.url("a", "/");
    let fetch = fetch_of(agent.id(), Method::Get, &page, PLAIN);
    let mut reader = LoadReader::begin(&agent, fetch, &[]).await;
    let has_heads = |load: &Load| {
        let images = ["/lazy.png", "/plain.png"];
        let urls = load.urls();
        let mut images = images
            .iter()
            .filter_map(|image| urls.iter().position(|url| url == image));
        images.all(|image| load.find_head(EntryId::at(image).unwrap()).is_some()) && urls.len() == 3
    };
    reader.until(has_heads).await;
    assert!(
        reader.load.pushes.is_empty(),
        "the images are here, and the style sheet is not"
    );
    gate.open();
    reader
        .until(|load| {
            let is_pushed = |url| {
                let push = load.pushes.get(&load.entry(url));
                push.is_some_and(|push| push.end == StreamEnd::Complete)
            };
            load.manifest_end == StreamEnd::Complete && is_pushed("/plain.png") && is_pushed("/x.css")
        })
        .await;
    let load = reader.load;
    let overridden = load.entry("/lazy.png");
    assert_eq!(load.withdrawal(overridden), Some(Withdrawal::Cancelled));
    assert!(!load.pushes.contains_key(&overridden));

    // A request for it is learned.
    let fields = [PLAIN, &[("referer", page.as_str())]].concat();
    let asked = object(&mut agent, load.page, &site.url("a", "/lazy.png"), &fields);
    agent.send(Message::Fetch(asked)).await;
    assert_eq!(agent.answer().await.response(&agent.session).await.status, 200);
    agent.say(Message::Used(Used::new(load.page, 16, |_| true))).await;
    for _ in 0..1000 {
        let fetch = fetch_of(agent.id(), Method::Get, &page, PLAIN);
        let mut reader = LoadReader::begin(&agent, fetch, &[]).await;
        reader
            .until(|load| load.manifest_end == StreamEnd::Complete)
            .await;
        if reader.load.withdrawal(reader.load.entry("/lazy.png")).is_none() {
            return;
        }
    }
    panic!("the request was not learned");
}
