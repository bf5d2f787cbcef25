//! Methods, redirects, statuses, ranges and frames in page loads.
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use longhaul_tests::client::{Ending, RawClient, ask, request};
use tokio::time::{interval, timeout};

use super::{answer, body, page, request_count, site, visitor::Visitor};
use crate::{
    content::{noise, prose},
    pair::LIMIT,
};

const PAGE: &str = "http://site.test/";

/// A write invalidates stored responses, however fresh they are (RFC 9111 section 4.4).
#[tokio::test]
async fn a_page_shows_the_result_of_a_write() -> Result<()> {
    let orders = Arc::new(AtomicUsize::new(0));
    let written = Arc::clone(&orders);
    let (origin, pair) = site(move |request| {
        let fresh = [("Content-Type", "text/html"), ("Cache-Control", "max-age=600")];
        match (request.method().as_str(), request.uri().path()) {
            ("GET", "/list") => {
                let count = written.load(Relaxed);
                answer(200, &fresh, format!("{}<p>{count} orders", page(&["count.js"])))
            }
            ("GET", _) => answer(
                200,
                &[("Cache-Control", "no-cache")],
                written.load(Relaxed).to_string(),
            ),
            ("POST", "/list") => {
                written.fetch_add(1, Relaxed);
                answer(303, &[("Location", "/list")], "")
            }
            (_, "/list") => {
                written.fetch_add(1, Relaxed);
                answer(204, &[], "")
            }
            _ => answer(404, &[], ""),
        }
    })
    .await?;
    let url = "http://site.test/list";
    let visitor = Visitor::new(pair.proxy());
    let count = "http://site.test/count.js";
    for (number, method) in ["POST", "PUT", "DELETE", "POST"].into_iter().enumerate() {
        let before = visitor.visit(url, &[count]).await?;
        assert!(
            before.page.text().ends_with(&format!("<p>{number} orders")),
            "{}",
            before.page.text()
        );
        assert_eq!(body(before.object(count)), number.to_string().as_bytes());
        let form = request(method, url, &[("Content-Length", "6")]) + "eggs=1";
        let answered = ask(pair.proxy(), form).await?;
        assert_eq!(answered.status, if method == "POST" { 303 } else { 204 });
        let after = visitor.visit(url, &[count]).await?;
        assert!(
            after.page.text().ends_with(&format!("<p>{} orders", number + 1)),
            "after {method}: {}",
            after.page.text()
        );
        assert_eq!(body(after.object(count)), (number + 1).to_string().as_bytes());
    }
    let writes = origin.seen().iter().filter(|seen| seen.method != "GET").count();
    assert_eq!(
        (writes, orders.load(Relaxed)),
        (4, 4),
        "each POST reached the origin once"
    );
    Ok(())
}

/// A script writes and then reads, while its page still loads: what the gateway fetched ahead does not answer the read.
#[tokio::test]
async fn a_script_reads_what_it_has_written() -> Result<()> {
    // An error does not say that nothing was written.
    for (method, status) in [("POST", 200), ("PUT", 500)] {
        let written = Arc::new(AtomicBool::new(false));
        let state = Arc::clone(&written);
        let (origin, pair) = site(
            move |request| match (request.method().as_str(), request.uri().path()) {
                ("GET", "/") => answer(200, &[("Content-Type", "text/html")], page(&["cart.js"])),
                ("GET", _) => answer(
                    200,
                    &[("Cache-Control", "no-cache")],
                    if state.load(Relaxed) { "eggs" } else { "nothing" },
                ),
                (_, _) => {
                    state.store(true, Relaxed);
                    answer(status, &[], "")
                }
            },
        )
        .await?;
        let visitor = Visitor::new(pair.proxy());
        visitor.page(PAGE).await?;
        let mut looks = interval(Duration::from_millis(5));
        let ahead = async {
            while request_count(&origin, "/cart.js") == 0 {
                looks.tick().await;
            }
        };
        timeout(LIMIT, ahead)
            .await
            .context("the gateway fetches the cart ahead")?;
        let form = request(method, "http://site.test/add", &[("Content-Length", "6")]) + "eggs=1";
        ask(pair.proxy(), form).await?;
        let cart = visitor.object(PAGE, "http://site.test/cart.js", &[]).await?;
        assert_eq!(body(&cart), b"eggs", "after {method}");
    }
    Ok(())
}

/// Redirects of pages and of objects reach the browser unchanged.
#[tokio::test]
async fn redirects_reach_the_browser_unchanged() -> Result<()> {
    let (_origin, pair) = site(|request| {
        let path = request.uri().path();
        let (stem, kind) = path.rsplit_once('.').unwrap_or((path, ""));
        let html = ("Content-Type", "text/html");
        let numbers: Vec<&str> = stem.trim_start_matches('/').split('-').collect();
        match numbers.as_slice() {
            [status @ ("301" | "302" | "303" | "307" | "308"), rest @ ..] => {
                let next = if rest.is_empty() {
                    "end".to_owned()
                } else {
                    rest.join("-")
                };
                let next = if rest.len() == 1 {
                    format!("http://other.test/{next}.{kind}")
                } else {
                    format!("{next}.{kind}#part")
                };
                let body = format!("moved, {status}");
                answer(status.parse().unwrap_or(302), &[("Location", &next), html], body)
            }
            ["end"] if kind == "html" => answer(
                200,
                &[html],
                page(&["/302-301.css", "/307.js", "/308-303-302.gif"]),
            ),
            _ => answer(200, &[], format!("the end of {path}")),
        }
    })
    .await?;
    for start in [
        "301.html",
        "302-303.html",
        "307-308-302.html",
        "308.html",
        "303-301.html",
    ] {
        let visitor = Visitor::new(pair.proxy());
        let (loaded, url) = follow(&visitor, &format!("{PAGE}{start}"), None).await?;
        assert_eq!(
            body(&loaded),
            page(&["/302-301.css", "/307.js", "/308-303-302.gif"]).as_bytes()
        );
        let base = url.trim_end_matches("/end.html").to_owned();
        for object in ["302-301.css", "307.js", "308-303-302.gif"] {
            let (loaded, at) = follow(&visitor, &format!("{base}/{object}"), Some(&url)).await?;
            let path = at.split(".test").nth(1).unwrap_or_default();
            assert_eq!(body(&loaded), format!("the end of {path}").as_bytes(), "{at}");
        }
    }
    Ok(())
}

/// Follows redirects as a browser does; each redirect must be the origin's.
async fn follow(
    visitor: &Visitor,
    start: &str,
    page: Option<&str>,
) -> Result<(longhaul_tests::client::RawResponse, String)> {
    let mut url = start.to_owned();
    for _ in 0..6 {
        let response = match page {
            None => visitor.page(&url).await?,
            Some(page) => visitor.object(page, &url, &[]).await?,
        };
        if response.status / 100 != 3 {
            return Ok((response, url));
        }
        assert!(
            url.contains(&response.status.to_string()),
            "{url}: {}",
            response.status
        );
        assert_eq!(response.text(), format!("moved, {}", response.status));
        let next = response.field("location").expect("a location").to_owned();
        let next = next.trim_end_matches("#part");
        url = match next.contains("://") {
            true => next.to_owned(),
            false => format!("{}/{next}", url.rsplit_once('/').map_or("", |(base, _)| base)),
        };
    }
    anyhow::bail!("too many redirects from {start}")
}

/// A redirect loop does not make the gateway follow it without end.
#[tokio::test]
async fn a_redirect_loop_is_not_followed_by_the_gateway() -> Result<()> {
    let (origin, pair) = site(|request| match request.uri().path() {
        "/" => answer(200, &[("Content-Type", "text/html")], page(&["round.js"])),
        "/a" => answer(302, &[("Location", "/b")], ""),
        "/b" => answer(302, &[("Location", "/a")], ""),
        _ => answer(302, &[("Location", "/round.js")], ""),
    })
    .await?;
    let visitor = Visitor::new(pair.proxy());
    for _ in 0..2 {
        let round = visitor.visit(PAGE, &["http://site.test/round.js"]).await?;
        let round = round.object("http://site.test/round.js");
        assert_eq!((round.status, round.field("location")), (302, Some("/round.js")));
        let a = visitor.page("http://site.test/a").await?;
        assert_eq!((a.status, a.field("location")), (302, Some("/b")));
    }
    assert!(origin.seen().len() < 60, "{} requests", origin.seen().len());
    Ok(())
}

#[tokio::test]
async fn error_responses_of_objects_reach_the_browser_unchanged() -> Result<()> {
    let (_origin, pair) = site(|request| {
        let path = request.uri().path();
        let status = path.get(1..4).and_then(|status| status.parse::<u16>().ok());
        match status {
            None => answer(
                200,
                &[("Content-Type", "text/html")],
                page(&[
                    "404.css",
                    "500.js",
                    "410.gif",
                    "503.js",
                    "204.gif",
                    "404-fresh.js",
                ]),
            ),
            Some(204) => answer(204, &[], ""),
            Some(status) => {
                let caching = if path.contains("fresh") {
                    "max-age=600"
                } else {
                    "no-cache"
                };
                let fields = [("Cache-Control", caching), ("Retry-After", "7"), ("X-Path", path)];
                answer(status, &fields, format!("error {path}"))
            }
        }
    })
    .await?;
    let names = [
        "404.css",
        "500.js",
        "410.gif",
        "503.js",
        "204.gif",
        "404-fresh.js",
    ];
    let urls = names.map(|name| format!("{PAGE}{name}"));
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    for _ in 0..2 {
        let visit = Visitor::new(pair.proxy()).visit(PAGE, &urls).await?;
        for (name, url) in names.iter().zip(&urls) {
            let response = visit.object(url);
            let status: u16 = name[..3].parse()?;
            assert_eq!(
                (response.status, response.ending),
                (status, Ending::Whole),
                "{name}"
            );
            if status != 204 {
                assert_eq!(response.text(), format!("error /{name}"));
                assert_eq!(response.field("x-path"), Some(format!("/{name}").as_str()));
                assert_eq!(response.field("retry-after"), Some("7"));
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn head_and_range_requests_of_objects_are_answered_correctly() -> Result<()> {
    let film = noise(300_000, 44);
    let stored = film.clone();
    let (_origin, pair) = site(move |request| {
        let range = super::request_field(request, "range");
        let whole = [
            ("ETag", "\"film\""),
            ("Accept-Ranges", "bytes"),
            ("Cache-Control", "max-age=600"),
            ("Content-Type", "video/mp4"),
        ];
        let (start, end) = range
            .trim_start_matches("bytes=")
            .split_once('-')
            .unwrap_or_default();
        match (request.uri().path(), start.parse::<usize>(), end.parse::<usize>()) {
            ("/", ..) => answer(200, &[("Content-Type", "text/html")], page(&["film.gif"])),
            (_, Ok(start), Ok(end)) if end < stored.len() && start <= end => {
                let about = format!("bytes {start}-{end}/{}", stored.len());
                let fields: Vec<_> = whole
                    .iter()
                    .copied()
                    .chain([("Content-Range", about.as_str())])
                    .collect();
                answer(206, &fields, stored[start..=end].to_vec())
            }
            _ => answer(200, &whole, stored.clone()),
        }
    })
    .await?;
    let url = "http://site.test/film.gif";
    let visitor = Visitor::new(pair.proxy());
    let mut client = RawClient::connect(pair.proxy()).await?;
    for round in 0..2 {
        visitor.page(PAGE).await?;
        client.send(request("HEAD", url, &[("Referer", PAGE)])).await?;
        let head = client.head().await?;
        assert_eq!(
            (head.status, head.field("content-length")),
            (200, Some("300000")),
            "round {round}"
        );
        for (start, end) in [(0, 99), (1000, 200_000), (299_999, 299_999)] {
            let range = format!("bytes={start}-{end}");
            let part = visitor.object(PAGE, url, &[("Range", &range)]).await?;
            match part.status {
                206 => {
                    let about = format!("bytes {start}-{end}/300000");
                    assert_eq!(part.field("content-range"), Some(about.as_str()), "round {round}");
                    assert!(
                        part.body == film[start..=end],
                        "round {round}: {} bytes",
                        part.body.len()
                    );
                }
                // A server may ignore the range, but a 200 response is complete.
                _ => assert!(body(&part) == film, "round {round}"),
            }
        }
        let changed = visitor
            .object(PAGE, url, &[("Range", "bytes=0-9"), ("If-Range", "\"another\"")])
            .await?;
        assert!(matches!(changed.status, 200 | 206), "{}", changed.status);
        let whole = visitor.object(PAGE, url, &[]).await?;
        assert!(
            body(&whole) == film,
            "round {round}: after parts, {} bytes",
            whole.body.len()
        );
    }
    Ok(())
}

/// The load of a frame and its objects does not end the load of the page around it.
#[tokio::test]
async fn frames_load_together_with_their_page() -> Result<()> {
    let (_origin, pair) = site(|request| {
        let html = ("Content-Type", "text/html");
        match request.uri().path() {
            "/" => answer(200, &[html], page(&["frame.html", "late.js", "late.gif"])),
            "/frame.html" => answer(200, &[html], page(&["inner.css", "late.js"])),
            path => answer(
                200,
                &[("Cache-Control", "max-age=60")],
                [path.as_bytes(), &prose(20_000, 3)].concat(),
            ),
        }
    })
    .await?;
    let visitor = Visitor::new(pair.proxy());
    for _ in 0..2 {
        visitor.page(PAGE).await?;
        let frame_url = "http://site.test/frame.html";
        let frame = visitor.object(PAGE, frame_url, &[]).await?;
        assert_eq!(body(&frame), page(&["inner.css", "late.js"]).as_bytes());
        let inner = visitor
            .object(frame_url, "http://site.test/inner.css", &[])
            .await?;
        assert!(body(&inner).starts_with(b"/inner.css"));
        for name in ["late.js", "late.gif"] {
            let late = visitor.object(PAGE, &format!("{PAGE}{name}"), &[]).await?;
            assert!(body(&late) == [format!("/{name}").as_bytes(), &prose(20_000, 3)].concat());
        }
    }
    Ok(())
}

/// Simultaneous requests are answered separately or share one origin fetch; the bytes are the same.
#[tokio::test]
async fn simultaneous_requests_of_many_browsers_receive_the_same_page() -> Result<()> {
    let (origin, pair) = site(|request| match request.uri().path() {
        "/" => answer(
            200,
            &[
                ("Content-Type", "text/html"),
                ("Cache-Control", "public, max-age=60"),
            ],
            page(&["one.js", "two.css"]),
        ),
        path => answer(
            200,
            &[("Cache-Control", "public, max-age=60")],
            [path.as_bytes(), &prose(60_000, 5)].concat(),
        ),
    })
    .await?;
    let second = pair.second_agent("second").await?;
    let urls = ["http://site.test/one.js", "http://site.test/two.css"];
    let visitors: Vec<Visitor> = (0..12)
        .map(|number| {
            Visitor::new(if number % 2 == 0 {
                pair.proxy()
            } else {
                second.address()
            })
        })
        .collect();
    let visits = visitors.iter().map(|visitor| visitor.visit(PAGE, &urls));
    for visit in futures_util::future::try_join_all(visits).await? {
        assert_eq!(body(&visit.page), page(&["one.js", "two.css"]).as_bytes());
        for url in urls {
            let path = url.trim_start_matches("http://site.test");
            assert!(body(visit.object(url)) == [path.as_bytes(), &prose(60_000, 5)].concat());
        }
    }
    println!(
        "the origin answered {} times for 36 requests",
        origin.seen().len()
    );
    assert!(
        request_count(&origin, "/one.js") <= 24,
        "{} times",
        request_count(&origin, "/one.js")
    );
    Ok(())
}
