//! Revisits by a browser with its own cache: it requests only what it needs, accelerated or not, and no
//! further requests reach the origin.
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, Result};
use http::{Request, Response, header};
use hyper::body::Incoming;
use longhaul_chromium::{Browser, LoadOptions};
use longhaul_loader::Outcome;
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin, Seen},
    relay::Direction,
};
use longhaul_types::ContentHash;

use super::{
    Accelerated, LOAD_LIMIT,
    outage::{HOSTS, pair_with_relay},
};
use crate::content::{ok, prose};

const SIZE: usize = 30_000;
/// Objects of the page with their caching: two fresh ones, two unchanged and one changed one that must be
/// validated, and one that is not storable.
const OBJECTS: [(&str, &str); 6] = [
    ("/fresh.css", "max-age=3600"),
    ("/fresh.js", "max-age=3600"),
    ("/same.css", "no-cache"),
    ("/same.js", "no-cache"),
    ("/news.js", "no-cache"),
    ("/never.js", "no-store"),
];

fn body(path: &str, visit: u64) -> Vec<u8> {
    if path == "/" {
        let tag = |(path, _): &(&str, &str)| match path.ends_with("css") {
            true => format!("<link rel=stylesheet href={path}>"),
            false => format!("<script src={path}></script>"),
        };
        let tags: String = OBJECTS.iter().map(tag).collect();
        return format!("<!doctype html><title>Depot</title><link rel=icon href=data:,>{tags}<p>Depot")
            .into_bytes();
    }
    let seed: u64 = path.bytes().map(u64::from).sum();
    let edition = if path == "/news.js" { visit } else { 0 };
    let mut body = format!("/* {path} edition {edition} ").into_bytes();
    // The browser returns text without its encoding, so the body is ASCII.
    body.extend(prose(SIZE, seed).into_iter().filter(u8::is_ascii));
    body.extend_from_slice(b" */");
    body
}

fn answer(request: &Request<Incoming>, visit: u64) -> Response<AnswerBody> {
    let path = request.uri().path();
    let known = OBJECTS.iter().find(|(known, _)| *known == path);
    let caching = known.map_or("no-cache", |(_, caching)| caching);
    let edition = if path == "/news.js" { visit } else { 0 };
    let tag = format!("\"{path} {edition}\"");
    let is_same = request
        .headers()
        .get(header::IF_NONE_MATCH)
        .is_some_and(|held| *held == *tag);
    let mut response = match path.rsplit('.').next() {
        _ if is_same => ok("text/plain", ""),
        Some("css") => ok("text/css", body(path, visit)),
        Some("js") => ok("text/javascript", body(path, visit)),
        _ => ok("text/html", body(path, visit)),
    };
    if is_same {
        *response.status_mut() = http::StatusCode::NOT_MODIFIED;
        response.headers_mut().remove(header::CONTENT_TYPE);
    }
    for (name, value) in [(header::CACHE_CONTROL, caching), (header::ETAG, &tag)] {
        let value = http::HeaderValue::from_str(value).expect("a valid field");
        response.headers_mut().insert(name, value);
    }
    response
}

/// Loads the page in its state of this visit and checks each body.
async fn visit(browser: &mut Browser, host: &str, visit: u64) -> Result<()> {
    let mut options = LoadOptions::within(LOAD_LIMIT);
    options.hash_bodies = true;
    let loaded = browser.load(&format!("https://{host}/"), &options).await?;
    for path in OBJECTS.iter().map(|(path, _)| *path).chain(["/"]) {
        let url = format!("https://{host}{path}");
        let mut objects = loaded.load.objects.iter();
        let object = objects.find(|object| object.url.as_str() == url);
        let object = object.with_context(|| format!("{url} was not loaded"))?;
        assert_eq!(object.outcome, Outcome::Delivered, "visit {visit}: {object:?}");
        let expected = ContentHash::of(&body(path, visit));
        assert_eq!(
            object.body_hash,
            Some(*expected.as_bytes()),
            "visit {visit}: {url}"
        );
    }
    Ok(())
}

fn count(seen: &[Seen], path: &str) -> usize {
    seen.iter().filter(|seen| seen.path == path).count()
}

async fn revisit_with_a_browser(
    site: &Accelerated,
    browser: &mut Browser,
    host: &str,
    origin: (&Origin, &AtomicU64),
) -> Result<()> {
    let (origin, edition) = origin;
    let relay = site.pair.relay();
    let mut down = Vec::new();
    let mut seen = Vec::new();
    for number in 1..=2 {
        edition.store(number, Ordering::Relaxed);
        let (before, asked) = (relay.passed(Direction::Down), origin.seen().len());
        visit(browser, host, number).await?;
        down.push(relay.passed(Direction::Down) - before);
        seen = origin.seen().split_off(asked);
    }
    println!(
        "{host}: {down:?} bytes received over the hop; {} requests of the second visit",
        seen.len()
    );
    for (path, caching) in OBJECTS {
        let expected = usize::from(caching != "max-age=3600");
        assert_eq!(count(&seen, path), expected, "{host}{path} on the second visit");
    }
    assert_eq!(count(&seen, "/"), 1, "{host}");
    for path in ["/", "/same.css", "/same.js"] {
        let mut same = seen.iter().filter(|seen| seen.path == path);
        let is_conditional = same.all(|seen| seen.headers.contains_key(header::IF_NONE_MATCH));
        assert!(is_conditional, "{host}{path}: {seen:?}");
    }
    let [first, second] = down.as_slice() else {
        anyhow::bail!("two visits")
    };
    assert!(second < first, "{host}: {down:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revisit_with_a_browser_cache_requests_only_what_it_needs() -> Result<()> {
    let authority = TestAuthority::new()?;
    let edition = Arc::new(AtomicU64::new(1));
    let now = Arc::clone(&edition);
    let serve = move |request: Request<Incoming>| {
        let response = answer(&request, now.load(Ordering::Relaxed));
        async move { response }
    };
    let origin = Origin::start(Some(authority.server(&HOSTS)?), |_| {}, serve).await?;
    let site = pair_with_relay(&authority, origin.address()).await?;
    let mut browser = site.browser(&[authority.pin()]).await?;
    for host in HOSTS {
        revisit_with_a_browser(&site, &mut browser, host, (&origin, &edition)).await?;
    }
    Ok(())
}
