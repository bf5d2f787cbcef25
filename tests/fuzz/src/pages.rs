//! References in pages, style sheets and header fields, cookies, and learned plans of pages.
use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use longhaul_page::{
    Destination, Discovery, Initiator, LiteralUrls, Reference, RequestChain, Viewport, discover_css,
    discover_link_header,
    jar::{CookiePathObservations, Jar},
    learn::{HeldFresh, Learned, LearnedRef, RequestForm, Teachers, Testimony, Unused, Visit},
};
use longhaul_types::UnixTime;
use url::Url;

fn page() -> Url {
    "http://site.test/a/page?x=1".parse().expect("a URL")
}

const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_700_000_000));

/// Checks that every reference is one that a browser could request, whatever the source.
fn check(found: &[Reference]) {
    for reference in found {
        assert!(
            matches!(reference.url.scheme(), "http" | "https") && reference.url.has_host(),
            "{} cannot be requested",
            reference.url
        );
    }
}

/// The first byte selects the charset; the rest is a document. Split in two parts, it has the same
/// references.
pub(crate) fn page_html(bytes: &[u8]) {
    let Some((&first, html)) = bytes.split_first() else {
        return;
    };
    let charsets = [
        None,
        Some("utf-8"),
        Some("windows-1252"),
        Some("shift_jis"),
        Some("utf-16le"),
        Some("none-such"),
    ];
    let charset = charsets[usize::from(first) % charsets.len()];
    let read = |parts: &[&[u8]]| {
        let mut discovery = Discovery::new(&page(), charset, Viewport::default());
        let mut found: Vec<Reference> = parts.iter().flat_map(|part| discovery.write(part)).collect();
        let _choices = discovery.take_choices();
        found.extend(discovery.default_icon());
        found.extend(discovery.finish());
        found
    };
    let (whole, cut) = (
        read(&[html]),
        read(&[&html[..html.len() / 2], &html[html.len() / 2..]]),
    );
    check(&whole);
    let urls = |found: &[Reference]| -> Vec<String> {
        let mut urls: Vec<String> = found.iter().map(|found| found.url.to_string()).collect();
        urls.sort();
        urls.dedup();
        urls
    };
    // The default icon is known only at the end of the document; here it may have been requested earlier.
    assert_eq!(urls(&whole), urls(&cut), "the split changed the references");
}

pub(crate) fn html_seeds() -> Vec<Vec<u8>> {
    let pages: [&[u8]; 5] = [
        b"<!doctype html><base href=/b/><link rel=stylesheet href=s.css media='(min-width: 1px)'><img srcset='a.png 1x, b.png 2x' sizes=50vw>",
        b"<script src='x.js' defer></script><style>@import 'i.css'; a { background: url(p.gif) }</style><iframe srcdoc=\"<img src=f.gif>\"></iframe>",
        b"<meta charset=windows-1252><link rel='preload' as=font href=f.woff2 crossorigin><picture><source type=image/webp srcset=w.webp><img src=j.jpg loading=lazy></picture>",
        b"<meta http-equiv=refresh content='3; url=next'><object data=o.svg></object><video poster=v.jpg></video><input type=image src=i.png>",
        b"<noscript><img src=n.gif></noscript><template><img src=t.gif></template><!-- <img src=c.gif> --><body background=bg.gif style='background: url(&quot;in.gif&quot;)'>",
    ];
    let seed = |(number, html): (usize, &[u8])| {
        let number = u8::try_from(number).unwrap_or_default();
        [&[number], html].concat()
    };
    pages.into_iter().enumerate().map(seed).collect()
}

/// A document of arbitrary bytes: split in two parts, the same URLs stand in it.
pub(crate) fn literal_urls(bytes: &[u8]) {
    let read = |parts: [&[u8]; 2]| {
        let mut literals = LiteralUrls::new(&page());
        parts
            .into_iter()
            .flat_map(|part| literals.write(part))
            .collect::<Vec<Url>>()
    };
    let whole = read([bytes, b" "]);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let mut halves = LiteralUrls::new(&page());
    let mut cut = halves.write(first);
    cut.extend(halves.write(second));
    cut.extend(halves.write(b" "));
    assert_eq!(whole, cut, "the division into pieces matters");
    for url in whole {
        assert!(
            matches!(url.scheme(), "http" | "https") && url.has_host(),
            "{url}"
        );
    }
}

pub(crate) fn literal_seeds() -> Vec<Vec<u8>> {
    [
        r#"<script>f({"html":"<img src=\"https:\/\/a.test\/x.png?a=1\u0026b=2\">"})</script>"#,
        "<div data-x='{&quot;u&quot;:&quot;//b.test/y.js&amp;z&#x2F;&quot;}'> url(/c.gif) '/d.js'",
    ]
    .map(|html| html.as_bytes().to_vec())
    .to_vec()
}

/// A style sheet of arbitrary bytes.
pub(crate) fn page_css(bytes: &[u8]) {
    for charset in [None, Some("windows-1252")] {
        check(&discover_css(bytes, &page(), charset, Viewport::default()));
    }
    // The same style sheet of a document, external and inline.
    let mut discovery = Discovery::new(&page(), None, Viewport::default());
    let markup = discovery.markup();
    check(&discovery.write(&[b"<p class=a>\xd0\x96<style>", bytes].concat()));
    let (found, mut pending) = markup.sheet(bytes, &page(), None);
    check(&found);
    check(&markup.inline_fonts());
    check(&discovery.write(b"</style><b id=b>text</b><x-c style='font-family: x'>"));
    check(&markup.displayed(&mut pending));
    markup.lack_style_sheet();
    check(&discovery.finish());
    check(&markup.displayed(&mut pending));
}

pub(crate) fn css_seeds() -> Vec<Vec<u8>> {
    [
        "@charset \"utf-8\"; @import url('more.css') screen; p { background: url( \"a b.png\" ) }",
        "@font-face { font-family: x; src: local(y), url(f.woff2) format('woff2'), url(f.ttf) }",
        "@font-face { font-family: \"x y\"; src: url(f.woff2); unicode-range: U+61-7A, U+4??; font-weight: 100 900; font-style: italic }",
        ":root { --f: x; --w: 300 } .a, b { font: italic 600 12px/1.5 'x y', serif; font-weight: var(--w, 500) }",
        "@media (max-width: 10px) { a { background-image: image-set('a.png' 1x, url(b.png) 2x) } }",
        "@supports (display: grid) { @import 'no.css'; .a { content: url(//other.test/c.svg) } }",
        "a{b:url(data:image/png;base64,AAAA)} \\65 { c: url(\\2f x) } /* url(no) */",
    ]
    .map(|css| css.as_bytes().to_vec())
    .to_vec()
}

/// A `Link` field of arbitrary bytes that are valid in a field.
pub(crate) fn link_field(bytes: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(bytes) {
        let headers = HeaderMap::from_iter([(header::LINK, value)]);
        check(&discover_link_header(&headers, &page(), Viewport::default()));
    }
}

pub(crate) fn link_seeds() -> Vec<Vec<u8>> {
    [
        "</s.css>; rel=preload; as=style, <x.js>; rel=\"modulepreload\"",
        "<http://cdn.test/f.woff2>; rel=preload; as=font; crossorigin; type=\"font/woff2\"; media=\"print\"",
        "<i.png>; rel=preload; as=image; imagesrcset=\"a.png 1x, b.png 2x\"; imagesizes=\"50vw\", <>; rel",
    ]
    .map(|field| field.as_bytes().to_vec())
    .to_vec()
}

/// A `Set-Cookie` field, for the page's own host and for another: the result is a valid field value.
pub(crate) fn set_cookie(bytes: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(bytes) else {
        return;
    };
    let request = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static("own=1; two=2"))]);
    let response = HeaderMap::from_iter([(header::SET_COOKIE, value)]);
    let other: Url = "https://www.other.test/x".parse().expect("a URL");
    let mut cookie_paths = CookiePathObservations::new();
    cookie_paths.observe_response(&page(), &response);
    let mut jar = Jar::new(&page(), &request, &cookie_paths);
    let chain = RequestChain::document(Initiator::page(&page(), &HeaderMap::new()));
    for url in [&page(), &other] {
        jar.store(url, &response, Some(&chain), NOW);
        for asked in [&page(), &other] {
            let _cookie = jar.cookies_for(asked, &chain, NOW);
        }
    }
}

pub(crate) fn cookie_seeds() -> Vec<Vec<u8>> {
    [
        "sid=1; Path=/a; HttpOnly; SameSite=Lax",
        "two=; Max-Age=0; Domain=.test; Secure",
        "x=y; Expires=Wed, 21 Oct 2037 07:28:00 GMT; Domain=site.test",
        "__Host-a=b; Path=/; Secure",
    ]
    .map(|field| field.as_bytes().to_vec())
    .to_vec()
}

/// A learned record is parsed or rejected; a parsed record is written unchanged, and can be used.
pub(crate) fn learned_plan(bytes: &[u8]) {
    let Ok(learned) = Learned::read(&page(), Some(bytes), Some(bytes)) else {
        return;
    };
    let (exact, pattern) = (learned.page_record(), learned.pattern_record());
    let again = Learned::read(&page(), Some(&exact), Some(&pattern)).expect("a written record is readable");
    assert_eq!(
        (again.page_record(), again.pattern_record()),
        (exact, pattern),
        "a record changed in a round trip"
    );
    for extra in learned.extras(NOW) {
        assert!(matches!(extra.url.scheme(), "http" | "https"), "{}", extra.url);
        let _banned = learned.suppressed(&extra.url, NOW);
    }
    let mut learned = learned;
    visit(&mut learned);
    assert!(learned.page_record().len() <= 114 * 1024);
}

fn visit(learned: &mut Learned) {
    let url = |text: &str| -> Url { text.parse().expect("a URL") };
    let asked = |text: &str, destination| LearnedRef {
        url: url(text),
        destination,
        form: RequestForm::default(),
    };
    let asked = [
        asked("http://site.test/a/late.js?t=1", Destination::Script),
        asked("http://cdn.test/b.png", Destination::Image),
    ];
    let _witnesses = learned.testify(
        Testimony {
            url: 1,
            device: 2,
            literal: None,
        },
        NOW,
    );
    let _literals = learned.literals(NOW);
    let _unlearned = learned.update(&Visit {
        asked_unplanned: &asked,
        asked_behind: &[],
        asked_absent: &[LearnedRef {
            url: url("https://missing.test/x.js"),
            destination: Destination::Script,
            form: RequestForm::default(),
        }],
        pushed_used: &[url("http://site.test/s.css")],
        pushed_unused: &[Unused {
            url: url("http://site.test/never.png"),
            held: HeldFresh::No,
        }],
        teachers: Teachers::AllDevices,
        now: NOW,
    });
}

pub(crate) fn plan_seeds() -> Vec<Vec<u8>> {
    let mut learned = Learned::new(&page());
    let mut seeds = vec![learned.page_record()];
    for _ in 0..3 {
        visit(&mut learned);
        seeds.extend([learned.page_record(), learned.pattern_record()]);
    }
    seeds
}
