//! Documented properties of the generator, tested for every reference page.
#![expect(
    clippy::unwrap_used,
    reason = "the lints treat functions shared by tests as product code"
)]

use std::{collections::BTreeSet, time::Instant};

use http::Method;
use longhaul_pages::{Page, Scheme, ideal_sizes, reference};
use longhaul_replay::page::{Destination, Viewport, discover_css, discover_html};
use url::Url;

fn body(page: &Page, url: &Url) -> bytes::Bytes {
    let answer = page.answer(&Method::GET, url);
    let answer = answer.unwrap_or_else(|| panic!("{url} is not answered"));
    assert_eq!(answer.status, 200, "{url}");
    answer.body
}

/// Returns all objects that a load of `start` requests.
fn discovered(page: &Page, start: &Url) -> BTreeSet<Url> {
    let mut found = BTreeSet::new();
    let mut open = vec![(start.clone(), Destination::Document)];
    while let Some((url, destination)) = open.pop() {
        if !found.insert(url.clone()) {
            continue;
        }
        let body = body(page, &url);
        let references = match destination {
            Destination::Document | Destination::Frame => {
                discover_html(&body, &url, Some("utf-8"), Viewport::default())
            }
            Destination::Style => discover_css(&body, &url, None, Viewport::default()),
            Destination::InactiveStyle
            | Destination::Script
            | Destination::Image
            | Destination::Font
            | Destination::Icon
            | Destination::Manifest
            | Destination::Other => Vec::new(),
        };
        open.extend(
            references
                .into_iter()
                .map(|reference| (reference.url, reference.destination)),
        );
    }
    found
}

fn ratio(part: u64, whole: u64) -> f64 {
    f64::from(u32::try_from(part).unwrap()) / f64::from(u32::try_from(whole).unwrap())
}

fn brotli(body: &[u8]) -> u64 {
    let mut coder = mbrotli::Compressor::new(mbrotli::EncoderConfig::default()).unwrap();
    u64::try_from(coder.compress(body).unwrap().len()).unwrap()
}

/// Returns the sizes of all text by brotli at its highest quality, and by `gzip -9`.
fn text_sizes(page: &Page) -> (u64, u64) {
    let objects = page.objects();
    let texts = objects.iter().filter_map(|url| page.answer(&Method::GET, url));
    let brotli = texts
        .filter(longhaul_pages::Answer::is_text)
        .map(|text| brotli(&text.body))
        .sum();
    (brotli, ideal_sizes(page, &objects).text_gzip)
}

/// Returns the share of the objects that are new in the next edition, and of the bytes: lines of text, and
/// whole images.
fn changed(page: &Page, next: &Page) -> (f64, f64) {
    let (mut objects, mut all, mut bytes, mut total) = (0, 0, 0, 0);
    let mut lines = BTreeSet::new();
    for url in page.objects() {
        let text = body(page, &url);
        lines.extend(text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec));
    }
    for url in next.objects() {
        let answer = next.answer(&Method::GET, &url).unwrap();
        let before = page.answer(&Method::GET, &url).map(|answer| answer.body);
        all += 1;
        total += u64::try_from(answer.body.len()).unwrap();
        if before.as_ref() == Some(&answer.body) {
            continue;
        }
        objects += 1;
        let new: usize = if answer.is_text() {
            let own = answer.body.split(|&byte| byte == b'\n');
            own.filter(|line| !lines.contains(*line))
                .map(|line| line.len() + 1)
                .sum()
        } else {
            answer.body.len()
        };
        bytes += u64::try_from(new).unwrap();
    }
    (ratio(objects, all), ratio(bytes, total))
}

/// Asserts that `value` deviates from `wanted` by at most `tolerance`, as a share of `wanted`.
fn assert_near(value: u64, wanted: u64, tolerance: f64, what: &str) {
    let error = ratio(value, wanted) - 1.0;
    assert!(
        error.abs() <= tolerance,
        "{what}: {value} instead of {wanted} ({:+.2} %)",
        error * 100.0
    );
}

#[test]
fn pages_match_the_published_figures() {
    for page in reference::all() {
        let (name, published) = (page.name(), page.published().unwrap());
        let began = Instant::now();
        let facts = page.facts();
        let took = began.elapsed();
        let texts = ideal_sizes(&page, &page.objects());
        let gzip = ratio(texts.text_gzip, texts.text_raw);
        println!(
            "{name:11} {:6} B, wanted {:6} ({:+.2} %), {} objects, {} hosts, largest {}, text {:.3}, gzip {gzip:.4}, made in \
             {took:.1?}",
            facts.bytes,
            published.bytes,
            (ratio(facts.bytes, published.bytes) - 1.0) * 100.0,
            facts.objects,
            facts.hosts,
            facts.largest,
            ratio(facts.text_bytes, facts.bytes),
        );
        assert_near(facts.bytes, published.bytes, 0.01, name);
        assert_eq!(facts.objects, published.objects, "{name}");
        assert_eq!(
            facts.hosts,
            page.hosts().len(),
            "{name}: every host has an object"
        );
        if let Some(domains) = published.domains {
            assert_eq!(facts.hosts, domains, "{name}");
        }
        if let Some(largest) = published.largest {
            assert_near(facts.largest, largest, 0.01, name);
        }
        if let Some(share) = published.text_share {
            let off = ratio(facts.text_bytes, facts.bytes) - share;
            assert!(off.abs() < 0.02, "{name}: text {off:+.3}");
        }
        if let Some(wanted) = published.text_gzip {
            assert!(
                (gzip / wanted - 1.0).abs() < 0.03,
                "{name}: gzip {gzip}, wanted {wanted}"
            );
        }
        assert_eq!(facts.bytes, texts.raw);
        assert_eq!(texts.unknown, 0);
    }
}

#[test]
fn compression_ratios_match_real_text() {
    for page in reference::all() {
        let (brotli, gzip) = text_sizes(&page);
        let (plain, name) = (page.facts().text_bytes, page.name());
        let (by_gzip, further) = (ratio(gzip, plain), ratio(brotli, gzip));
        println!("{name:11} gzip {by_gzip:.4}, brotli/gzip {further:.4}");
        assert!((0.19..=0.41).contains(&by_gzip), "{name}: gzip {by_gzip}");
        assert!((0.72..=0.88).contains(&further), "{name}: brotli/gzip {further}");
    }
}

#[test]
fn the_next_edition_changes_part_of_the_page() {
    for page in reference::all() {
        let next = page.next_edition().unwrap();
        let name = page.name();
        let (objects, bytes) = changed(&page, &next);
        println!("{name:11} changed: {objects:.3} of the objects, {bytes:.3} of the bytes");
        for share in [objects, bytes] {
            assert!((0.05..=0.30).contains(&share), "{name}: {share}");
        }
        assert_near(next.facts().bytes, page.facts().bytes, 0.01, name);
        assert_eq!(next.facts().objects, page.facts().objects, "{name}");
        assert_eq!((next.url(), next.edition()), (page.url(), 2));
        assert!(next.next_edition().is_none());
        for url in next.objects() {
            let after = next.answer(&Method::GET, &url).unwrap();
            if let Some(before) = page.answer(&Method::GET, &url) {
                let same = before.body == after.body;
                assert_eq!(before.headers["etag"] == after.headers["etag"], same, "{url}");
                // Objects replaced under their URL must not be cached without validation, or caches would
                // show the old page.
                assert!(same || before.headers["cache-control"] == "no-cache", "{url}");
            }
        }
    }
}

#[test]
fn most_objects_of_cnn_are_tiny() {
    let page = reference::named("cnn").unwrap();
    let sizes: Vec<usize> = page.objects().iter().map(|url| body(&page, url).len()).collect();
    let below = |limit: usize| {
        let count = sizes.iter().filter(|size| **size < limit).count();
        ratio(u64::try_from(count).unwrap(), u64::try_from(sizes.len()).unwrap())
    };
    assert!(
        below(1000) > 0.6 && below(2000) > 0.7,
        "{} {}",
        below(1000),
        below(2000)
    );
}

#[test]
fn the_static_page_matches_the_benchmark() {
    let page = reference::named("static").unwrap();
    assert_eq!(body(&page, page.url()).len(), 40_000);
    let ideal = ideal_sizes(&page, &page.objects());
    assert_near(ideal.gzip(), 88_268, 0.005, "size of the ideal transfer");
    assert_near(ideal.text_gzip, 12_904, 0.01, "the HTML by gzip");
    let images = page
        .objects()
        .into_iter()
        .skip(1)
        .map(|url| body(&page, &url).len());
    let (smallest, largest) = (images.clone().min().unwrap(), images.max().unwrap());
    assert!(
        (180..=220).contains(&smallest) && (7_500..=8_300).contains(&largest),
        "{smallest} {largest}"
    );
}

#[test]
fn every_image_decodes() {
    let mut formats = BTreeSet::new();
    for page in reference::all() {
        for url in page.objects() {
            let answer = page.answer(&Method::GET, &url).unwrap();
            if answer.is_text() {
                continue;
            }
            let format = image::guess_format(&answer.body).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(format.to_mime_type(), answer.media_type(), "{url}");
            formats.insert(answer.media_type());
            let image = image::load_from_memory(&answer.body);
            image.unwrap_or_else(|error| panic!("{url}: {error}"));
        }
    }
    assert_eq!(formats.len(), 3, "{formats:?}");
}

#[test]
fn the_sibling_shares_the_site_but_not_the_text() {
    for page in reference::all() {
        let sibling = page.sibling().unwrap();
        let (main, other) = (discovered(&page, page.url()), discovered(&page, &sibling));
        let shared = main.intersection(&other).count();
        let own = other.len() - shared;
        assert!(shared > 0 && own > 0, "{page:?}: {shared} shared, {own} own");
        let (first, second) = (body(&page, page.url()), body(&page, &sibling));
        assert_eq!(first.len(), second.len(), "{page:?}");
        assert_ne!(first, second);
    }
}

#[test]
fn references_lead_to_exactly_the_objects_of_the_page() {
    for page in reference::all() {
        for page in [page.clone(), page.next_edition().unwrap()] {
            let page = page.with_scheme(Scheme::Https);
            let objects: BTreeSet<Url> = page.objects().into_iter().collect();
            assert_eq!(discovered(&page, page.url()), objects, "{page:?}");
        }
    }
}

#[test]
fn unknown_urls_have_no_response() {
    let page = reference::named("mail").unwrap();
    for url in [
        "http://www.mail.test/favicon.ico",
        "http://www.other.test/",
        "http://www.mail.test/more/none",
    ] {
        assert!(
            page.answer(&Method::GET, &url.parse().unwrap()).is_none(),
            "{url}"
        );
    }
    let refused = page.answer(&Method::POST, page.url()).unwrap();
    assert_eq!(
        (refused.status.as_u16(), &refused.headers["allow"]),
        (405, &"GET, HEAD".parse().unwrap())
    );
    assert!(reference::named("none").is_none());
    assert_eq!(reference::names().count(), 21);
}
