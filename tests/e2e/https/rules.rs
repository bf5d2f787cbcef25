//! The user's rules for sites decide whether https is accelerated; set in the dashboard by a real browser.
use anyhow::{Context as _, Result, ensure};
use longhaul_chromium::{Browser, BrowserOptions, Names};
use longhaul_tests::{authority::TestAuthority, origin::Origin};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{Accelerated, LOAD_LIMIT};
use crate::{content::ok, page_loads::rules::rules, pair::LIMIT};

const NAMES: [&str; 2] = ["safe.test", "other.test"];

async fn site() -> Result<(Origin, Accelerated, TestAuthority)> {
    let authority = TestAuthority::new()?;
    let html = "<!doctype html><title>Safe</title><link rel=icon href=data:,><p>Safe";
    let origin = Origin::start(
        Some(authority.server(&NAMES)?),
        |_| {},
        move |_| async move { ok("text/html", html) },
    )
    .await?;
    let addresses = NAMES.map(|name| (name, origin.address()));
    let site = Accelerated::start(&addresses, &authority, "safe.test").await?;
    Ok((origin, site, authority))
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_decide_before_the_list_and_end_open_connections() -> Result<()> {
    let (_origin, site, _authority) = site().await?;
    let ours = site.exported_authority().await?;
    // A tunnel shows the origin's certificate, which this client does not accept.
    let is_accelerated = async |host: &str| {
        let answer = site.get(host, "/", "").await;
        answer.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    };
    assert!(is_accelerated("safe.test").await && !is_accelerated("other.test").await);
    let mut open = site.connect("safe.test", &ours, &[b"http/1.1"]).await?;
    open.write_all(b"HEAD / HTTP/1.1\r\nHost: safe.test\r\n\r\n")
        .await?;
    assert!(open.read_u8().await? == b'H', "the accelerated connection works");
    let words = rules(&site.pair, &["set", "safe.test", "--https", "tunnel"]).await?;
    assert!(
        words.contains("passes through unread: your rule for safe.test"),
        "{words}"
    );
    // The operator of the gateway must not read what the browser sends from now on.
    let mut rest = Vec::new();
    timeout(LIMIT, open.read_to_end(&mut rest))
        .await
        .context("the connection stays open")??;
    assert!(!is_accelerated("safe.test").await);
    let words = rules(&site.pair, &["set", "other.test", "--https", "accelerate"]).await?;
    assert!(words.contains("your rule for other.test"), "{words}");
    assert!(is_accelerated("other.test").await && !is_accelerated("safe.test").await);
    rules(&site.pair, &["pause"]).await?;
    assert!(!is_accelerated("other.test").await, "everything is paused");
    rules(&site.pair, &["remove", "--all"]).await?;
    assert!(is_accelerated("safe.test").await && !is_accelerated("other.test").await);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_sets_a_rule_in_the_dashboard() -> Result<()> {
    let (origin, site, authority) = site().await?;
    let is_read = || {
        let seen = origin.seen();
        seen.last().is_some_and(|seen| seen.headers.contains_key("via"))
    };
    let mut browser = site.browser(&[authority.pin()]).await?;
    browser
        .evaluate("https://safe.test/", "document.title", LOAD_LIMIT)
        .await?;
    assert!(is_read(), "accelerated");
    // The dashboard in a browser of its own, which uses no proxy for this machine.
    let mut user = Browser::start(&BrowserOptions::direct(Names::fixed([(
        "127.0.0.1",
        "127.0.0.1",
    )])))
    .await?;
    let token = std::fs::read_to_string(site.pair.folder().join("agent/control-token"))?;
    let dashboard = format!("http://{}/?token={}", site.pair.control()?, token.trim());
    let save = "new Promise(resolve => {
        const form = document.querySelector('form[action=\"/rules/set?name=safe.test\"]');
        form.elements.https.value = 'tunnel';
        form.elements.images.value = 'original';
        const fields = new URLSearchParams(new FormData(form));
        fetch(form.action, { method: 'POST', body: fields }).then(answer => answer.text()).then(resolve);
    })";
    let words = user.evaluate(&dashboard, save, LOAD_LIMIT).await?;
    let is_told = words
        .as_str()
        .is_some_and(|words| words.contains("your rule for safe.test"));
    ensure!(is_told, "{words}");
    let listed: Value = serde_json::from_str(&rules(&site.pair, &["list", "--json"]).await?)?;
    let rule = &listed["rules"][0];
    let said = ["name", "https", "images"].map(|key| rule[key].as_str().unwrap_or_default());
    assert_eq!(said, ["safe.test", "tunnel", "original"]);
    browser
        .evaluate("https://safe.test/again", "document.title", LOAD_LIMIT)
        .await?;
    assert!(
        !is_read(),
        "a tunnel: the gateway's HTTP client has not made the request"
    );
    Ok(())
}
