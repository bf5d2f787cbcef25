//! Large, deep and malicious documents.
use longhaul_page::{Discovery, MAX_REFERENCES, Viewport};

use crate::{page, paths};

const MIB: usize = 1024 * 1024;

fn discovery() -> Discovery {
    Discovery::new(&page(), None, Viewport::default())
}

#[test]
fn a_page_of_three_thousand_images() {
    let html: String = (0..3000)
        .map(|number| format!("<p><img src={number}.png>\n"))
        .collect();
    assert_eq!(paths(&html).len(), 3000);
}

#[test]
fn references_beyond_the_limit_are_ignored() {
    let html: String = (0..2 * MAX_REFERENCES)
        .map(|number| format!("<img src={number}>"))
        .collect();
    assert_eq!(paths(&html).len(), MAX_REFERENCES);
    let frames: String = (0..60)
        .map(|frame| {
            let images: String = (0..100)
                .map(|number| format!("<img src={frame}-{number}>"))
                .collect();
            format!("<iframe srcdoc='{images}'></iframe>")
        })
        .collect();
    assert_eq!(paths(&frames).len(), MAX_REFERENCES);
}

#[test]
fn a_large_document_costs_no_memory() {
    let mut discovery = discovery();
    let text = "<p class=x>text &amp; <b>more</b></p>".repeat(1000);
    for _ in 0..1000 {
        assert!(discovery.write(text.as_bytes()).is_empty());
    }
    assert_eq!(discovery.write(b"<img src=last.png>").len(), 1);
}

#[test]
fn an_endless_tag_ends_discovery_without_error() {
    for start in [
        "<img src=",
        "<img src='",
        "<",
        "<div style='background:url(x)",
        "<!--",
        "<![CDATA[",
        "</",
    ] {
        let mut discovery = discovery();
        assert_eq!(discovery.write(b"<img src=first.png>").len(), 1);
        assert!(discovery.write(start.as_bytes()).is_empty());
        let piece = vec![b'a'; 64 * 1024];
        for _ in 0..800 {
            assert!(discovery.write(&piece).is_empty());
        }
        let found = discovery.write(b"'> --> ]]> <img src=behind.png>");
        assert!(found.len() <= 2, "{start}");
        discovery.finish();
    }
}

#[test]
fn an_attribute_of_fifty_mebibytes() {
    let mut html = b"<img src=first.png><img alt='".to_vec();
    html.resize(html.len() + 50 * MIB, b'x');
    html.extend_from_slice(b"'><img src=behind.png>");
    for size in [html.len(), 16 * 1024] {
        let mut discovery = discovery();
        let found: usize = html.chunks(size).map(|piece| discovery.write(piece).len()).sum();
        assert_eq!(found, 1, "what stands before it");
    }
}

#[test]
fn inline_images_of_several_mebibytes_are_skipped() {
    let mut html = b"<img src='data:image/png;base64,".to_vec();
    html.resize(4 * MIB, b'A');
    html.extend_from_slice(b"'><img src=behind.png>");
    let mut discovery = discovery();
    let found: usize = html.chunks(1400).map(|piece| discovery.write(piece).len()).sum();
    assert_eq!(found, 1);
}

#[test]
fn deep_nesting_keeps_what_was_found() {
    for open in [
        "<div>",
        "<p>",
        "<svg>",
        "<picture>",
        "<b style='x'>",
        "<table><td>",
        "<template>",
        "<select>",
    ] {
        let html = format!("<img src=first.png>{}<img src=last.png>", open.repeat(300_000));
        let found = paths(&html);
        assert!(found.first().is_some_and(|first| first == "first.png"), "{open}");
    }
    let mut nested = "<img src=x.png>".to_owned();
    for _ in 0..10 {
        nested = format!(
            "<iframe srcdoc=\"{}\"></iframe>",
            nested.replace('&', "&amp;").replace('"', "&quot;")
        );
    }
    assert!(paths(&nested).is_empty());
}

#[test]
fn unclosed_elements_do_not_end_discovery() {
    let mut html: String = (0..50_000)
        .map(|number| format!("<li class=c{number}>text<p>more"))
        .collect();
    html.push_str("<img src=last.png>");
    assert_eq!(paths(&html), ["last.png"]);
}

#[test]
fn hostile_values_take_no_quadratic_time() {
    let long = MIB;
    for html in [
        format!("<img srcset='{}'>", "a 1x,".repeat(long / 5)),
        format!("<img srcset='{}'>", ",".repeat(long)),
        format!("<img srcset='x.png 1w' sizes='{}'>", "(".repeat(long)),
        format!("<img srcset='x.png 1w' sizes='{}'>", "(a) 1px,".repeat(long / 8)),
        format!(
            "<link rel=stylesheet href=x media='{}'>",
            "(a) and ".repeat(long / 8)
        ),
        format!(
            "<link rel=stylesheet href=x media='{}'>",
            "not (".repeat(long / 5)
        ),
        format!("<b style='{}'>", "background:url(".repeat(long / 15)),
        format!("<style>{}</style>", "@media (a) {".repeat(long / 12)),
        format!("<style>@supports (a:b){} {{}}</style>", " ".repeat(long)),
        format!("<style>{}</style>", "@import 'a' supports(".repeat(long / 21)),
        format!("<style>{}</style>", "/*".repeat(long / 2)),
        format!("<style>{}</style>", "a{background:url(x)}.b{".repeat(long / 23)),
        format!("<style>{}</style>", ".b,".repeat(long / 3)),
        waiting(20_000),
        format!("<img src='{}'>", "&".repeat(long)),
        format!("<img src='{}'>", "&#1".repeat(long / 3)),
        format!("<meta charset='{}'>", "x".repeat(long)),
        format!(
            "<meta http-equiv=content-type content='{}'>",
            "charset ".repeat(long / 8)
        ),
        format!("<link rel='{}' href=x>", "icon ".repeat(long / 5)),
        format!("<img {}>", "a=b ".repeat(long / 4)),
        format!("<base href='{}'>", "../".repeat(long / 3)),
    ] {
        let began = std::time::Instant::now();
        let _ = paths(&html);
        let took = began.elapsed();
        assert!(took.as_secs() < 5, "{} took {took:?}", &html[..40]);
    }
}

#[test]
fn malformed_markup_ends_without_error() {
    for html in [
        "",
        "<",
        "<img src=",
        "<picture><source srcset=a><img",
        "<base href='http://['><img src=x>",
        "<style>a{background:url(",
        "</picture></template></style>",
        "<source srcset=x><img src>",
        "\0<\0img src=\0x>",
    ] {
        let _ = paths(html);
    }
}

/// A document with images that wait for elements, and elements that match none of them.
fn waiting(elements: usize) -> String {
    let rules: String = (0..1000)
        .map(|number| format!(".r{number} {{ background: url({number}) }}"))
        .collect();
    let elements: String = (0..elements)
        .map(|number| format!("<b class=e{number}>"))
        .collect();
    format!("<style>{rules}</style>{elements}")
}
