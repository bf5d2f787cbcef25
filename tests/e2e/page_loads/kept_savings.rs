//! Savings that last: those of the demo's page are what its origin and the hop counted, by cause, and they are the same
//! after a restart and after a kill.
use std::{collections::BTreeMap, path::Path, sync::atomic::Ordering::Relaxed};

use anyhow::{Context as _, Result};
use longhaul_types::BitRate;
use serde_json::Value;

use super::{answer, body, origin, savings::CountingRelay, visitor::Visitor};
use crate::{
    contracts::assert_savings,
    pair::{Link, Pair},
};

const PAGE: &str = "http://site.test/";
/// The files of the demo's page, by path, with their folder's names and media types.
const FILES: [(&str, &str, &str); 10] = [
    ("/", "index.html", "text/html; charset=utf-8"),
    ("/css/site.css", "site.css", "text/css"),
    ("/css/base.css", "base.css", "text/css"),
    ("/js/site.js", "site.js", "text/javascript"),
    ("/img/hop.svg", "img/hop.svg", "image/svg+xml"),
    ("/img/horizon.jpg", "img/horizon.jpg", "image/jpeg"),
    ("/img/ship.jpg", "img/ship.jpg", "image/jpeg"),
    ("/img/train.jpg", "img/train.jpg", "image/jpeg"),
    ("/img/station.jpg", "img/station.jpg", "image/jpeg"),
    ("/img/icon.png", "img/icon.png", "image/png"),
];

type Site = BTreeMap<&'static str, (&'static str, Vec<u8>)>;

fn demo_site() -> Result<Site> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../installer/demo/src/site");
    let read = |(path, file, media): (&'static str, &str, &'static str)| {
        let bytes = std::fs::read(folder.join(file)).with_context(|| file.to_owned())?;
        Ok((path, (media, bytes)))
    };
    FILES.into_iter().map(read).collect()
}

/// Origin bytes and received bytes of bodies.
#[derive(Clone, Copy, Debug, Default)]
struct Bodies {
    origin: i64,
    received: i64,
}

fn number(value: &Value) -> i64 {
    value.as_i64().expect("an integer")
}

fn within_a_hundredth(found: i64, expected: i64) -> bool {
    (found - expected).abs() <= expected.abs() / 100
}

/// Loads the page with all its files; returns the bodies of pictures that the gateway replaced, and all others.
async fn visit(pair: &Pair, site: &Site) -> Result<(Bodies, Bodies)> {
    let urls: Vec<String> = site.keys().map(|path| format!("{PAGE}{}", &path[1..])).collect();
    let objects: Vec<&str> = urls
        .iter()
        .map(String::as_str)
        .filter(|url| *url != PAGE)
        .collect();
    let visit = Visitor::new(pair.proxy()).visit(PAGE, &objects).await?;
    let (mut pictures, mut others) = (Bodies::default(), Bodies::default());
    for (path, (_, original)) in site {
        let response = match *path {
            "/" => &visit.page,
            path => visit.object(&format!("{PAGE}{}", &path[1..])),
        };
        let is_replaced = body(response) != original.as_slice();
        let bodies = if is_replaced { &mut pictures } else { &mut others };
        bodies.origin += i64::try_from(original.len())?;
        bodies.received += i64::try_from(response.body.len())?;
    }
    Ok((pictures, others))
}

/// Waits until everything that was counted is in the file, and returns the kept savings.
async fn kept(pair: &Pair, relay: &CountingRelay) -> Result<Value> {
    let sent = i64::try_from(relay.sent.load(Relaxed))?;
    let status = pair
        .status_until(|status| {
            let (live, all) = (&status["savings"], &status["savings"]["kept"]["all"]);
            let origins =
                number(&live["bytes"]) + number(&status["bytes_down"]) - number(&live["by_cause"]["cache"]);
            // The session reports its bytes on the hop later than the responses.
            within_a_hundredth(origins, sent)
                && live["flows"] == all["flows"]
                && within_a_hundredth(number(&all["hop"]), number(&status["bytes_down"]))
        })
        .await?;
    let kept = &status["savings"]["kept"];
    assert_eq!(kept["today"], kept["all"], "one day: {kept}");
    let (hop, down) = (number(&kept["all"]["hop"]), number(&status["bytes_down"]));
    assert!(hop <= down, "{hop} of {down}");
    Ok(kept["all"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn savings_of_the_demo_page_are_what_origins_and_hop_counted_and_outlive_the_agent() -> Result<()> {
    let site = demo_site()?;
    let files = site.clone();
    let origin = origin(move |request| match files.get(request.uri().path()) {
        Some((media, bytes)) => {
            let fields = [
                ("Content-Type", *media),
                ("Cache-Control", "public, max-age=3600"),
            ];
            answer(200, &fields, bytes.clone())
        }
        None => answer(404, &[], ""),
    })
    .await?;
    let relay = CountingRelay::start(origin.address()).await?;
    let setup = relay.setup().counted().over(Link::Paced(BitRate::kbps(1_000)));
    let mut pair = Pair::start(setup).await?;
    let (pictures, others) = visit(&pair, &site).await?;
    assert!(pictures.origin > 2 * pictures.received && pictures.received > 0);

    let first = kept(&pair, &relay).await?;
    println!("{pictures:?} {others:?} {first}");
    assert_savings(&first);
    let flow = |cause: &str, side: &str| number(&first["flows"][cause][side]);
    assert!(within_a_hundredth(flow("pictures", "origin"), pictures.origin));
    assert!(within_a_hundredth(flow("pictures", "hop"), pictures.received));
    assert!(within_a_hundredth(flow("coding", "origin"), others.origin));
    let streams = ["heads", "coding", "base", "pictures", "tunnels"].map(|cause| flow(cause, "hop"));
    let (streams, hop) = (streams.iter().sum::<i64>(), number(&first["hop"]));
    let carried = |cause: &str| flow(cause, "hop") * hop / streams;
    for cause in ["pictures", "coding"] {
        let expected = flow(cause, "origin") - carried(cause);
        let saved = number(&first["by_cause"][cause]);
        assert!(
            within_a_hundredth(saved, expected),
            "{cause}: {saved}, not {expected}"
        );
    }
    for cause in ["base", "unchanged", "cache"] {
        assert_eq!(number(&first["by_cause"][cause]), 0, "{cause}");
    }
    // The rate that the session has shown grows from second to second.
    let rate = pair.status().await?["link_rate_bps"].as_f64().context("a rate")?;
    let expected = f64::from(i32::try_from(number(&first["bytes"]))?) * 8.0 / rate;
    let time = first["time_s"].as_f64().context("a time")?;
    assert!(
        time > expected / 10.0 && time < expected * 10.0,
        "{time} s, at {rate} bit/s {expected} s"
    );

    // Neither end of the agent loses anything. Without a gateway nothing is added.
    pair.kill_gateway().await?;
    pair.kill_agent().await?;
    pair.start_agent().await?;
    let after = pair.status().await?["savings"]["kept"]["all"].clone();
    assert_eq!(after["flows"], first["flows"], "after a kill");
    assert_eq!(after["by_cause"], first["by_cause"], "after a kill");
    pair.end_agent("TERM").await?;
    pair.start_agent().await?;
    let after = pair.status().await?["savings"]["kept"]["all"].clone();
    assert_eq!(after["flows"], first["flows"], "after a restart");
    assert_eq!(after["by_cause"], first["by_cause"], "after a restart");

    // The cache knows what its bodies took on the hop in an earlier run: the page saves no more than it cost.
    let (_, cached) = visit(&pair, &site).await?;
    assert!(cached.origin > 0);
    let from_cache = |status: &Value| number(&status["savings"]["kept"]["all"]["by_cause"]["cache"]);
    let bodies = flow("coding", "hop") + flow("pictures", "hop");
    let status = pair
        .status_until(|status| from_cache(status) > bodies * 9 / 10)
        .await?;
    let saved = from_cache(&status);
    assert!(saved <= bodies, "{saved} of {bodies}");
    Ok(())
}
