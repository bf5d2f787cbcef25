//! Page bundles: a pushed response answers only the request that was predicted.
use longhaul_session::{
    Delivery, EntryBody, EntryId, Fetch, FetchId, FetchKind, Message, Method, PageId, Promised, Scope, Used,
    Want, Withdrawal,
};

use crate::{
    agent::{Agent, fetch_of},
    bundles::{Resource, Site, redirect, resource, setup},
    bundles_load::{Load, LoadReader, StreamEnd},
};

pub(crate) fn object(agent: &mut Agent, page: PageId, url: &str, fields: &[(&str, &str)]) -> Fetch {
    Fetch {
        page: Some(page),
        kind: FetchKind::Object,
        ..fetch_of(agent.id(), Method::Get, url, fields)
    }
}

#[tokio::test]
async fn a_redirected_page_is_pushed_after_the_redirect() {
    let (_gateway, mut agent) = setup().await;
    let site = Site::start([
        ("/", redirect(301, "/second").with("set-cookie", "s=1; Path=/")),
        ("/second", redirect(302, "/page")),
        ("/page", resource("text/html", "<img src=/1.png>")),
        ("/1.png", resource("image/png", "one").fresh()),
    ])
    .await;
    let load = LoadReader::whole(
        &mut agent,
        &site.url("a", "/"),
        &[("user-agent", "test"), ("cookie", "a=1")],
    )
    .await;
    assert_eq!(load.head.as_ref().unwrap().status, 301);
    assert_eq!(load.urls(), ["/second", "/page", "/1.png"]);
    assert_eq!(load.entries()[0].destination, 0, "a document");
    assert_eq!(load.head_of("/second").status, 302);
    assert_eq!(load.head_of("/second").body, EntryBody::None);
    assert_eq!(load.body_of("/page"), b"<img src=/1.png>");
    assert_eq!(load.body_of("/1.png"), b"one");
    assert!(load.manifest_stream < load.head_stream);
    let page = &site.requests("/page")[0];
    assert_eq!(page["cookie"], "a=1; s=1");
    assert_eq!(page["user-agent"], "test");
    let image = &site.requests("/1.png")[0];
    assert_eq!(image["referer"].to_str().unwrap(), site.url("a", "/page"));
    assert_eq!(image["cookie"], "a=1; s=1");
}

#[tokio::test]
async fn the_target_of_a_redirected_object_is_pushed() {
    let (_gateway, mut agent) = setup().await;
    let site = Site::start([
        (
            "/",
            resource("text/html", "<img src=/old.png><img src=/loop.png>"),
        ),
        ("/old.png", redirect(302, "/new.png")),
        ("/new.png", resource("image/png", "new").fresh()),
        ("/loop.png", redirect(302, "/loop.png")),
    ])
    .await;
    let load = LoadReader::whole(&mut agent, &site.url("a", "/"), &[]).await;
    assert_eq!(load.urls(), ["/old.png", "/loop.png", "/new.png"]);
    assert_eq!(load.body_of("/new.png"), b"new");
    assert_eq!(load.head_of("/old.png").status, 302);
}

#[tokio::test]
async fn cookies_set_by_the_page_are_sent_with_its_objects() {
    let (_gateway, mut agent) = setup().await;
    let page = resource("text/html", "<img src=/1.png><img src=/2.png>").with("set-cookie", "b=2; Path=/");
    let site = Site::start([
        ("/", page),
        (
            "/1.png",
            resource("image/png", "one").fresh().with("vary", "cookie"),
        ),
        (
            "/2.png",
            resource("image/png", "two")
                .with("cache-control", "no-store")
                .with("set-cookie", "c=3"),
        ),
    ])
    .await;
    let other = site.url("other", "/3.png");
    site.set("/", {
        let body = format!("<img src=/1.png><img src=/2.png><img src={other}>");
        resource("text/html", body).with("set-cookie", "b=2; Path=/")
    });
    site.set("/3.png", resource("image/png", "three").fresh());
    let url = site.url("a", "/");
    let load = LoadReader::whole(&mut agent, &url, &[("cookie", "a=1")]).await;
    assert_eq!(site.requests("/1.png")[0]["cookie"], "a=1; b=2");
    assert!(
        site.requests("/3.png")[0].get("cookie").is_none(),
        "cookies of one site are not sent to another"
    );
    let varying = load.head_of("/1.png");
    assert_eq!(varying.scope, Scope::Reusable);
    assert!(varying.vary.is_some());
    let setting = load.head_of("/2.png");
    assert_eq!(setting.scope, Scope::ThisPage);
    assert!(setting.cookie.is_some());
    assert!(load.find_head(EntryId::new(2)).unwrap().cookie.is_none());

    // The browser's request, as predicted and different.
    let fetch = fetch_of(agent.id(), Method::Get, &url, &[("cookie", "a=1")]);
    let mut reader = LoadReader::begin(&agent, fetch, &[]).await;
    reader.until(Load::is_complete).await;
    let page = reader.load.page;
    let as_foreseen = object(
        &mut agent,
        page,
        &site.url("a", "/1.png"),
        &[("cookie", "a=1; b=2")],
    );
    let otherwise = object(&mut agent, page, &site.url("a", "/1.png"), &[("cookie", "a=1")]);
    let own = Fetch {
        delivery: Delivery::Own,
        ..object(
            &mut agent,
            page,
            &site.url("a", "/1.png"),
            &[("cookie", "a=1; b=2")],
        )
    };
    let setting = object(
        &mut agent,
        page,
        &site.url("a", "/2.png"),
        &[("cookie", "a=1; b=2")],
    );
    let setting_again = object(
        &mut agent,
        page,
        &site.url("a", "/2.png"),
        &[("cookie", "a=1; b=2")],
    );
    let ids = [as_foreseen.id, otherwise.id, own.id, setting.id, setting_again.id];
    for (fetch, index) in [as_foreseen, otherwise, own, setting, setting_again]
        .into_iter()
        .zip(1..)
    {
        agent.send(Message::Fetch(fetch)).await;
        reader
            .until(|load| load.promised.len() + load.answers.len() == index)
            .await;
    }
    let promised = |index: usize, entry| Promised {
        fetch: ids[index],
        page,
        entry: EntryId::new(entry),
    };
    assert_eq!(reader.load.promised, [promised(0, 0), promised(3, 1)]);
    let answered: Vec<FetchId> = reader.load.answers.iter().map(|head| head.fetch).collect();
    assert_eq!(answered, [ids[1], ids[2], ids[4]]);
}

#[tokio::test]
async fn errors_and_private_responses_are_pushed_correctly() {
    let (_gateway, mut agent) = setup().await;
    let body = "<img src=/404.png><img src=/500.png><img src=/ntlm.png><img src=/any.png><img src=http://no-such.invalid/x>";
    let site = Site::start([
        ("/", resource("text/html", body)),
        (
            "/500.png",
            Resource {
                status: 500,
                ..resource("text/plain", "broken")
            },
        ),
        (
            "/ntlm.png",
            Resource {
                status: 401,
                ..resource("text/plain", "who?")
            }
            .with("www-authenticate", "NTLM"),
        ),
        ("/any.png", resource("image/png", "any").with("vary", "*")),
    ])
    .await;
    let load = LoadReader::whole(&mut agent, &site.url("a", "/"), &[]).await;
    assert_eq!(load.head_of("/404.png").status, 404);
    assert_eq!(load.head_of("/404.png").scope, Scope::ThisPage);
    assert_eq!(load.body_of("/404.png"), b"nothing here");
    assert_eq!(load.head_of("/500.png").status, 500);
    assert_eq!(load.body_of("/500.png"), b"broken");
    assert_eq!(
        load.withdrawal(load.entry("/ntlm.png")),
        Some(Withdrawal::Private)
    );
    assert_eq!(load.withdrawal(load.entry("/any.png")), Some(Withdrawal::Private));
    assert!(load.is_failed(load.entry("http://no-such.invalid/x")));
}

#[tokio::test]
async fn a_requested_body_is_pushed_again() {
    let (_gateway, mut agent) = setup().await;
    let site = Site::start([
        ("/", resource("text/html", "<img src=/1.png>")),
        ("/1.png", resource("image/png", vec![7; 10_000]).fresh()),
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
    assert_eq!(site.requests("/1.png").len(), 1);
}

#[tokio::test]
async fn requests_of_the_browser_improve_predicted_fields() {
    let (_gateway, mut agent) = setup().await;
    let site = Site::start([
        ("/", resource("text/html", "<img src=/1.png>")),
        ("/1.png", resource("image/png", "one")),
        ("/next", resource("text/html", "<img src=/2.png>")),
        (
            "/2.png",
            resource("image/png", "two").with("vary", "accept").fresh(),
        ),
    ])
    .await;
    let load = LoadReader::whole(&mut agent, &site.url("a", "/"), &[]).await;
    let fields = [("accept", "image/odd"), ("user-agent", "odd/1")];
    let asked = object(&mut agent, load.page, &site.url("a", "/1.png"), &fields);
    let id = asked.id;
    agent.send(Message::Fetch(asked)).await;
    let answer = agent.answer().await;
    assert!(matches!(answer.message, Message::Promised(promised) if promised.fetch == id));
    site.clear();
    let load = LoadReader::whole(&mut agent, &site.url("a", "/next"), &[]).await;
    assert_eq!(site.requests("/2.png")[0]["accept"], "image/odd");
    let asked = object(&mut agent, load.page, &site.url("a", "/2.png"), &fields);
    agent.send(Message::Fetch(asked)).await;
    assert!(matches!(agent.answer().await.message, Message::Promised(_)));
}

#[tokio::test]
async fn objects_loaded_by_scripts_are_planned_at_the_next_visit() {
    let (_gateway, mut agent) = setup().await;
    let site = Site::start([
        (
            "/",
            resource("text/html", "<script src=/app.js></script><img src=/unused.png>"),
        ),
        (
            "/app.js",
            resource("text/javascript", "load('/data.json')").fresh(),
        ),
        ("/data.json", resource("application/json", "{}")),
        ("/unused.png", resource("image/png", "unused")),
    ])
    .await;
    let url = site.url("a", "/");
    let load = LoadReader::whole(&mut agent, &url, &[]).await;
    let asked = object(
        &mut agent,
        load.page,
        &site.url("a", "/data.json"),
        &[("accept", "*/*"), ("referer", &url)],
    );
    agent.send(Message::Fetch(asked)).await;
    let response = agent.answer().await.response(&agent.session).await;
    assert_eq!(response.body, b"{}");
    agent
        .say(Message::Used(Used::new(load.page, 2, |entry| {
            entry == EntryId::FIRST
        })))
        .await;
    // The page load ends with `Used`, and its result is stored before the next control message is read.
    agent
        .say(Message::Want(Want {
            page: PageId::of(FetchId::new(0)),
            entry: EntryId::FIRST,
        }))
        .await;
    let mut reader;
    loop {
        let fetch = fetch_of(agent.id(), Method::Get, &url, &[]);
        reader = LoadReader::begin(&agent, fetch, &[]).await;
        reader.until(Load::is_complete).await;
        if reader.load.urls().contains(&"/data.json".to_owned()) {
            break;
        }
    }
    let mut urls = reader.load.urls();
    urls.sort();
    assert_eq!(
        urls,
        ["/app.js", "/data.json"],
        "an unused object is not planned again"
    );
    assert_eq!(reader.load.body_of("/data.json"), b"{}");
}

#[tokio::test]
async fn other_schemes_are_not_planned() {
    let (_gateway, mut agent) = setup().await;
    let site = Site::start([
        (
            "/",
            resource("text/html", "<img src=https://a.test/1.png><img src=/2.png>"),
        ),
        ("/2.png", resource("image/png", "two")),
        ("/moved", redirect(301, "https://a.test/")),
    ])
    .await;
    let load = LoadReader::whole(&mut agent, &site.url("a", "/"), &[]).await;
    assert_eq!(load.urls(), ["/2.png"]);
    let moved = agent.get(&site.url("a", "/moved"), &[]).await;
    assert_eq!(moved.status, 301);
}

#[tokio::test]
async fn a_redirected_page_is_scanned_while_it_arrives() {
    let (_gateway, mut agent) = setup().await;
    // The second page never ends.
    let port = crate::origin::serve_tcp(|mut connection| async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut request = [0; 4096];
        let count = connection.read(&mut request).await.unwrap();
        if request[..count].starts_with(b"GET / ") {
            let moved = b"HTTP/1.1 302 Found\r\nlocation: /page\r\ncontent-length: 0\r\n\r\n";
            connection.write_all(moved).await.unwrap();
        } else if request[..count].starts_with(b"GET /page ") {
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
    let fetch = fetch_of(agent.id(), Method::Get, &format!("http://a.test:{port}/"), &[]);
    let mut reader = LoadReader::begin(&agent, fetch, &[]).await;
    let page = |load: &Load| load.pushes.get(&EntryId::FIRST).map_or(0, |push| push.body.len());
    let image = |load: &Load| load.pushes.get(&EntryId::new(1)).map(|push| push.end);
    reader
        .until(|load| page(load) > 0 && image(load) == Some(StreamEnd::Complete))
        .await;
    assert_eq!(reader.load.urls(), ["/page", "/1.png"]);
    assert_eq!(reader.load.pushes[&EntryId::FIRST].body, b"<img src=/1.png>");
    assert_eq!(reader.load.body_of("/1.png"), b"abc");
}
