//! A browser behind a proxy.
use std::collections::BTreeSet;

use longhaul_chromium::{Browser, BrowserOptions, LoadOptions};
use longhaul_loader::Outcome;

use crate::{LIMIT, object, site::Site};

#[tokio::test]
async fn failures_behind_a_proxy_differ_from_missing_objects() {
    let site = Site::start().await;
    let mut browser = Browser::start(&BrowserOptions::behind(site.address()))
        .await
        .expect("starts");
    let mut options = LoadOptions::within(LIMIT);
    let loaded = browser
        .load("http://site.test/mixed", &options)
        .await
        .expect("loads");
    let outcome = |url: &str| object(&loaded.load, url).outcome.clone();
    assert_eq!(outcome("http://unknown.test/dns.svg"), Outcome::Missing);
    let reset = outcome("http://reset.test/reset.svg");
    assert!(
        matches!(&reset, Outcome::Failed(words) if words.starts_with("status 502")),
        "{reset:?}"
    );
    let tunnel = outcome("https://secure.test/x.svg");
    assert!(
        matches!(&tunnel, Outcome::Failed(words) if words.contains("TUNNEL")),
        "{tunnel:?}"
    );

    options.absent_hosts = BTreeSet::from(["secure.test".to_owned(), "reset.test".to_owned()]);
    let loaded = browser
        .load("http://site.test/mixed", &options)
        .await
        .expect("loads");
    let outcome = |url: &str| object(&loaded.load, url).outcome.clone();
    assert_eq!(outcome("https://secure.test/x.svg"), Outcome::Missing);
    assert_eq!(outcome("http://reset.test/reset.svg"), Outcome::Missing);
}
