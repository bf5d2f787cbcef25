//! Page bundles: failures in the manifest, and hosts that earlier visits could not reach.
use longhaul_session::{
    AbsentHost, EntryId, FailureReason, FetchId, Message, Method, PageId, Record, Used, VersionRange, Want,
    Withdrawal,
};
use tokio::net::TcpListener;

use crate::{
    agent::{Agent, fetch_of},
    bundles::{Site, resource},
    bundles_correctness::object,
    bundles_load::{Load, LoadReader},
    gateway::Gateway,
};

const PLAIN: &[(&str, &str)] = &[("user-agent", "test"), ("accept", "*/*")];

/// The origin of a port on which nothing listens.
async fn closed() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://gone.test:{}", listener.local_addr().unwrap().port())
}

fn absent(load: &Load) -> Vec<&AbsentHost> {
    let absent = load.records.iter().filter_map(|record| match record {
        Record::Absent(host) => Some(host),
        _ => None,
    });
    absent.collect()
}

#[tokio::test]
async fn an_absent_host_is_announced_once_to_agents_that_know_the_record() {
    let gateway = Gateway::start().await;
    let gone = closed().await;
    let html = format!("<img src={gone}/1.png><img src={gone}/2.png><img src=/own.png>");
    let site = Site::start([
        ("/", resource("text/html", html)),
        ("/own.png", resource("image/png", "own").fresh()),
    ])
    .await;
    let page = site.url("a", "/");
    let mut agent = Agent::connect(&gateway).await;
    let load = LoadReader::whole(&mut agent, &page, PLAIN).await;
    assert_eq!(load.body_of("/own.png"), b"own");
    let [host] = absent(&load)[..] else {
        panic!("{:?}", load.records)
    };
    assert_eq!(
        (&host.origin, host.reason),
        (&gone, FailureReason::ConnectionRefused)
    );
    assert!(host.seconds > 0 && !host.detail.is_empty());
    for entry in load.entries() {
        if entry.url.starts_with(&gone) {
            assert_eq!(load.withdrawal(load.entry(&entry.url)), Some(Withdrawal::Failed));
        }
    }
    // An older agent gets the records that it knows.
    let older = VersionRange { oldest: 2, newest: 2 };
    let mut agent = Agent::connect_of(&gateway, older).await;
    let load = LoadReader::whole(&mut agent, &page, PLAIN).await;
    assert_eq!(load.body_of("/own.png"), b"own");
    assert_eq!(load.urls().len(), 3);
    let is_known = |record: &Record| {
        matches!(
            record,
            Record::Entry(_) | Record::Head(_) | Record::Withdrawn { .. } | Record::Planned
        )
    };
    assert!(load.records.iter().all(is_known), "{:?}", load.records);
}

#[tokio::test]
async fn fonts_that_no_rule_names_are_planned_only_if_a_style_sheet_is_missing() {
    let gateway = Gateway::start().await;
    let gone = closed().await;
    let css = "p { font-family: used }";
    let site = Site::start([
        ("/used.woff", resource("font/woff", "used").fresh()),
        ("/other.woff", resource("font/woff", "other").fresh()),
        ("/x.css", resource("text/css", css).fresh()),
        ("/text.css", resource("text/plain", css).fresh()),
        ("/own.png", resource("image/png", "own").fresh()),
    ])
    .await;
    let fonts = "<style>@font-face { font-family: used; src: url(/used.woff) }
        @font-face { font-family: other; src: url(/other.woff) }</style>";
    let mut agent = Agent::connect(&gateway).await;
    for (path, sheet, are_planned) in [
        ("/none", String::new(), (false, false)),
        ("/found", "/x.css".to_owned(), (true, false)),
        ("/error", "/absent.css".to_owned(), (false, false)),
        ("/type", "/text.css".to_owned(), (true, true)),
        ("/gone", format!("{gone}/x.css"), (true, true)),
    ] {
        let html = format!(
            "{fonts}<link rel=stylesheet href='{sheet}'><img src=/own.png><p>The text is longer than that of an application."
        );
        site.set(path, resource("text/html", html));
        let load = LoadReader::whole(&mut agent, &site.url("a", path), PLAIN).await;
        let has = |url: &str| load.urls().iter().any(|known| known == url);
        assert_eq!((has("/used.woff"), has("/other.woff")), are_planned, "{path}");
    }
}

/// Loads the page, requests an object of the host that only a script refers to, and reports the end of the visit.
async fn visit(agent: &mut Agent, page: &str, url: &str) {
    let load = LoadReader::whole(agent, page, PLAIN).await;
    let fields = [PLAIN, &[("referer", page)]].concat();
    let asked = object(agent, load.page, url, &fields);
    agent.send(Message::Fetch(asked)).await;
    assert!(matches!(agent.answer().await.message, Message::Failed(_)));
    agent.say(Message::Used(Used::new(load.page, 16, |_| true))).await;
    agent
        .say(Message::Want(Want {
            page: PageId::of(FetchId::new(0)),
            entry: EntryId::FIRST,
        }))
        .await;
}

/// A host that one device's scripts could not reach is announced on another device before its scripts ask for it, after
/// one retry of the gateway; and no longer once it answers.
#[tokio::test]
async fn an_absent_host_of_scripts_is_announced_on_another_device() {
    let gateway = Gateway::start().await;
    let gone = closed().await;
    let pixel = format!("{gone}/pixel.gif");
    let host = gone.trim_start_matches("http://");
    let script = format!("load('//{host}/pixel.gif')");
    let site = Site::start([
        ("/", resource("text/html", "<script src=/app.js></script>")),
        ("/app.js", resource("text/javascript", script).fresh()),
    ])
    .await;
    let page = site.url("a", "/");
    let mut first = Agent::connect(&gateway).await;
    let mut second = Agent::connect(&gateway).await;
    let mut told = None;
    for _ in 0..1000 {
        // Bodies are stored, and visits learned, after they end.
        visit(&mut first, &page, &pixel).await;
        let load = LoadReader::whole(&mut second, &page, PLAIN).await;
        if !absent(&load).is_empty() {
            told = Some(load);
            break;
        }
    }
    let load = told.expect("the host was announced");
    assert_eq!(absent(&load)[0].origin, gone);
    // The host comes back: the retry of the next load is an ordinary entry.
    let port = host.rsplit(':').next().unwrap();
    let back = TcpListener::bind(format!("127.0.0.1:{port}")).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = back.accept().await {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Type: image/gif\r\nCache-Control: max-age=60\r\nContent-Length: 3\r\nConnection: close\r\n\r\nGIF";
            let mut request = [0; 4096];
            let _read = tokio::io::AsyncReadExt::read(&mut stream, &mut request).await;
            let _sent = tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await;
        }
    });
    let fetch = fetch_of(second.id(), Method::Get, &page, PLAIN);
    let mut reader = LoadReader::begin(&second, fetch, &[]).await;
    reader.until(Load::is_complete).await;
    assert!(absent(&reader.load).is_empty(), "{:?}", reader.load.records);
    assert_eq!(reader.load.body_of(&pixel), b"GIF");
}
