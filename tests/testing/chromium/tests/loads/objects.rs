//! Data of the objects of a load.
use longhaul_chromium::{Browser, Cache, LoadOptions, Loaded, Viewport};
use longhaul_loader::{ObjectClass, Outcome};

use crate::{
    LIMIT, direct, object,
    site::{NOT_HERE, PICTURE, PICTURES, Site, style},
};

async fn loaded(site: &Site) -> Loaded {
    let mut options = direct(site);
    options.viewport = Viewport {
        width: 800,
        height: 600,
    };
    let mut browser = Browser::start(&options).await.expect("starts");
    let options = LoadOptions {
        screenshot: true,
        hash_bodies: true,
        ..LoadOptions::within(LIMIT)
    };
    browser.load("http://site.test/", &options).await.expect("loads")
}

#[tokio::test]
async fn a_page_load_contains_every_object() {
    let site = Site::start().await;
    let loaded = loaded(&site).await;
    let load = &loaded.load;
    let outcome = |url: &str| {
        let object = object(load, url);
        (object.class, object.outcome.clone(), object.status)
    };
    let delivered = |class| (class, Outcome::Delivered, Some(200));
    assert_eq!(outcome("http://site.test/"), delivered(ObjectClass::Document));
    assert_eq!(
        outcome("http://site.test/style.css"),
        delivered(ObjectClass::Style)
    );
    assert_eq!(
        outcome("http://site.test/script.js"),
        delivered(ObjectClass::Script)
    );
    for n in 0..PICTURES {
        let url = format!("http://site.test/picture-{n}.svg");
        assert_eq!(outcome(&url), delivered(ObjectClass::Image));
    }
    assert_eq!(
        outcome("http://img.test/elsewhere.svg"),
        delivered(ObjectClass::Image)
    );
    let redirect = outcome("http://site.test/old.svg");
    assert_eq!(redirect, (ObjectClass::Image, Outcome::Delivered, Some(302)));
    assert_eq!(outcome("http://site.test/new.svg"), delivered(ObjectClass::Image));
    let missing = (ObjectClass::Image, Outcome::Missing, Some(404));
    assert_eq!(outcome("http://site.test/missing.svg"), missing);
    // The browser does not show the page that the response was an error page.
    assert_eq!(outcome("http://img.test/missing.svg"), missing);
    let no_name = (ObjectClass::Image, Outcome::Missing, None);
    assert_eq!(outcome("http://gone.test/x.svg"), no_name);
    let broken = outcome("http://site.test/broken.svg").1;
    assert!(
        matches!(&broken, Outcome::Failed(reason) if reason.starts_with("net::ERR_")),
        "{broken:?}"
    );
    let endless = outcome("http://site.test/never");
    assert_eq!(endless, (ObjectClass::Other, Outcome::Unfinished, None));
    assert!(load.objects.iter().all(|object| object.url.scheme() == "http"));
    assert!(loaded.text.contains("said by the script"), "{}", loaded.text);
}

#[tokio::test]
async fn lengths_hashes_times_and_connections_are_correct() {
    let site = Site::start().await;
    let loaded = loaded(&site).await;
    let load = &loaded.load;
    let text = style();
    let style = object(load, "http://site.test/style.css");
    assert_eq!(style.body_bytes, text.len() as u64);
    let coded = style.coded_bytes.expect("known");
    assert!((50..1000).contains(&coded), "gzip: {coded}");
    let missing = object(load, "http://site.test/missing.svg");
    assert_eq!(
        (missing.body_bytes, missing.coded_bytes),
        (NOT_HERE.len() as u64, Some(NOT_HERE.len() as u64))
    );
    assert_eq!(style.body_hash, Some(*blake3::hash(text.as_bytes()).as_bytes()));
    let picture = object(load, "http://site.test/picture-0.svg");
    assert_eq!(picture.body_bytes, PICTURE.len() as u64);
    assert_eq!(picture.coded_bytes, Some(PICTURE.len() as u64));
    assert_eq!(
        picture.body_hash,
        Some(*blake3::hash(PICTURE.as_bytes()).as_bytes())
    );

    assert_eq!(load.objects[0].url.as_str(), "http://site.test/");
    assert!(load.objects[0].discovered.is_zero());
    assert!(load.objects.is_sorted_by_key(|object| object.discovered));
    let mut arrived = 0;
    for object in load.objects.iter().filter(|object| object.connection.is_some()) {
        let times = [
            Some(object.discovered),
            object.sent,
            object.first_byte,
            object.ended,
            Some(load.time),
        ];
        assert!(
            times.iter().all(Option::is_some) && times.is_sorted(),
            "{object:#?}"
        );
        arrived += 1;
    }
    assert!(arrived >= PICTURES + 5, "{arrived} objects");
    let first = load.first_paint.expect("painted");
    let largest = load.largest_paint.expect("painted");
    assert!(!first.is_zero() && first <= largest, "{first:?} {largest:?}");

    let by_host = site.connections();
    assert!(
        by_host.values().all(|connections| *connections <= 7),
        "six and a retry: {by_host:?}"
    );
    let all: usize = by_host.values().sum();
    assert!(
        (3..=all as u64).contains(&load.connections),
        "{} of {all}",
        load.connections
    );

    let picture = loaded.screenshot.expect("asked for");
    assert_eq!(picture[..8], *b"\x89PNG\r\n\x1a\n");
    let side = |at: usize| u32::from_be_bytes(picture[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((side(16), side(20)), (800, 600), "as its IHDR chunk says");
}

#[tokio::test]
async fn the_load_time_matches_the_clock_of_the_page() {
    let site = Site::start().await;
    let mut browser = Browser::start(&direct(&site)).await.expect("starts");
    let loaded = browser
        .load("http://site.test/timed", &LoadOptions::within(LIMIT))
        .await;
    let loaded = loaded.expect("loads");
    let times: Vec<f64> = loaded
        .text
        .split(' ')
        .map(|time| time.parse().expect("milliseconds"))
        .collect();
    let time = loaded.load.time.as_secs_f64() * 1000.0;
    println!("load event at {times:?} ms, load time {time} ms");
    // The navigation begins shortly before its request is passed on, and the event is reported when it is
    // handled.
    assert!((times[0] - 50.0..times[1] + 50.0).contains(&time));
}

#[tokio::test]
async fn the_browsers_cache_is_kept_cleared_or_bypassed() {
    let site = Site::start().await;
    let mut browser = Browser::start(&direct(&site)).await.expect("starts");
    let mut pictures = Vec::new();
    let mut cached = Vec::new();
    for cache in [Cache::Keep, Cache::Keep, Cache::Bypass, Cache::Keep, Cache::Clear] {
        let before = site.seen().len();
        let options = LoadOptions {
            cache,
            ..LoadOptions::within(LIMIT)
        };
        let loaded = browser.load("http://site.test/", &options).await.expect("loads");
        let asked = site.seen().split_off(before);
        pictures.push(
            asked
                .iter()
                .filter(|(asked, _)| asked.contains("/picture-"))
                .count(),
        );
        let style = object(&loaded.load, "http://site.test/style.css").clone();
        assert_eq!(
            (style.outcome, style.body_bytes),
            (Outcome::Delivered, style_length())
        );
        cached.push((style.coded_bytes == Some(0), style.connection.is_none()));
    }
    let (all, none) = (PICTURES, 0);
    assert_eq!(pictures, [all, none, all, none, all]);
    let (fetched, kept) = ((false, false), (true, true));
    assert_eq!(cached, [fetched, kept, fetched, kept, fetched]);
}

fn style_length() -> u64 {
    style().len() as u64
}
