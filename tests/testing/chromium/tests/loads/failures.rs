//! Loads that fail, and values of expressions.
use std::time::Duration;

use longhaul_chromium::{Browser, EvaluateError, LoadError, LoadOptions};
use longhaul_loader::Outcome;

use crate::{LIMIT, direct, object, site::Site};

#[tokio::test]
async fn a_load_beyond_its_limit_returns_its_objects() {
    let site = Site::start().await;
    let mut browser = Browser::start(&direct(&site)).await.expect("starts");
    // The first load of a browser is slow on a busy machine.
    browser
        .load("http://site.test/", &LoadOptions::within(LIMIT))
        .await
        .expect("loads");
    let limit = Duration::from_secs(3);
    let error = browser
        .load("http://site.test/endless", &LoadOptions::within(limit))
        .await;
    let error = error.expect_err("it never ends");
    assert_eq!(
        error.to_string(),
        "http://site.test/endless did not load within 3 s"
    );
    let LoadError::TimedOut { load, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(load.time, limit);
    assert_eq!(
        object(&load, "http://site.test/endless").outcome,
        Outcome::Delivered
    );
    assert_eq!(
        object(&load, "http://site.test/never").outcome,
        Outcome::Unfinished
    );

    let loaded = browser
        .load("http://site.test/", &LoadOptions::within(LIMIT))
        .await;
    assert!(loaded.is_ok(), "the browser goes on");
}

#[tokio::test]
async fn a_missing_document_is_an_error() {
    let site = Site::start().await;
    let mut browser = Browser::start(&direct(&site)).await.expect("starts");
    let options = LoadOptions::within(LIMIT);
    let error = browser
        .load("http://gone.test/", &options)
        .await
        .expect_err("no such name");
    let LoadError::Document { error, load } = error else {
        panic!("{error}");
    };
    assert_eq!(error, "net::ERR_NAME_NOT_RESOLVED");
    assert_eq!(load.objects.len(), 1);
    assert_eq!(load.objects[0].outcome, Outcome::Missing);
    let error = browser
        .load("no address", &options)
        .await
        .expect_err("no address");
    assert!(matches!(error, LoadError::Url(_)), "{error}");
    let missing = browser
        .load("http://site.test/missing.svg", &options)
        .await
        .expect("a page");
    assert_eq!(missing.load.objects[0].outcome, Outcome::Missing);
    assert!(missing.text.contains("Not here"));
}

#[tokio::test]
async fn dialogs_do_not_stop_a_page() {
    let site = Site::start().await;
    let mut browser = Browser::start(&direct(&site)).await.expect("starts");
    let options = LoadOptions::within(LIMIT);
    let loaded = browser.load("http://site.test/alert", &options).await;
    assert_eq!(loaded.expect("loads").text, "silent");
}

#[tokio::test]
async fn expressions_are_evaluated() {
    let site = Site::start().await;
    let mut browser = Browser::start(&direct(&site)).await.expect("starts");
    let fetched = "fetch('/style.css').then(answer => answer.text()).then(text => text.length)";
    let value = browser
        .evaluate("http://site.test/", fetched, LIMIT)
        .await
        .expect("a value");
    assert_eq!(value.as_u64(), Some(crate::site::style().len() as u64));
    let threw = browser
        .evaluate("http://site.test/", "nonsense.of.mine", LIMIT)
        .await;
    assert!(
        matches!(&threw, Err(EvaluateError::Threw(words)) if words.contains("nonsense")),
        "{threw:?}"
    );
    let limit = Duration::from_secs(3);
    let never = browser
        .evaluate("http://site.test/", "new Promise(() => {})", limit)
        .await;
    assert!(matches!(never, Err(EvaluateError::TimedOut(_))), "{never:?}");
}
