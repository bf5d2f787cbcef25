//! An enrolled device that violates the session protocol: the gateway survives, other devices are not
//! affected, and the device gets a typed failure or the end of its session. Attacks on the transport are
//! tested in `longhaul-protocol` (`endpoint::tests::malicious`) and fuzzed (`authentic`).
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of twenty messages a test waits for one or two; any other is skipped or fails it"
)]

mod false_claims;
mod floods;
mod harness;
mod invalid_messages;
mod random_messages;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{Ending, ask, get},
    origin::Origin,
};
use tokio::time::{interval, timeout};

use crate::{
    content::{ok, prose},
    page_loads::peak_memory,
    pair::{Pair, Setup},
};

/// Maximum duration of an honest device's page load during an attack, sufficient for a busy machine.
const HONEST_PAGE_LIMIT: Duration = Duration::from_secs(10);

/// An origin with a page, its script, and paths that never answer.
async fn origin() -> Result<Origin> {
    Origin::start(
        None,
        |_| {},
        |request: Request<Incoming>| async move {
            if request.method() == Method::POST {
                // Only complete bodies are answered.
                return match request.into_body().collect().await {
                    Ok(_) => ok("text/plain", "taken"),
                    Err(_) => std::future::pending().await,
                };
            }
            match request.uri().path() {
                "/never" => std::future::pending().await,
                path if path.ends_with(".js") => ok("text/javascript", prose(30_000, 3)),
                _ => ok(
                    "text/html",
                    "<!doctype html><title>Page</title><script src=/honest.js></script>",
                ),
            }
        },
    )
    .await
}

async fn setup() -> Result<(Origin, Pair)> {
    let origin = origin().await?;
    let names = [("site.test", origin.address()), ("other.test", origin.address())];
    let pair = Pair::start(Setup::resolving(&names)).await?;
    assert_others_served(&pair, "before").await?;
    Ok((origin, pair))
}

/// Another device loads a page as usual.
async fn assert_others_served(pair: &Pair, what: &str) -> Result<()> {
    let began = Instant::now();
    let load = async {
        let page = ask(pair.proxy(), get("http://site.test/", &[("Accept", "text/html")])).await?;
        ensure!(
            (page.status, page.ending) == (200, Ending::Whole),
            "{what}: {}",
            page.text()
        );
        let fields = [("Accept", "*/*"), ("Referer", "http://site.test/")];
        let script = ask(pair.proxy(), get("http://site.test/honest.js", &fields)).await?;
        ensure!(
            (script.status, script.ending) == (200, Ending::Whole),
            "{what}: {}",
            script.status
        );
        ensure!(script.body == prose(30_000, 3), "{what}: the script differs");
        Ok(())
    };
    timeout(HONEST_PAGE_LIMIT, load)
        .await
        .with_context(|| format!("{what}: the page load of an honest device failed"))??;
    let status = pair.status().await?;
    ensure!(
        status["sessions"] == 1,
        "{what}: the honest device's session was lost: {status:#}"
    );
    let log = pair.gateway().log().text();
    ensure!(!log.contains("panic"), "{what}: {log}");
    println!("{what}: the honest device's page took {:?}", began.elapsed());
    Ok(())
}

/// Waits until the origin has received a request for a path.
async fn wait_for_request(origin: &Origin, path: &str) -> Result<()> {
    let mut looks = interval(Duration::from_millis(20));
    let asked = async {
        while !origin.seen().iter().any(|seen| seen.path == path) {
            looks.tick().await;
        }
    };
    timeout(HONEST_PAGE_LIMIT, asked)
        .await
        .context("the origin received no request")
}

/// Peak memory of the gateway in MB.
fn gateway_peak_memory(pair: &Pair) -> u64 {
    peak_memory(pair.gateway().pid()).unwrap_or(0) >> 20
}
