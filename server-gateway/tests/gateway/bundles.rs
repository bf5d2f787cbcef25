//! Page bundles: the objects of a page are announced before the page and pushed after it.
mod site;

use longhaul_session::{
    Ask, Cancel, EntryBody, EntryId, FetchId, Message, Method, PageId, Scope, ShortHash, Used, Want,
    Withdrawal,
};
use longhaul_types::ContentHash;

use self::site::hash16;
pub(crate) use self::site::{Gate, Resource, Site, redirect, resource};
use crate::{
    agent::{Agent, fetch_of},
    bundles_load::{Load, LoadReader, StreamEnd},
    gateway::Gateway,
    origin::text,
};

pub(crate) async fn setup() -> (Gateway, Agent) {
    let gateway = Gateway::start().await;
    let agent = Agent::connect(&gateway).await;
    (gateway, agent)
}

fn rich_page() -> Vec<(&'static str, Resource)> {
    vec![
        (
            "/",
            resource(
                "text/html; charset=utf-8",
                "<!doctype html><title>x</title><link rel=stylesheet href=main.css><script src=/app.js></script>\
                 <body><p><img src=a.png><img src=/deep/b.png?x=1&amp;y=2><iframe src=frame.html></iframe>",
            ),
        ),
        (
            "/main.css",
            resource(
                "text/css",
                "@import url(more.css);@font-face{font-family:F;src:url(f.woff2)}body{font-family:F;background:url(bg.png)}",
            )
            .fresh(),
        ),
        ("/more.css", resource("text/css", "p{background:url(/deep/p.png)}").fresh()),
        ("/app.js", resource("text/javascript", text(30_000)).fresh()),
        ("/a.png", resource("image/png", vec![1; 5000]).fresh()),
        ("/deep/b.png?x=1&y=2", resource("image/png", vec![2; 90_000]).fresh()),
        ("/bg.png", resource("image/png", vec![3; 100]).fresh()),
        ("/deep/p.png", resource("image/png", vec![4; 100]).fresh()),
        ("/f.woff2", resource("font/woff2", vec![5; 2000]).fresh()),
        ("/frame.html", resource("text/html", "<img src=/deep/in-frame.png>")),
        ("/deep/in-frame.png", resource("image/png", vec![6; 100]).fresh()),
    ]
}

#[tokio::test]
async fn a_page_load_pushes_all_its_objects() {
    let (_gateway, mut agent) = setup().await;
    let site = Site::start(rich_page()).await;
    let load = LoadReader::whole(&mut agent, &site.url("a", "/"), &[("user-agent", "test")]).await;
    assert_eq!(load.body_end, StreamEnd::Complete);
    assert_eq!(load.manifest_end, StreamEnd::Complete);
    assert!(load.is_planned());
    assert!(load.manifest.unwrap().base.is_none());
    let mut urls = load.urls();
    urls.sort();
    let mut expected: Vec<String> = rich_page().into_iter().map(|(path, _)| path.to_owned()).collect();
    expected.retain(|path| path != "/");
    expected.sort();
    assert_eq!(urls, expected);
    for (path, resource) in rich_page().into_iter().skip(1) {
        assert_eq!(load.body_of(path), resource.body, "{path}");
        let head = load.head_of(path);
        assert_eq!(head.status, 200);
        let media = head
            .fields
            .iter()
            .find(|(name, _)| name == "content-type")
            .unwrap();
        assert_eq!(media.1, resource.fields[0].1.as_bytes());
        let expected = if path == "/frame.html" {
            Scope::ThisPage
        } else {
            Scope::Reusable
        };
        assert_eq!(head.scope, expected, "{path}");
        assert_eq!(site.requests(path).len(), 1, "{path}");
    }
    // The head does not wait for the manifest.
    assert!(load.head_stream < load.manifest_stream);
    let referer = |path: &str| site.requests(path)[0]["referer"].to_str().unwrap().to_owned();
    assert_eq!(referer("/a.png"), site.url("a", "/"));
    assert_eq!(referer("/more.css"), site.url("a", "/main.css"));
    assert_eq!(referer("/deep/in-frame.png"), site.url("a", "/frame.html"));
    assert_eq!(site.requests("/a.png")[0]["user-agent"], "test");
}

#[tokio::test]
async fn a_page_without_subresources_has_no_manifest() {
    let (_gateway, mut agent) = setup().await;
    let site = Site::start([("/", resource("text/html", "<p>text</p>"))]).await;
    let fetch = fetch_of(agent.id(), Method::Get, &site.url("a", "/"), &[]);
    let mut reader = LoadReader::begin(&agent, fetch, &[]).await;
    reader.until(|load| load.body_end == StreamEnd::Complete).await;
    // A manifest would have arrived before the next response.
    let next = agent.get(&site.url("a", "/"), &[]).await;
    assert_eq!(next.body, b"<p>text</p>");
    assert!(reader.load.manifest.is_none());
}

#[tokio::test]
async fn entries_are_sent_before_the_html_that_refers_to_them() {
    let (_gateway, agent) = setup().await;
    // The page never ends.
    let port = crate::origin::serve_tcp(|mut connection| async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut request = [0; 4096];
        let count = connection.read(&mut request).await.unwrap();
        if request[..count].starts_with(b"GET / ") {
            let head =
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 1000\r\n\r\n<img src=/1.png>";
            connection.write_all(head).await.unwrap();
            // Until the gateway closes the connection.
            let _closed = connection.read_exact(&mut request).await;
        } else {
            let image = b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 3\r\n\r\nabc";
            connection.write_all(image).await.unwrap();
        }
    })
    .await;
    let fetch = fetch_of(
        FetchId::FIRST,
        Method::Get,
        &format!("http://a.test:{port}/"),
        &[],
    );
    let mut reader = LoadReader::begin(&agent, fetch, &[]).await;
    reader.until(|load| !load.body.is_empty()).await;
    assert_eq!(reader.load.urls(), ["/1.png"], "announced before the bytes");
    reader
        .until(|load| {
            let push = load.pushes.get(&EntryId::FIRST);
            push.is_some_and(|push| push.end == StreamEnd::Complete)
        })
        .await;
    assert_eq!(reader.load.body_of("/1.png"), b"abc");
    assert!(!reader.load.is_planned());
}

#[tokio::test]
async fn equal_bodies_are_sent_once() {
    let (_gateway, mut agent) = setup().await;
    let image = resource("image/png", vec![9; 4000]).fresh();
    let site = Site::start([
        (
            "/",
            resource("text/html", "<img src=1.png><img src=2.png><img src=3.png>"),
        ),
        ("/1.png", image.clone()),
        ("/2.png", image.clone()),
        ("/3.png", image),
    ])
    .await;
    let load = LoadReader::whole(&mut agent, &site.url("a", "/"), &[]).await;
    assert_eq!(load.pushes.len(), 1, "{:?}", load.records);
    let aliases = EntryId::all()
        .take(3)
        .filter(|entry| matches!(load.find_head(*entry).unwrap().body, EntryBody::SameAs { .. }));
    assert_eq!(aliases.count(), 2);
}

#[tokio::test]
async fn held_bodies_are_not_pushed() {
    let gateway = Gateway::start().await;
    let device = gateway.admit("laptop");
    let mut agent = Agent::connect_with(&gateway, &device, 77).await;
    let site = Site::start(rich_page()).await;
    let url = site.url("a", "/");
    let first = LoadReader::whole(&mut agent, &url, &[]).await;
    agent
        .say(Message::Used(Used::new(first.page, 20, |_| true)))
        .await;

    // The mirror records a delivery once it is acknowledged, and the manifest is stored once its bodies are
    // sent: load the page until both have happened.
    let first_wire = first.manifest_wire;
    let mut last = first;
    let second = loop {
        let mut fetch = fetch_of(agent.id(), Method::Get, &url, &[]);
        fetch.manifest = Some(last.manifest_id());
        let mut reader = LoadReader::begin(&agent, fetch, &last.manifest_bytes).await;
        reader.until(Load::is_complete).await;
        let is_before = |path| reader.load.head_of(path).body == EntryBody::AsBefore;
        if reader.load.pushes.is_empty()
            && ["/main.css", "/app.js", "/deep/b.png?x=1&y=2"]
                .into_iter()
                .all(is_before)
        {
            assert_eq!(reader.load.manifest.unwrap().base, Some(last.manifest_id()));
            break reader.load;
        }
        last = reader.load;
    };
    assert!(
        second.manifest_wire * 2 < first_wire,
        "{} against {}",
        second.manifest_wire,
        first_wire
    );

    // In the next session the agent does not name the manifest, so the head contains the hash.
    drop(agent);
    let mut agent = Agent::connect_with(&gateway, &device, 77).await;
    assert_eq!(agent.mirror, longhaul_session::MirrorState::Agreed);
    let third = LoadReader::whole(&mut agent, &url, &[]).await;
    assert!(third.pushes.is_empty(), "{:?}", third.records);
    let hash = hash16(&rich_page()[3].1.body);
    assert_eq!(third.head_of("/app.js").body, EntryBody::Held { hash });

    // With another cache state nothing is held, except what the agent lists.
    drop(agent);
    let mut agent = Agent::connect_with(&gateway, &device, 78).await;
    assert_eq!(agent.mirror, longhaul_session::MirrorState::Unknown);
    let mut fetch = fetch_of(agent.id(), Method::Get, &url, &[]);
    fetch.holding = vec![ShortHash::of(&ContentHash::of(&rich_page()[3].1.body))];
    let mut reader = LoadReader::begin(&agent, fetch, &[]).await;
    reader.until(Load::is_complete).await;
    assert_eq!(reader.load.head_of("/app.js").body, EntryBody::Held { hash });
    assert!(matches!(
        reader.load.head_of("/main.css").body,
        EntryBody::Pushed { .. }
    ));
}

#[tokio::test]
async fn a_page_with_thousands_of_images_is_bounded() {
    let (_gateway, mut agent) = setup().await;
    let page: String = (0..3000).map(|n| format!("<img src=/{n}.gif>")).collect();
    let site = Site::start([("/", resource("text/html", page))]).await;
    for n in 0..3000 {
        site.set(
            &format!("/{n}.gif"),
            resource("image/gif", format!("image {n}")).fresh(),
        );
    }
    let load = LoadReader::whole(&mut agent, &site.url("a", "/"), &[]).await;
    assert_eq!(load.entries().len(), 1000);
    assert_eq!(load.pushes.len(), 1000);
    assert_eq!(load.body_of("/999.gif"), b"image 999");
}

#[tokio::test]
async fn a_cancelled_page_load_sends_nothing_more() {
    let (_gateway, mut agent) = setup().await;
    let gate = Gate::default();
    let site = Site::start([
        ("/", resource("text/html", "<img src=1.png><img src=2.png>")),
        ("/1.png", resource("image/png", vec![1; 1_000_000])),
        (
            "/2.png",
            Resource {
                gate: Some(gate.clone()),
                ..resource("image/png", "two")
            },
        ),
    ])
    .await;
    let fetch = fetch_of(agent.id(), Method::Get, &site.url("a", "/"), &[]);
    let page = PageId::of(fetch.id);
    let mut reader = LoadReader::begin(&agent, fetch, &[]).await;
    reader
        .until(|load| load.body_end == StreamEnd::Complete && !load.records.is_empty())
        .await;
    agent.say(Message::Cancel(Cancel { fetch: page.fetch() })).await;
    reader.until(|load| load.manifest_end == StreamEnd::Broken).await;
    gate.open();
    // Control messages are processed in order, so this fetch finds the page load cancelled.
    let mut fetch = fetch_of(agent.id(), Method::Get, &site.url("a", "/3.png"), &[]);
    fetch.page = Some(page);
    fetch.kind = longhaul_session::FetchKind::Object;
    agent.send(Message::Fetch(fetch)).await;
    reader.until(|load| !load.answers.is_empty()).await;
    assert!(reader.load.find_head(EntryId::new(1)).is_none());
}

#[tokio::test]
async fn large_bodies_are_pushed_only_on_request() {
    let (_gateway, mut agent) = setup().await;
    let site = Site::start([
        ("/", resource("text/html", "<img src=big.png><img src=small.png>")),
        ("/big.png", resource("image/png", vec![1; 9 * 1024 * 1024])),
        ("/small.png", resource("image/png", "small")),
    ])
    .await;
    let load = LoadReader::whole(&mut agent, &site.url("a", "/"), &[]).await;
    assert_eq!(load.withdrawal(EntryId::FIRST), Some(Withdrawal::TooLarge));
    assert_eq!(load.body_of("/small.png"), b"small");
}

#[tokio::test]
async fn requested_objects_are_fetched_first() {
    let (_gateway, mut agent) = setup().await;
    let gate = Gate::default();
    let page: String = (0..60).map(|n| format!("<img src=/{n}.png>")).collect();
    let site = Site::start([("/", resource("text/html", page))]).await;
    for n in 0..60 {
        site.set(
            &format!("/{n}.png"),
            Resource {
                gate: (![0, 59].contains(&n)).then(|| gate.clone()),
                ..resource("image/png", format!("image {n}")).fresh()
            },
        );
    }
    let fetch = fetch_of(agent.id(), Method::Get, &site.url("a", "/"), &[]);
    let page = PageId::of(fetch.id);
    let mut reader = LoadReader::begin(&agent, fetch, &[]).await;
    reader
        .until(|load| {
            let first = load.pushes.get(&EntryId::FIRST);
            let is_here = first.is_some_and(|push| push.end == StreamEnd::Complete);
            load.entries().len() == 60 && load.body_end == StreamEnd::Complete && is_here
        })
        .await;
    agent
        .say(Message::Ask(Ask {
            page,
            entries: vec![EntryId::new(59)],
        }))
        .await;
    // Control messages are processed in order: the response to this one shows that the previous one was
    // processed.
    agent
        .say(Message::Want(Want {
            page,
            entry: EntryId::FIRST,
        }))
        .await;
    reader.until(|load| load.pushes[&EntryId::FIRST].times == 2).await;
    gate.open();
    reader.until(Load::is_complete).await;
    let order: Vec<String> = site.seen.lock().iter().map(|(path, _)| path.clone()).collect();
    let place = order.iter().position(|path| path == "/59.png").unwrap();
    assert!(place < 58, "requested by the agent, but pushed at place {place}");
    assert_eq!(reader.load.body_of("/59.png"), b"image 59");
}
