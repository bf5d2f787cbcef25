//! Programs killed during a page load: received bytes are correct, and the next load is complete.
use anyhow::{Context, Result};
use longhaul_tests::{
    client::{Ending, RawResponse},
    origin::Origin,
    relay::Direction,
};
use longhaul_types::BitRate;

use super::{answer, body, both_hosts, origin, page, visitor::Visitor};
use crate::{
    content::{noise, prose},
    pair::{LIMIT, Link, Pair},
};

const PAGE: &str = "http://site.test/";
const NAMES: [&str; 6] = ["a.css", "b.js", "c.gif", "d.gif", "e.js", "f.gif"];
/// Bytes over the hop after which the program is killed: none, the head, part of the document, half of the
/// page, most of it.
const KILL_POINTS: [u64; 5] = [0, 1_500, 20_000, 120_000, 260_000];
const RATE: BitRate = BitRate::kbps(2_000);

/// An object of this point's page. Each point has its own page, because held bodies would not cross the hop.
fn object(point: u64, name: &str) -> Vec<u8> {
    let seed: u64 = name.bytes().map(u64::from).sum();
    noise(50_000, seed + 1000 * point)
}

fn document(point: u64) -> Vec<u8> {
    [page(&NAMES).into_bytes(), prose(60_000, 17 + point)].concat()
}

async fn origin_and_pair() -> Result<(Origin, Pair)> {
    let origin = origin(|request| {
        let path = request.uri().path().trim_start_matches('/');
        let (point, name) = path.split_once('/').unwrap_or((path, ""));
        let Ok(point) = point.parse() else {
            return answer(404, &[], "");
        };
        let caching = match name {
            "" => "max-age=1",
            name if name.ends_with("gif") => "max-age=600",
            _ => "no-store",
        };
        let fields = [
            (
                "Content-Type",
                if name.is_empty() {
                    "text/html"
                } else {
                    "text/plain"
                },
            ),
            ("Cache-Control", caching),
            ("ETag", "\"one\""),
        ];
        let body = if name.is_empty() {
            document(point)
        } else {
            object(point, name)
        };
        answer(200, &fields, body)
    })
    .await?;
    let pair = Pair::start(both_hosts(&origin).over(Link::Paced(RATE))).await?;
    Ok((origin, pair))
}

/// Loads a page while the program is killed: every received body must be a prefix of the origin's.
async fn visit_during_kill(visitor: &Visitor, point: u64) {
    let beginning_of = |found: Result<RawResponse>, name: &str, expected: &[u8]| {
        let Ok(found) = found else { return };
        if found.status >= 500 {
            return;
        }
        assert!(
            expected.starts_with(&found.body),
            "{name}: the bytes differ from the origin's"
        );
        if found.ending == Ending::Whole {
            assert!(
                found.body == expected,
                "{name}: ended cleanly after {} bytes",
                found.body.len()
            );
        }
    };
    let loaded = visitor.page(&format!("{PAGE}{point}/")).await;
    beginning_of(loaded, "the page", &document(point));
    let objects = NAMES.map(|name| async move {
        let page = format!("{PAGE}{point}/");
        (name, visitor.object(&page, &format!("{page}{name}"), &[]).await)
    });
    for (name, found) in futures_util::future::join_all(objects).await {
        beginning_of(found, name, &object(point, name));
    }
}

async fn assert_loads_completely(pair: &Pair, point: u64, when: &str) -> Result<()> {
    let page = format!("{PAGE}{point}/");
    let urls = NAMES.map(|name| format!("{page}{name}"));
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let visit = Visitor::new(pair.proxy()).visit(&page, &urls).await?;
    assert!(
        body(&visit.page) == document(point),
        "{when}: {} bytes",
        visit.page.body.len()
    );
    for (name, url) in NAMES.iter().zip(&urls) {
        assert!(body(visit.object(url)) == object(point, name), "{when}: {name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_load_completely_after_the_gateway_is_killed() -> Result<()> {
    let (_origin, mut pair) = origin_and_pair().await?;
    for point in KILL_POINTS {
        let from = pair.relay().passed(Direction::Down);
        let visitor = Visitor::new(pair.proxy());
        let visit = tokio::spawn(async move { visit_during_kill(&visitor, point).await });
        pair.relay()
            .has_passed(Direction::Down, from + point, LIMIT)
            .await?;
        pair.kill_gateway().await?;
        pair.start_gateway().await?;
        visit
            .await
            .with_context(|| format!("the visit that was interrupted at {point}"))?;
        assert_loads_completely(&pair, point, &format!("after the gateway was killed at {point}")).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_load_completely_after_the_agent_is_killed() -> Result<()> {
    let (_origin, mut pair) = origin_and_pair().await?;
    for point in KILL_POINTS {
        let from = pair.relay().passed(Direction::Down);
        let visitor = Visitor::new(pair.proxy());
        let visit = tokio::spawn(async move { visit_during_kill(&visitor, point).await });
        pair.relay()
            .has_passed(Direction::Down, from + point, LIMIT)
            .await?;
        pair.kill_agent().await?;
        visit
            .await
            .with_context(|| format!("the visit that was interrupted at {point}"))?;
        pair.start_agent().await?;
        assert_loads_completely(&pair, point, &format!("after the agent was killed at {point}")).await?;
    }
    Ok(())
}

/// Gateway and agent together, as in a power failure of a machine that runs both.
#[tokio::test(flavor = "multi_thread")]
async fn pages_load_completely_after_both_programs_are_killed() -> Result<()> {
    let (_origin, mut pair) = origin_and_pair().await?;
    for point in [20_000, 200_000] {
        let from = pair.relay().passed(Direction::Down);
        let visitor = Visitor::new(pair.proxy());
        let visit = tokio::spawn(async move { visit_during_kill(&visitor, point).await });
        pair.relay()
            .has_passed(Direction::Down, from + point, LIMIT)
            .await?;
        pair.kill_agent().await?;
        pair.kill_gateway().await?;
        visit
            .await
            .with_context(|| format!("the visit that was interrupted at {point}"))?;
        pair.start_gateway().await?;
        pair.start_agent().await?;
        assert_loads_completely(&pair, point, &format!("after both were killed at {point}")).await?;
    }
    Ok(())
}
