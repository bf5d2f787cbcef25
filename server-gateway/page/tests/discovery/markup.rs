//! Constructs of markup.
use longhaul_page::{
    Certainty, CrossOrigin, Destination, Discovery, Importance, ReferrerPolicy, Viewport, estimated_viewport,
};

use crate::{found, page, paths, references};

#[test]
fn markup_of_a_usual_page() {
    let html = r##"<!doctype html><title>t</title><link rel="Stylesheet" href="a.css?x=1&amp;y=2">
        <link rel=stylesheet media=print href=print.css><link rel="alternate stylesheet" href=no.css>
        <link rel="alternate stylesheet" title=big href=alt.css><link rel=stylesheet disabled href=no.css>
        <link rel="shortcut icon" href=old.ico><link rel=icon href=icon.png><link rel=canonical href=/c>
        <link rel=preload as=font href=f.woff2 crossorigin><link rel=prefetch href=next><link rel=dns-prefetch href=//d.test>
        <script src=//b.test/b.js></script><script type=module src=m.js></script><script nomodule src=no.js></script>
        <script type="application/ld+json" src=no.json></script><script>document.write('<img src=no.png>')</script>
        <style>@import "i.css"; body { background: url(bg.png) }</style>
        <style media=print>body { background: url(no.png) }</style>
        <noscript><img src=no.png></noscript><template><img src=no.png></template><!-- <img src=no.png> -->
        <img src="p.png#part"><img data-src=no.png><img src="data:image/gif;base64,AA"><img src="">
        <div style="background:url('d.png')"></div><input type=image src=in.png><video poster=v.jpg src=no.mp4></video>
        <iframe src=frame></iframe><iframe srcdoc="<img src=&quot;doc.png&quot;>" src=no></iframe>
        <svg><image href="s.svg"/><use href="#local"/><use xlink:href="sprite.svg#x"/></svg>
        <embed src=no.swf><embed src=e.svg><object data=o.pdf></object><object data=no type=application/x-shockwave-flash></object>
        <img src="https://c.test/c.png"><table background=t.gif><audio src=no.mp3></audio><a href=no>x</a>"##;
    let expected = [
        "Style http://a.test/dir/a.css?x=1&y=2",
        "InactiveStyle http://a.test/dir/print.css",
        "InactiveStyle http://a.test/dir/alt.css",
        "Font http://a.test/dir/f.woff2",
        "Script http://b.test/b.js",
        "Script http://a.test/dir/m.js",
        "Style http://a.test/dir/i.css",
        "Image http://a.test/dir/bg.png",
        "Image http://a.test/dir/p.png",
        "Image http://a.test/dir/d.png",
        "Image http://a.test/dir/in.png",
        "Image http://a.test/dir/v.jpg",
        "Frame http://a.test/dir/frame",
        "Image http://a.test/dir/doc.png",
        "Image http://a.test/dir/s.svg",
        "Image http://a.test/dir/sprite.svg",
        "Other http://a.test/dir/e.svg",
        "Other http://a.test/dir/o.pdf",
        "Image https://c.test/c.png",
        "Image http://a.test/dir/t.gif",
        "Icon http://a.test/dir/icon.png",
    ];
    assert_eq!(found(html), expected);
}

#[test]
fn importance_certainty_and_mode() {
    use Certainty::{Likely, Sure};
    use CrossOrigin::{Anonymous, Credentials, None as NoCors};
    use Importance::{Blocking, High, Lazy, Normal};
    let cases = [
        ("<link rel=stylesheet href=x>", Blocking, Sure, NoCors),
        (
            "<link rel=stylesheet href=x crossorigin=use-credentials>",
            Blocking,
            Sure,
            Credentials,
        ),
        ("<link rel=stylesheet media=print href=x>", Lazy, Sure, NoCors),
        (
            "<link rel=stylesheet media=print onload=\"this.media='all'\" href=x>",
            High,
            Sure,
            NoCors,
        ),
        ("<script src=x></script>", Blocking, Sure, NoCors),
        ("<script async src=x></script>", High, Sure, NoCors),
        ("<script defer src=x crossorigin></script>", High, Sure, Anonymous),
        (
            "<script async fetchpriority=low src=x></script>",
            Normal,
            Sure,
            NoCors,
        ),
        ("<script type=module src=x></script>", High, Sure, Anonymous),
        (
            "<script type=module crossorigin=use-credentials src=x></script>",
            High,
            Sure,
            Credentials,
        ),
        ("<link rel=modulepreload href=x>", High, Sure, Anonymous),
        ("<link rel=preload as=script href=x>", High, Sure, NoCors),
        ("<link rel=preload as=style href=x>", High, Sure, NoCors),
        (
            "<link rel=preload as=font href=x crossorigin=anonymous>",
            High,
            Sure,
            Anonymous,
        ),
        ("<link rel=preload as=image href=x>", Normal, Sure, NoCors),
        (
            "<link rel=preload as=image fetchpriority=high href=x>",
            High,
            Sure,
            NoCors,
        ),
        (
            "<link rel=preload as=fetch href=x crossorigin>",
            High,
            Sure,
            Anonymous,
        ),
        ("<img src=x>", Normal, Sure, NoCors),
        ("<img src=x crossorigin=bogus>", Normal, Sure, Anonymous),
        ("<img src=x fetchpriority=high>", High, Sure, NoCors),
        ("<img src=x loading=LAZY>", Lazy, Likely, NoCors),
        ("<img src=x loading=eager>", Normal, Sure, NoCors),
        ("<iframe src=x></iframe>", High, Sure, NoCors),
        ("<iframe src=x loading=lazy></iframe>", Lazy, Likely, NoCors),
        ("<b style='background:url(x)'>", Normal, Likely, NoCors),
        ("<style>@font-face{src:url(x)}</style>", High, Likely, Anonymous),
        ("<style>@import 'x';</style>", Blocking, Sure, NoCors),
        ("<link rel=icon href=x>", Lazy, Likely, NoCors),
    ];
    for (html, importance, certainty, cross_origin) in cases {
        let found = references(html);
        assert_eq!(found.len(), 1, "{html}");
        let one = &found[0];
        assert_eq!(one.url.path(), "/dir/x", "{html}");
        assert_eq!(
            (one.importance, one.certainty, one.cross_origin),
            (importance, certainty, cross_origin),
            "{html}"
        );
    }
}

#[test]
fn references_that_browsers_do_not_load_are_ignored() {
    for html in [
        "<link rel=preload href=x>",
        "<link rel=preload as=audio href=x>",
        "<link rel=preload as=style media=print href=x>",
        "<link rel=preload as=image type=image/jxl href=x>",
        "<link rel=preload as=font type=application/vnd.ms-fontobject href=x>",
        "<link rel=prefetch href=x>",
        "<link rel=preconnect href=//x.test>",
        "<link rel=stylesheet type=text/less href=x>",
        "<link rel=stylesheet>",
        "<link rel=manifest href=x>",
        "<meta http-equiv=refresh content='0; url=x'>",
        "<meta http-equiv=content-security-policy content=\"default-src 'none'\">",
        "<script type=text/template src=x></script>",
        "<script src='data:text/javascript,1'></script>",
        "<textarea><img src=x></textarea><title><img src=x></title><xmp><img src=x></xmp>",
        "<iframe><img src=x></iframe><noframes><img src=x></noframes>",
        "<iframe src='about:blank'></iframe><iframe src='javascript:1'></iframe>",
        "<img src=\"x",
        "<!--<img src=x>",
        "<![CDATA[<img src=x>]]",
        "<a href=x><area href=x><form action=x><q cite=x>",
        "<video><source src=x><track src=x></video>",
        "<template><template></template><img src=x></template>",
        "<img src=http://user:secret@a.test/x>",
    ] {
        assert_eq!(found(html), Vec::<String>::new(), "{html}");
    }
}

#[test]
fn manifests_are_read_in_secure_contexts_only() {
    let base = "https://a.test/".parse().unwrap();
    let html = b"<link rel=manifest href=m.json><link rel=manifest href=c.json crossorigin=use-credentials>";
    let found = longhaul_page::discover_html(html, &base, None, Viewport::default());
    assert_eq!(found[0].destination, Destination::Manifest);
    assert_eq!(found[0].cross_origin, CrossOrigin::Omitted);
    assert_eq!(found[1].cross_origin, CrossOrigin::Credentials);
}

#[test]
fn the_first_base_element_applies_to_later_references() {
    let html = "<img src=1><base href=/other/><img src=2><base href=/no/><img src=3>";
    let expected = ["1", "http://a.test/other/2", "http://a.test/other/3"];
    assert_eq!(paths(html), expected);
    for broken in [
        "<base href='http://['>",
        "<base href='data:text/html,x'>",
        "<base target=_top>",
    ] {
        assert_eq!(paths(&format!("{broken}<img src=x>")), ["x"], "{broken}");
    }
    assert_eq!(paths("<base target=_top><base href=b/><img src=x>"), ["b/x"]);
    assert_eq!(
        paths("<base href=b/><iframe srcdoc='<img src=x>'></iframe>"),
        ["b/x"]
    );
}

#[test]
fn pictures_choose_by_type_media_and_density() {
    let html = r#"<picture><source type=image/jxl srcset=1.jxl><source media="(max-width: 600px)" srcset=2.webp>
        <source type=image/webp srcset="3.webp, 3b.webp 2x"><source srcset=4.png><img src=5.png></picture>
        <picture><source media=print srcset=6.png><img src=7.png srcset="8.png 1x, 9.png 2x"></picture><img src=10.png>
        <picture><source srcset=""><img src=11.png loading=lazy></picture><video><source src=no.mp4></video>
        <picture><source srcset=12.png><img></picture><picture><img src=13.png>"#;
    let expected = ["3.webp", "8.png", "10.png", "11.png", "12.png", "13.png"];
    assert_eq!(paths(html), expected);
}

#[test]
fn images_follow_the_viewport_that_was_inferred() {
    let html = b"<img srcset='s.png 1x, l.png 2x' src=s.png><img src=plain.png>";
    let mut discovery = Discovery::new(&page(), None, Viewport::default());
    let first = discovery.write(html);
    let choices = discovery.take_choices();
    assert_eq!((choices.len(), choices[0].candidates().count()), (1, 2));
    assert_eq!(choices[0].select(Viewport::default()), Some(&first[0].url));
    let asked = page().join("l.png").unwrap();
    let corrected = estimated_viewport(Viewport::default(), &[(&choices[0], &asked)]);
    let again = longhaul_page::discover_html(html, &page(), None, corrected);
    assert_eq!(again[0].url, asked);
}

#[test]
fn referrer_policies_of_elements_count_before_the_documents() {
    let html =
        "<img src=1><meta name=referrer content=origin><img src=2><img src=3 referrerpolicy=no-referrer>
        <img src=4 referrerpolicy=bogus><link rel=stylesheet href=5 referrerpolicy=same-origin>
        <meta name=Referrer content=bogus><img src=6>";
    let policies: Vec<_> = references(html)
        .into_iter()
        .map(|reference| reference.referrer_policy)
        .collect();
    let origin = Some(ReferrerPolicy::Origin);
    assert_eq!(
        policies,
        [
            None,
            origin,
            Some(ReferrerPolicy::NoReferrer),
            origin,
            Some(ReferrerPolicy::SameOrigin),
            origin
        ]
    );
}

#[test]
fn a_url_is_reported_again_only_with_higher_importance() {
    let html =
        "<img src=x><img src=x#y><link rel=preload as=script href=x><script src=x></script><img src=x>";
    let found = references(html);
    let importance: Vec<_> = found.iter().map(|one| one.importance).collect();
    assert_eq!(
        importance,
        [Importance::Normal, Importance::High, Importance::Blocking]
    );
    assert_eq!(found[2].destination, Destination::Script);
}

#[test]
fn the_default_icon_is_requested_if_none_is_named() {
    let icon = |html: &[u8]| {
        let mut discovery = Discovery::new(&page(), None, Viewport::default());
        discovery.write(html);
        discovery.default_icon().map(|icon| icon.url.to_string())
    };
    assert_eq!(icon(b"<p>").as_deref(), Some("http://a.test/favicon.ico"));
    assert_eq!(icon(b"<link rel=icon href=x>"), None);
    assert_eq!(icon(b"<link rel='shortcut icon' href='data:,'>"), None);
}

#[test]
fn urls_with_unusual_syntax_are_read() {
    let html = "<img src=' a.png\n'><img src='\\\\b.test\\c.png'><img src=\"d\ne.png\"><img src='f g.png'>
        <img src=h.png?a=1&amp;b=2&copy=3><IMG SRC=i.png><img src = j.png / ><img/src=k.png><img src=l.png src=no.png>";
    let expected = [
        "a.png",
        "http://b.test/c.png",
        "de.png",
        "f%20g.png",
        "h.png?a=1&b=2&copy=3",
        "i.png",
        "j.png",
        "k.png",
        "l.png",
    ];
    assert_eq!(paths(html), expected);
}

#[test]
fn images_of_inline_styles_wait_for_their_elements() {
    let mut discovery = Discovery::new(&page(), None, Viewport::default());
    let mut found = |html: &str| -> Vec<(String, Certainty)> {
        let found = discovery.write(html.as_bytes()).into_iter();
        found
            .map(|found| (found.url.path().to_owned(), found.certainty))
            .collect()
    };
    let style =
        "<style>body { background: url(1) } .later { background: url(2) } .never { background: url(3) }
        #box { &:hover { background: url(4) } .later { background: url(5) } }</style>";
    assert_eq!(found(style), [("/dir/1".to_owned(), Certainty::Likely)]);
    assert!(found("<div id=box>").is_empty());
    assert_eq!(
        found("<p><b class='x later'>"),
        [
            ("/dir/2".to_owned(), Certainty::Likely),
            ("/dir/5".to_owned(), Certainty::Likely)
        ]
    );
    let rest: Vec<_> = discovery.finish();
    assert!(rest.iter().all(|found| found.certainty == Certainty::Unlikely));
    let paths: Vec<_> = rest.iter().map(|found| found.url.path()).collect();
    assert_eq!(paths, ["/dir/3", "/dir/4"]);
}
