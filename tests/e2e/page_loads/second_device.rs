//! What the visits of one device teach another: recorded sites in Chromium, and hosts that do not exist.
use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use longhaul_chromium::{Browser, BrowserOptions, LoadOptions};
use longhaul_hosting::TestAuthority;
use longhaul_tests::process::corpus;
use serde_json::Value;
use tokio::net::TcpListener;

use super::{
    answer,
    corpus::{accelerating, host},
    origin, page,
    visitor::Visitor,
};
use crate::{
    operations::ask_metrics,
    pair::{Pair, Setup, control, status, status_until},
};

const LOAD_LIMIT: Duration = Duration::from_secs(60);
/// A page of another site, to which browsers go on.
const NEXT: &str = "http://next.test/";
/// Recorded front pages with scripts.
const SITES: [&str; 9] = [
    "360",
    "baidu",
    "reddit",
    "sina",
    "tmall",
    "vk",
    "weibo",
    "wikipedia-portal",
    "youtube",
];

/// Number of requests that left a phase for these reasons.
fn exits(status: &Value, reasons: &[&str]) -> u64 {
    let exits = reasons.iter().map(|reason| status["exits"][*reason].as_u64());
    exits.map(Option::unwrap_or_default).sum()
}

/// Waits until the gateway has learned from the visits that have ended: until its metrics are at rest.
async fn learned(pair: &Pair) -> Result<()> {
    let (mut last, mut unchanged) = (String::new(), 0);
    while unchanged < 10 {
        let text = ask_metrics(pair, "/metrics").await?.text();
        let counts: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("longhaul_learned_") || line.starts_with("longhaul_push_"))
            .collect();
        let counts = counts.join("\n");
        unchanged = if counts == last { unchanged + 1 } else { 0 };
        last = counts;
    }
    Ok(())
}

/// Counts, for each recorded site, the requests of a second device that a manifest announced, and those that crossed the
/// hop. `LONGHAUL_BIN_DIR` selects other programs to compare with.
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_second_device_are_counted() -> Result<()> {
    let Some(folder) = corpus() else {
        println!("SKIPPED: no recorded sites; set LONGHAUL_CORPUS to their folder");
        return Ok(());
    };
    let mut sums = BTreeMap::new();
    for page in longhaul_pages::recorded::folder(&folder)? {
        if !SITES.iter().any(|site| page.name().starts_with(site)) {
            continue;
        }
        let authority = TestAuthority::new()?;
        let hosting = host(&page, &authority).await?;
        let pair = accelerating(&hosting, &authority, "all").await?;
        let second = pair
            .second_agent_with("second", &["--https-accelerate", "all"])
            .await?;
        let proxies = [("first", pair.proxy()), ("second", second.address())];
        for (device, proxy) in proxies {
            let control = match device {
                "first" => pair.control()?,
                _ => control(&pair.folder().join("second"))?,
            };
            let options = BrowserOptions {
                extra: vec!["--ignore-certificate-errors".to_owned()],
                ..BrowserOptions::behind(proxy)
            };
            let mut browser = Browser::start(&options).await?;
            let load = browser
                .load(page.url().as_str(), &LoadOptions::within(LOAD_LIMIT))
                .await;
            let status = status(control).await?;
            let announced = exits(&status, &["lookup.announced", "manifest.announced"]);
            let crossed = exits(
                &status,
                &["sent.forwarded", "sent.held", "sent.failed", "sent.promised"],
            );
            let mismatches = exits(&status, &["promised.mismatch", "promised.withdrawn"]);
            println!(
                "{}: {device} device: {announced} announced ({mismatches} of them did not fit), {crossed} crossed \
                 the hop, with the page itself; objects: {:?}",
                page.name(),
                load.as_ref()
                    .map(|loaded| loaded.load.objects.len())
                    .map_err(ToString::to_string)
            );
            let sum = sums.entry(device).or_insert((0, 0, 0));
            *sum = (sum.0 + announced, sum.1 + mismatches, sum.2 + crossed);
            let _left = browser.load(NEXT, &LoadOptions::within(LOAD_LIMIT)).await;
            learned(&pair).await?;
        }
    }
    println!("sums (announced, of them not fitting, crossed the hop): {sums:?}");
    Ok(())
}

/// Sixty requests of a page's script to a host that refuses connections: on the first device the first ones cross the
/// hop, until one has failed; on a second device none does.
#[tokio::test]
async fn sixty_requests_to_a_missing_host_cross_the_hop_only_on_the_first_device() -> Result<()> {
    const REQUESTS: usize = 60;
    const SITE: &str = "http://site.test/";
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let closed = listener.local_addr()?;
    drop(listener);
    let script = "for (i of [1]) show('http://missing.test/pixel/' + i + '.gif')";
    let origin = origin(move |request| match request.uri().path() {
        "/" => answer(200, &[("Content-Type", "text/html")], page(&["app.js"])),
        _ => answer(
            200,
            &[
                ("Content-Type", "text/javascript"),
                ("Cache-Control", "public, max-age=3600"),
            ],
            script,
        ),
    })
    .await?;
    let mut setup = Setup::resolving(&[
        ("site.test", origin.address()),
        ("next.test", origin.address()),
        ("missing.test", closed),
    ]);
    setup.gateway_config = format!("[metrics]\nlisten = \"127.0.0.1:0\"\n{}", setup.gateway_config);
    let pair = Pair::start(setup).await?;
    let pixels: Vec<String> = (1..=REQUESTS)
        .map(|number| format!("http://missing.test/pixel/{number}.gif"))
        .collect();
    let pixels: Vec<&str> = pixels.iter().map(String::as_str).collect();
    let first = Visitor::new(pair.proxy());
    first.visit(SITE, &["http://site.test/app.js"]).await?;
    let found = first.objects(SITE, &pixels).await?;
    assert!(found.values().all(|response| response.status == 502));
    let status = pair.status().await?;
    let crossed = exits(&status, &["sent.failed"]);
    println!("cold: {crossed} of {REQUESTS} requests crossed the hop");
    assert!((1..=6).contains(&crossed), "{status}");
    first.page(NEXT).await?;
    learned(&pair).await?;

    let second = pair.second_agent("second").await?;
    let control = control(&pair.folder().join("second"))?;
    let visitor = Visitor::new(second.address());
    visitor.visit(SITE, &["http://site.test/app.js"]).await?;
    // The script, and the request by which the gateway knows the host.
    status_until(control, |status| status["announced"].as_u64() >= Some(2)).await?;
    let found = visitor.objects(SITE, &pixels).await?;
    for (url, response) in &found {
        assert_eq!(response.status, 502, "{url}");
        assert!(response.field("proxy-status").is_some(), "{url}");
    }
    let status = status_until(control, |_| true).await?;
    let crossed = exits(&status, &["sent.failed"]);
    println!("second device: {crossed} of {REQUESTS} requests crossed the hop");
    assert_eq!(crossed, 0, "{status}");
    Ok(())
}
