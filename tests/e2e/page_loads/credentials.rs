//! Cookies: the objects of a page are requested with the cookies that the page sets, and a response that sets
//! a cookie is delivered once.
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Result;
use serde_json::Value;
use tokio::time::timeout;

use super::{accelerates_page_loads, answer, body, page, request_field, site, visitor::Visitor};

const PAGE: &str = "http://site.test/";
/// More than the duration of the pushes.
const PUSH_WAIT: Duration = Duration::from_secs(2);

/// Each visit gets a new cookie; the origin refuses objects without the visit's cookie.
#[tokio::test]
async fn objects_are_requested_with_the_cookie_that_their_page_sets() -> Result<()> {
    let number = Arc::new(AtomicUsize::new(1));
    let (_origin, pair) = site(move |request| {
        let cookie = request_field(request, "cookie");
        match request.uri().path() {
            "/" => {
                let number = number.fetch_add(1, Relaxed);
                let set = format!("sid={number}; Path=/; HttpOnly");
                answer(
                    200,
                    &[("Content-Type", "text/html"), ("Set-Cookie", &set)],
                    page(&["needs.css", "needs.js", "needs.gif", "http://other.test/free.js"]),
                )
            }
            "/free.js" => answer(200, &[], format!("free, cookie <{cookie}>")),
            _ if cookie.is_empty() => answer(403, &[], "no cookie"),
            path => answer(200, &[], format!("{path} for {cookie}")),
        }
    })
    .await?;
    let second = pair.second_agent("second").await?;
    let objects = ["needs.css", "needs.js", "needs.gif"].map(|name| format!("http://site.test/{name}"));
    let mut urls: Vec<&str> = objects.iter().map(String::as_str).collect();
    urls.push("http://other.test/free.js");
    let visitors = [pair.proxy(), second.address(), pair.proxy()].map(Visitor::new);
    for round in 0..3 {
        let visits = visitors.iter().map(|visitor| visitor.visit(PAGE, &urls));
        let visits = futures_util::future::try_join_all(visits).await?;
        for (visitor, visit) in visitors.iter().zip(&visits) {
            assert_eq!(visit.page.all("set-cookie").len(), 1, "{:?}", visit.page.fields);
            let cookie = visitor.cookie("site.test");
            for url in &urls[..3] {
                let path = url.trim_start_matches("http://site.test");
                let text = visit.object(url).text();
                assert_eq!(text, format!("{path} for {cookie}"), "round {round}");
            }
            // Cookies of one site are not sent to another.
            assert_eq!(visit.object(urls[3]).text(), "free, cookie <>");
        }
    }
    Ok(())
}

/// An object that sets a new cookie in each response: no response may answer two requests.
#[tokio::test]
async fn a_response_that_sets_a_cookie_is_delivered_once() -> Result<()> {
    for caching in ["", "max-age=600", "public, max-age=600", "private, max-age=600"] {
        let number = Arc::new(AtomicUsize::new(1));
        let (_origin, pair) = site(move |request| match request.uri().path() {
            "/" => answer(
                200,
                &[("Content-Type", "text/html")],
                page(&["count.js", "count.css", "count.gif"]),
            ),
            _ => {
                let number = number.fetch_add(1, Relaxed);
                let set = format!("c{number}={number}");
                let mut fields = vec![("Set-Cookie", set.as_str())];
                if !caching.is_empty() {
                    fields.push(("Cache-Control", caching));
                }
                answer(200, &fields, format!("number {number}"))
            }
        })
        .await?;
        let second = pair.second_agent("second").await?;
        let objects = ["count.js", "count.css", "count.gif"].map(|name| format!("http://site.test/{name}"));
        let urls: Vec<&str> = objects.iter().map(String::as_str).collect();
        let mut by_device: Vec<BTreeSet<String>> = Vec::new();
        for (device, proxy) in [pair.proxy(), second.address()].into_iter().enumerate() {
            let mut seen = BTreeSet::new();
            for round in 0..3 {
                let visitor = Visitor::new(proxy);
                visitor.page(PAGE).await?;
                if device == 0 && accelerates_page_loads(&pair.status().await?) {
                    // Wait for the pushes, if the gateway pushes these objects, so that they precede the
                    // requests.
                    let all = |status: &Value| status["pushed_objects"].as_u64() >= Some(3);
                    let _none = timeout(PUSH_WAIT, pair.status_until(all)).await;
                }
                let found = visitor.objects(PAGE, &urls).await?;
                for url in &urls {
                    let response = &found[*url];
                    let number = String::from_utf8_lossy(body(response)).replace("number ", "");
                    let first = seen.insert(number.clone());
                    // A private cache may reuse a response with explicit freshness, which set its cookie the
                    // first time.
                    assert!(
                        first || caching.contains("max-age"),
                        "`{caching}`: {number} answered two requests"
                    );
                    let set: &[_] = if first {
                        &[format!("c{number}={number}")]
                    } else {
                        &[]
                    };
                    assert_eq!(
                        response.all("set-cookie"),
                        set,
                        "`{caching}`, device {device}, round {round}, {url}: {:?}",
                        response.fields
                    );
                }
            }
            by_device.push(seen);
        }
        let both: Vec<_> = by_device[0].intersection(&by_device[1]).collect();
        assert!(both.is_empty(), "`{caching}`: two devices received {both:?}");
    }
    Ok(())
}

/// A page deletes a cookie, and its objects must be requested without it.
#[tokio::test]
async fn objects_of_a_logout_page_are_requested_without_the_deleted_cookie() -> Result<()> {
    let (_origin, pair) = site(|request| match request.uri().path() {
        "/" => answer(
            200,
            &[("Content-Type", "text/html"), ("Set-Cookie", "sid=out; Path=/")],
            page(&["menu.js"]),
        ),
        _ => answer(
            200,
            &[("Cache-Control", "no-cache")],
            request_field(request, "cookie"),
        ),
    })
    .await?;
    let visitor = Visitor::new(pair.proxy()).with_cookie("site.test", "sid", "in");
    let menu = visitor.visit(PAGE, &["http://site.test/menu.js"]).await?;
    assert_eq!(body(menu.object("http://site.test/menu.js")), b"sid=out");
    Ok(())
}

/// A response to a request with `Authorization` never answers others.
#[tokio::test]
async fn responses_to_authorised_requests_reach_no_other_user() -> Result<()> {
    let (_origin, pair) = site(|request| {
        let who = request_field(request, "authorization");
        let fields = [("Content-Type", "text/html"), ("Cache-Control", "max-age=600")];
        match (request.uri().path(), who.is_empty()) {
            (_, true) => answer(401, &[("WWW-Authenticate", "Basic realm=\"x\"")], "who are you"),
            ("/", false) => answer(200, &fields, page(&["mine.js"])),
            (_, false) => answer(200, &fields, format!("for {who}")),
        }
    })
    .await?;
    let second = pair.second_agent("second").await?;
    let url = "http://site.test/mine.js";
    for _ in 0..2 {
        for (proxy, who) in [
            (pair.proxy(), Some("Basic YTph")),
            (second.address(), Some("Basic Yjpi")),
            (second.address(), None),
            (pair.proxy(), None),
        ] {
            let visitor = Visitor::new(proxy);
            let Some(who) = who else {
                for response in [visitor.page(PAGE).await?, visitor.object(PAGE, url, &[]).await?] {
                    assert_eq!(response.status, 401, "{}", response.text());
                    assert!(response.field("www-authenticate").is_some());
                }
                continue;
            };
            let fields = [("Authorization", who)];
            let loaded = visitor.fetch(PAGE, "text/html,*/*;q=0.8", &fields).await?;
            assert_eq!(body(&loaded), page(&["mine.js"]).as_bytes());
            let mine = visitor.object(PAGE, url, &fields).await?;
            assert_eq!(body(&mine), format!("for {who}").as_bytes());
        }
    }
    Ok(())
}
