//! Pages whose motion is suppressed for a screenshot.
use longhaul_chromium::{Browser, LoadOptions, Motion};

use crate::{LIMIT, direct, site::Site};

async fn picture(site: &Site, motion: Motion) -> (String, Vec<u8>) {
    let mut options = direct(site);
    options.motion = motion;
    let mut browser = Browser::start(&options).await.expect("starts");
    let options = LoadOptions {
        screenshot: true,
        ..LoadOptions::within(LIMIT)
    };
    let url = "http://site.test/moving";
    let loaded = browser.load(url, &options).await.expect("loads");
    (loaded.text, loaded.screenshot.expect("a picture"))
}

#[tokio::test]
async fn screenshots_without_motion_are_equal() {
    let site = Site::start().await;
    let (text, one) = picture(&site, Motion::Still).await;
    let (other_text, other) = picture(&site, Motion::Still).await;
    assert!(text.contains("2018-05-16T12:00"), "{text}");
    assert_eq!(text, other_text);
    assert!(one == other, "{} and {} bytes", one.len(), other.len());
    // The screenshot waits for the object after the load event: it is requested once in each load.
    let asked = site
        .seen()
        .into_iter()
        .filter(|(asked, _)| asked.ends_with("/picture-0.svg"));
    assert_eq!(asked.count(), 2);
}

#[tokio::test]
async fn other_pages_have_the_clock_of_the_system() {
    let site = Site::start().await;
    let (text, _) = picture(&site, Motion::AsUsual).await;
    assert!(!text.contains("2018-05-16"), "{text}");
}
