//! Page bundles: objects learned from one device's visits are planned on other devices, unless they are
//! personal.
use longhaul_session::{EntryId, FetchId, Message, Method, PageId, Used, Want};

use crate::{
    agent::{Agent, fetch_of},
    bundles::{Gate, Resource, Site, redirect, resource},
    bundles_correctness::object,
    bundles_load::{Load, LoadReader, StreamEnd},
    gateway::Gateway,
};

pub(crate) const PLAIN: &[(&str, &str)] = &[("user-agent", "test"), ("accept", "*/*")];
const COOKIE: &[(&str, &str)] = &[("user-agent", "test"), ("cookie", "user=1")];

/// A site whose page refers only to a script.
async fn site(page: Resource) -> Site {
    let site = Site::start([
        ("/", page),
        (
            "/app.js",
            resource("text/javascript", "load('/data.json')").fresh(),
        ),
        ("/data.json", resource("application/json", "{}")),
        ("/more.json", resource("application/json", "[]")),
        ("/last.json", resource("application/json", "[]")),
        ("/mine.json", resource("application/json", "{\"me\":1}")),
    ])
    .await;
    site.set(
        "/private.json",
        resource("application/json", "1").with("cache-control", "private"),
    );
    site.set(
        "/setting.json",
        resource("application/json", "2").with("set-cookie", "a=1"),
    );
    site.set("/x.json?token=1", resource("application/json", "3"));
    site
}

fn page() -> Resource {
    resource("text/html", "<script src=/app.js></script>")
}

/// Loads the page, requests objects that only a script refers to, and reports the end of the visit.
pub(crate) async fn visit(
    agent: &mut Agent,
    site: &Site,
    fields: &[(&str, &str)],
    objects: &[(&str, &[(&str, &str)])],
) {
    let page = site.url("a", "/");
    let load = LoadReader::whole(agent, &page, fields).await;
    // What this device has learned before is an entry, which `Used` lists.
    let planned = load.urls();
    for (path, fields) in objects
        .iter()
        .filter(|(path, _)| !planned.contains(&(*path).to_owned()))
    {
        let fields = [*fields, &[("referer", page.as_str())]].concat();
        let asked = object(agent, load.page, &site.url("a", path), &fields);
        agent.send(Message::Fetch(asked)).await;
        let response = agent.answer().await.response(&agent.session).await;
        assert_eq!(response.status, 200, "{path}");
    }
    agent.say(Message::Used(Used::new(load.page, 16, |_| true))).await;
    agent
        .say(Message::Want(Want {
            page: PageId::of(FetchId::new(0)),
            entry: EntryId::FIRST,
        }))
        .await;
}

/// Visits the page with `teacher` until `path` is planned on `pupil`: bodies are stored, and visits learned, after they
/// end.
pub(crate) async fn teach(
    teacher: &mut Agent,
    pupil: &mut Agent,
    site: &Site,
    (fields, objects): Lesson<'_>,
    path: &str,
) -> Load {
    for _ in 0..1000 {
        visit(teacher, site, fields, objects).await;
        let load = LoadReader::whole(pupil, &site.url("a", "/"), PLAIN).await;
        if load.urls().contains(&path.to_owned()) {
            return load;
        }
    }
    panic!("{path} was not taught");
}

pub(crate) fn sorted(load: &Load) -> Vec<String> {
    let mut urls = load.urls();
    urls.sort();
    urls
}

/// Fields of the page's request, and the objects with their fields.
pub(crate) type Lesson<'a> = (
    &'a [(&'a str, &'a str)],
    &'a [(&'a str, &'a [(&'a str, &'a str)])],
);

/// Loads the page until an object is planned, which shows that the previous visit has been learned.
pub(crate) async fn until_planned(
    agent: &mut Agent,
    site: &Site,
    path: &str,
    fields: &[(&str, &str)],
) -> Load {
    for _ in 0..1000 {
        let fetch = fetch_of(agent.id(), Method::Get, &site.url("a", "/"), fields);
        let mut reader = LoadReader::begin(agent, fetch, &[]).await;
        reader.until(Load::is_complete).await;
        if reader.load.urls().contains(&path.to_owned()) {
            return reader.load;
        }
    }
    panic!("{path} was not planned");
}

#[tokio::test]
async fn objects_loaded_by_scripts_are_planned_on_other_devices() {
    let gateway = Gateway::start().await;
    let mut first = Agent::connect(&gateway).await;
    let mut second = Agent::connect(&gateway).await;
    let site = site(page()).await;
    let personal: &[(&str, &[(&str, &str)])] = &[
        ("/mine.json", COOKIE),
        ("/private.json", PLAIN),
        ("/x.json?token=1", PLAIN),
        ("/data.json", PLAIN),
        // Later requests would carry its cookie.
        ("/setting.json", PLAIN),
    ];
    let load = teach(&mut first, &mut second, &site, (PLAIN, personal), "/data.json").await;
    let mut urls = load.urls();
    urls.sort();
    assert_eq!(urls, ["/app.js", "/data.json"]);
    assert_eq!(load.body_of("/data.json"), b"{}");
    // The device itself has learned all of them.
    let own = LoadReader::whole(&mut first, &site.url("a", "/"), PLAIN).await;
    for (path, _) in personal {
        assert!(own.urls().contains(&(*path).to_owned()), "{path}");
    }

    // On a device with cookies, objects learned from others are planned, too, but the visit adds nothing to
    // the shared records.
    let mut third = Agent::connect(&gateway).await;
    let load = until_planned(&mut third, &site, "/data.json", COOKIE).await;
    assert_eq!(load.urls().len(), 2);
    visit(&mut third, &site, COOKIE, &[("/more.json", COOKIE)]).await;
    // Visits are learned in order: once this one is learned, the previous one is as well.
    visit(&mut third, &site, COOKIE, &[("/last.json", COOKIE)]).await;
    until_planned(&mut third, &site, "/last.json", COOKIE).await;
    let load = LoadReader::whole(&mut second, &site.url("a", "/"), PLAIN).await;
    assert_eq!(load.urls().len(), 2, "{:?}", load.urls());
}

/// A page that sets a cookie, is private, must not be stored, or is an error teaches what its public scripts name: its
/// request had no credentials.
#[tokio::test]
async fn the_pages_request_decides_whether_it_teaches() {
    let carol = [("user-agent", "test"), ("cookie", "session=carol")];
    for (page, of_script) in [
        (page().with("cache-control", "private, max-age=5"), PLAIN),
        (page().with("set-cookie", "session=carol; Path=/"), &carol),
        (page().with("cache-control", "no-store"), PLAIN),
        (
            Resource {
                status: 404,
                ..page()
            },
            PLAIN,
        ),
    ] {
        let gateway = Gateway::start().await;
        let mut first = Agent::connect(&gateway).await;
        let mut second = Agent::connect(&gateway).await;
        let fields = page.fields.clone();
        let site = site(page).await;
        site.set("/carol/data.json", resource("application/json", "1").fresh());
        let objects: &[(&str, &[(&str, &str)])] = &[
            ("/carol/data.json", of_script),
            ("/more.json", of_script),
            ("/mine.json", COOKIE),
            ("/data.json", of_script),
        ];
        let load = teach(&mut first, &mut second, &site, (PLAIN, objects), "/data.json").await;
        assert_eq!(sorted(&load), ["/app.js", "/data.json"], "{fields:?}");
    }
}

/// A page behind a redirect is planned, and teaches, under its own URL.
#[tokio::test]
async fn a_page_behind_a_redirect_has_a_learned_plan() {
    let gateway = Gateway::start().await;
    let mut first = Agent::connect(&gateway).await;
    let mut second = Agent::connect(&gateway).await;
    let site = site(redirect(302, "/home")).await;
    site.set("/home", page());
    let lesson: Lesson<'_> = (PLAIN, &[("/data.json", PLAIN)]);
    let load = teach(&mut first, &mut second, &site, lesson, "/data.json").await;
    assert_eq!(load.urls().len(), 3, "{:?}", load.urls());
    assert_eq!(load.body_of("/data.json"), b"{}");
    // The same page without the redirect.
    let load = LoadReader::whole(&mut second, &site.url("a", "/home"), PLAIN).await;
    assert!(load.urls().contains(&"/data.json".to_owned()));
}

/// A URL that one device asked for is found in the documents of others that contain it, whatever it looks like. No other
/// document leads to it.
#[tokio::test]
async fn urls_that_stand_in_both_documents_are_planned_after_one_device() {
    const LITERAL: &str = "/data/9f86d081884c.js";
    const TOKEN: &str = "/x.js?token=1";
    for redirected in [false, true] {
        let gateway = Gateway::start().await;
        let mut first = Agent::connect(&gateway).await;
        let mut second = Agent::connect(&gateway).await;
        let mut third = Agent::connect(&gateway).await;
        let data = r#"<script src=/app.js></script><script>{"a":"\/data\/9f86d081884c.js","b":"/x.js?token=1"}</script>"#;
        let with_data = resource("text/html", data).with("set-cookie", "session=carol; Path=/");
        let (site, path) = if redirected {
            let site = site(redirect(302, "/home")).await;
            site.set("/home", with_data);
            (site, "/home")
        } else {
            (site(with_data).await, "/")
        };
        for (path, body) in [(LITERAL, "1"), (TOKEN, "2"), ("/data/5d41402abc4b.js", "3")] {
            site.set(path, resource("text/javascript", body).fresh());
        }
        let carol = [("user-agent", "test"), ("cookie", "session=carol")];
        let objects: &[(&str, &[(&str, &str)])] = &[
            (LITERAL, &carol),
            (TOKEN, &carol),
            ("/data/5d41402abc4b.js", &carol),
            ("/data.json", &carol),
        ];
        let load = teach(&mut first, &mut second, &site, (PLAIN, objects), LITERAL).await;
        let mut expected = vec!["/app.js", LITERAL, "/data.json", TOKEN];
        if redirected {
            expected.push("/home");
        }
        expected.sort_unstable();
        assert_eq!(sorted(&load), expected);
        assert_eq!(load.body_of(LITERAL), b"1");
        // The same page with other data.
        site.set(path, page());
        let load = until_planned(&mut third, &site, "/data.json", PLAIN).await;
        assert!(!load.urls().iter().any(|url| url == LITERAL || url == TOKEN));
    }
}

/// A URL that nothing public names is told once two devices have asked for it.
#[tokio::test]
async fn two_devices_teach_what_no_script_names() {
    let gateway = Gateway::start().await;
    let mut first = Agent::connect(&gateway).await;
    let mut second = Agent::connect(&gateway).await;
    let mut third = Agent::connect(&gateway).await;
    let site = site(page()).await;
    let lesson: Lesson<'_> = (PLAIN, &[("/last.json", PLAIN), ("/data.json", PLAIN)]);
    let load = teach(&mut first, &mut third, &site, lesson, "/data.json").await;
    assert_eq!(sorted(&load), ["/app.js", "/data.json"]);
    // The second device is the first one's witness; its objects of its own stay its own.
    let lesson: Lesson<'_> = (PLAIN, &[("/last.json", PLAIN), ("/more.json", PLAIN)]);
    let load = teach(&mut second, &mut third, &site, lesson, "/last.json").await;
    assert!(!load.urls().contains(&"/more.json".to_owned()));
}

#[tokio::test]
async fn entries_unused_by_one_device_stay_planned_on_others() {
    let gateway = Gateway::start().await;
    let mut first = Agent::connect(&gateway).await;
    let mut second = Agent::connect(&gateway).await;
    let mut third = Agent::connect(&gateway).await;
    let site = site(page()).await;
    let lesson: Lesson<'_> = (PLAIN, &[("/data.json", PLAIN)]);
    let load = teach(&mut first, &mut second, &site, lesson, "/data.json").await;
    let unwanted = load.entry("/data.json");
    second
        .say(Message::Used(Used::new(load.page, 16, |entry| entry != unwanted)))
        .await;
    // A single unused push is not enough to stop planning, so repeat until it has been stopped.
    loop {
        let load = LoadReader::whole(&mut second, &site.url("a", "/"), PLAIN).await;
        if load.urls() == ["/app.js"] {
            break;
        }
    }
    until_planned(&mut third, &site, "/data.json", PLAIN).await;
}

/// On a fast link, the browser asks for a font before the style sheet has arrived that uses it.
#[tokio::test]
async fn an_object_that_the_browser_requested_first_is_not_pushed_as_well() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let gate = Gate::default();
    let html = "<style>@font-face { font-family: first; src: url(/first.woff) }
        @font-face { font-family: second; src: url(/second.woff) }</style>
        <link rel=stylesheet href=/x.css><p>The text is longer than that of an application.";
    let css = "p { font-family: first, second }";
    let site = Site::start([
        ("/", resource("text/html", html)),
        ("/first.woff", resource("font/woff", "first").fresh()),
        ("/second.woff", resource("font/woff", "second").fresh()),
        (
            "/x.css",
            Resource {
                gate: Some(gate.clone()),
                ..resource("text/css", css).fresh()
            },
        ),
    ])
    .await;
    let page = site.url("a", "/");
    let fetch = fetch_of(agent.id(), Method::Get, &page, PLAIN);
    let id = PageId::of(fetch.id);
    let mut reader = LoadReader::begin(&agent, fetch, &[]).await;
    reader
        .until(|load| load.body_end == StreamEnd::Complete && !load.records.is_empty())
        .await;
    let fields = [PLAIN, &[("referer", page.as_str())]].concat();
    let asked = object(&mut agent, id, &site.url("a", "/first.woff"), &fields);
    agent.send(Message::Fetch(asked)).await;
    reader.until(|load| !load.answers.is_empty()).await;
    gate.open();
    reader.until(Load::is_complete).await;
    let urls = reader.load.urls();
    assert!(!urls.contains(&"/first.woff".to_owned()), "{urls:?}");
    assert_eq!(reader.load.body_of("/second.woff"), b"second");
}
