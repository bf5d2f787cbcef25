//! The browser's processes and files.
use std::{fs, path::Path, time::Instant};

use longhaul_chromium::{Browser, BrowserOptions, ChromiumError, LoadOptions};

use crate::{LIMIT, direct, site::Site};

/// Returns the running processes (without zombies) that have this folder in their environment, which all of a
/// browser's processes inherit.
fn processes_of(profile: &Path) -> Vec<String> {
    let mark = profile.as_os_str().as_encoded_bytes();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("Linux").filter_map(Result::ok) {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.windows(mark.len()).any(|part| part == mark) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    found
}

#[tokio::test]
async fn dropping_a_browser_ends_its_processes_and_removes_its_files() {
    let site = Site::start().await;
    let mut browser = Browser::start(&direct(&site)).await.expect("starts");
    let loaded = browser
        .load("http://site.test/", &LoadOptions::within(LIMIT))
        .await;
    loaded.expect("loads");
    assert!(browser.version().await.expect("answers").contains("Chrom"));
    let profile = browser.profile().to_owned();
    let processes = processes_of(&profile).len();
    assert!(processes > 2, "a browser is many processes: {processes}");
    drop(browser);
    let mut left = processes_of(&profile);
    // Killed processes need a moment to disappear.
    let began = Instant::now();
    while !left.is_empty() {
        assert!(began.elapsed() < LIMIT, "{left:#?}");
        tokio::task::yield_now().await;
        left = processes_of(&profile);
    }
    assert!(!profile.exists());
}

#[tokio::test]
async fn a_browser_that_does_not_start_reports_the_reason() {
    let mut options = BrowserOptions {
        // Chromium prints its version and ends.
        extra: vec!["--version".to_owned()],
        ..BrowserOptions::default()
    };
    let error = Browser::start(&options).await.expect_err("it ends");
    assert!(matches!(error, ChromiumError::NotStarted { .. }), "{error}");
    options.folder = Some("/no/such/folder".into());
    let error = Browser::start(&options).await.expect_err("no place");
    assert!(matches!(error, ChromiumError::Profile(_)), "{error}");
}
