//! A browser sends no network traffic except for loading the page.
use std::{collections::BTreeSet, fs, path::Path};

use longhaul_chromium::{Browser, BrowserOptions, LoadOptions};
use serde_json::Value;
use url::Url;

use crate::{LIMIT, direct, site::Site};

/// Returns the log's events of these kinds, as (kind, parameters).
fn events(log: &Path, kinds: &[&str]) -> Vec<(String, Value)> {
    let log = fs::read(log).expect("written at the end");
    let log: Value = serde_json::from_slice(&log).expect("a whole log");
    let numbers = log["constants"]["logEventTypes"]
        .as_object()
        .expect("names of kinds");
    let all = log["events"].as_array().expect("events");
    let mut found = Vec::new();
    for kind in kinds {
        let number = numbers
            .get(*kind)
            .unwrap_or_else(|| panic!("no events are called {kind}"));
        let of_kind = all.iter().filter(|event| event["type"] == *number);
        found.extend(of_kind.map(|event| ((*kind).to_owned(), event["params"].clone())));
    }
    found
}

async fn load_and_close(mut options: BrowserOptions, log: &Path) {
    options.extra.push(format!("--log-net-log={}", log.display()));
    let mut browser = Browser::start(&options).await.expect("starts");
    for _ in 0..2 {
        let loaded = browser
            .load("http://site.test/", &LoadOptions::within(LIMIT))
            .await;
        loaded.expect("loads");
    }
    browser.close().await;
}

#[tokio::test]
async fn only_the_page_causes_queries_and_connections() {
    let site = Site::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("net.json");
    load_and_close(direct(&site), &log).await;

    let questions = events(&log, &["DNS_TRANSACTION", "HOST_RESOLVER_SYSTEM_TASK"]);
    assert!(questions.is_empty(), "{questions:#?}");
    for (_, asked) in events(&log, &["URL_REQUEST_START_JOB"]) {
        let Some(url) = asked["url"].as_str() else {
            continue;
        };
        let url = Url::parse(url).expect("a URL");
        let host = url.host_str().unwrap_or_default();
        let known = ["site.test", "img.test", "gone.test", "127.0.0.1", ""].contains(&host);
        assert!(known, "Chromium requests {url}");
    }
    let mut addresses = BTreeSet::new();
    for (_, attempt) in events(&log, &["TCP_CONNECT_ATTEMPT"]) {
        addresses.extend(attempt["address"].as_str().map(str::to_owned));
    }
    assert_eq!(addresses, BTreeSet::from([site.address().to_string()]));
}

#[tokio::test]
async fn a_proxy_receives_only_requests_of_the_page() {
    let site = Site::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("net.json");
    load_and_close(BrowserOptions::behind(site.address()), &log).await;
    let hosts: BTreeSet<String> = site.connections().into_keys().collect();
    let known = ["gone.test", "img.test", "site.test"].map(str::to_owned);
    assert_eq!(hosts, BTreeSet::from(known), "{:#?}", site.seen());
    let questions = events(&log, &["DNS_TRANSACTION", "HOST_RESOLVER_SYSTEM_TASK"]);
    assert!(questions.is_empty(), "{questions:#?}");
}
