//! Page loads by a real Chromium from a site on loopback.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    reason = "functions shared by tests are test code, but clippy's exemption covers only #[test] functions"
)]
mod failures;
mod motion;
mod objects;
mod processes;
mod proxied;
mod site;
mod traffic;

use std::time::Duration;

use longhaul_chromium::{BrowserOptions, Names};
use longhaul_loader::{ObjectLoad, PageLoad};
use site::Site;

/// Time limit of one load on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the options of a browser that resolves only the two hosts of the site.
fn direct(site: &Site) -> BrowserOptions {
    let hosts = ["site.test", "img.test"];
    BrowserOptions::direct(Names::fixed(hosts.map(|host| (host, site.address()))))
}

/// Returns the object at a URL.
fn object<'a>(load: &'a PageLoad, url: &str) -> &'a ObjectLoad {
    let found = load.objects.iter().find(|object| object.url.as_str() == url);
    found.unwrap_or_else(|| panic!("{url} is not among {:#?}", load.objects))
}
