//! Slow, stalled and large responses: the rest of the page does not wait for them.
use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_tests::{
    client::{RawClient, get},
    origin::{AnswerBody, Origin},
};
use tokio::{sync::watch, time::timeout};

use super::{answer, body, both_hosts, page, peak_memory, visitor::Visitor};
use crate::{
    content::{noise, pieces, prose},
    pair::{LIMIT, Pair},
};

const PAGE: &str = "http://site.test/";

/// An object whose response the origin sends only after all others have been received.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_object_does_not_delay_other_objects() -> Result<()> {
    const OTHERS: [&str; 5] = ["a.css", "b.js", "c.gif", "d.gif", "e.js"];
    let (release, released) = watch::channel(false);
    let origin = Origin::start(
        None,
        |_| {},
        move |request: Request<Incoming>| {
            let mut released = released.clone();
            async move {
                match request.uri().path() {
                    "/" => answer(
                        200,
                        &[("Content-Type", "text/html")],
                        page(&["slow.css", "slow.js", "a.css", "b.js", "c.gif", "d.gif", "e.js"]),
                    ),
                    path if path.starts_with("/slow") => {
                        let _gone = released.wait_for(|released| *released).await;
                        answer(200, &[], format!("at last {path}"))
                    }
                    path => answer(200, &[], [path.as_bytes(), &prose(30_000, 8)].concat()),
                }
            }
        },
    )
    .await?;
    let pair = Pair::start(both_hosts(&origin)).await?;
    for _ in 0..2 {
        release.send_replace(false);
        let visitor = Visitor::new(pair.proxy());
        visitor.page(PAGE).await?;
        let slow = ["http://site.test/slow.css", "http://site.test/slow.js"];
        let slow = visitor.objects(PAGE, &slow);
        let others = async {
            let urls = OTHERS.map(|name| format!("{PAGE}{name}"));
            let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
            let found = timeout(LIMIT, visitor.objects(PAGE, &urls))
                .await
                .context("the other objects wait for the slow one")??;
            for (name, url) in OTHERS.iter().zip(&urls) {
                let expected = [format!("/{name}").as_bytes(), &prose(30_000, 8)].concat();
                assert!(body(&found[*url]) == expected, "{name}");
            }
            release.send_replace(true);
            anyhow::Ok(())
        };
        let (slow, ()) = tokio::try_join!(slow, others)?;
        for (url, found) in &slow {
            let path = url.trim_start_matches("http://site.test");
            assert_eq!(body(found), format!("at last {path}").as_bytes());
        }
    }
    Ok(())
}

/// An origin that stalls in the middle of a body.
#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_body_is_cancelled_when_the_browser_leaves() -> Result<()> {
    let (opened, open) = watch::channel(0_usize);
    let opened = Arc::new(opened);
    let origin = Origin::start(
        None,
        |_| {},
        move |request: Request<Incoming>| {
            let opened = Arc::clone(&opened);
            async move {
                match request.uri().path() {
                    "/silent.js" => stalled_body(&opened),
                    path if path.starts_with("/good") => answer(200, &[], path.to_owned()),
                    _ => answer(
                        200,
                        &[("Content-Type", "text/html")],
                        page(&["silent.js", "good.css"]),
                    ),
                }
            }
        },
    )
    .await?;
    let pair = Pair::start(both_hosts(&origin)).await?;
    for round in 0..4 {
        let page_url = format!("{PAGE}{round}");
        let visitor = Visitor::new(pair.proxy());
        visitor.page(&page_url).await?;
        let mut waiting = RawClient::connect(pair.proxy()).await?;
        waiting
            .send(get(
                "http://site.test/silent.js",
                &[("Accept", "*/*"), ("Referer", &page_url)],
            ))
            .await?;
        assert_eq!(waiting.head().await?.status, 200, "round {round}");
        // After the line with the size of the chunk.
        let beginning = waiting.read_exact(15).await?;
        let beginning = String::from_utf8_lossy(&beginning).into_owned();
        assert!(beginning.contains("beginning"), "round {round}: {beginning}");
        let good = visitor
            .object(&page_url, "http://site.test/good.css", &[])
            .await?;
        assert_eq!(body(&good), b"/good.css", "round {round}");
        drop(waiting);
    }
    // After the browser has left, the gateway cancels the fetch.
    Visitor::new(pair.proxy())
        .page("http://other.test/good-bye")
        .await?;
    let mut open = open;
    timeout(LIMIT, open.wait_for(|open| *open == 0))
        .await
        .context("the gateway did not cancel the stalled fetches")??;
    Ok(())
}

/// A body that begins and then stalls; `opened` counts such bodies while a client waits for them.
fn stalled_body(opened: &Arc<watch::Sender<usize>>) -> Response<AnswerBody> {
    let (sender, body) = pieces();
    opened.send_modify(|open| *open += 1);
    let opened = Arc::clone(opened);
    tokio::spawn(async move {
        if sender.send(Ok("beginning of a script".into())).await.is_ok() {
            sender.closed().await;
        }
        opened.send_modify(|open| *open -= 1);
    });
    let mut response = Response::new(body);
    response
        .headers_mut()
        .insert("content-type", http::HeaderValue::from_static("text/javascript"));
    response
}

/// Objects larger than the limits of a page bundle are delivered without buffering all of them.
#[tokio::test(flavor = "multi_thread")]
async fn large_objects_are_delivered_with_bounded_memory() -> Result<()> {
    const MAX_MEMORY: u64 = 500 << 20;
    const SIZES: [usize; 14] = [
        7_000_000, 7_000_000, 7_000_000, 7_000_000, 7_000_000, 7_000_000, 7_000_000, 7_000_000, 7_000_000,
        7_000_000, 7_000_000, 12_000_000, 20_000_000, 10,
    ];
    let names: Vec<String> = (0..SIZES.len())
        .map(|number| format!("large-{number}.gif"))
        .collect();
    let listed = names.clone();
    let (_origin, pair) = super::site(move |request| {
        let path = request.uri().path();
        match listed.iter().position(|name| path.ends_with(name.as_str())) {
            Some(number) => answer(
                200,
                &[("Cache-Control", "max-age=600")],
                noise(SIZES[number], number as u64),
            ),
            None => {
                let names: Vec<&str> = listed.iter().map(String::as_str).collect();
                answer(200, &[("Content-Type", "text/html")], page(&names))
            }
        }
    })
    .await?;
    let urls: Vec<String> = names.iter().map(|name| format!("{PAGE}{name}")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    for round in 0..2 {
        let visit = timeout(5 * LIMIT, Visitor::new(pair.proxy()).visit(PAGE, &urls)).await??;
        for (number, url) in urls.iter().enumerate() {
            assert!(
                body(visit.object(url)) == noise(SIZES[number], number as u64),
                "round {round}: {url}"
            );
        }
        for (name, running) in [("gateway", pair.gateway()), ("agent", pair.agent())] {
            let peak = peak_memory(running.pid()).unwrap_or(0);
            println!("round {round}: {name}: at most {} MB", peak >> 20);
            assert!(peak < MAX_MEMORY, "{name} used {} MB", peak >> 20);
        }
    }
    Ok(())
}

/// A slow origin gets one request, however long the browser waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_response_causes_one_origin_request() -> Result<()> {
    let origin = Origin::start(
        None,
        |_| {},
        |request: Request<Incoming>| async move {
            match request.uri().path() {
                "/" => answer(200, &[("Content-Type", "text/html")], page(&["late.js"])),
                _ => {
                    // Longer than any round trip here, so that a premature repetition would be visible.
                    let _elapsed = timeout(Duration::from_secs(2), std::future::pending::<()>()).await;
                    answer(200, &[], "late")
                }
            }
        },
    )
    .await?;
    let pair = Pair::start(both_hosts(&origin)).await?;
    let visit = Visitor::new(pair.proxy())
        .visit(PAGE, &["http://site.test/late.js"])
        .await?;
    assert_eq!(body(visit.object("http://site.test/late.js")), b"late");
    assert_eq!(super::request_count(&origin, "/late.js"), 1);
    Ok(())
}
