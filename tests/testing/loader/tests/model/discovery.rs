//! References found in a document that arrives in parts equal those found in the whole document.
use longhaul_replay::page::{Discovery, Reference, Viewport, discover_html};
use proptest::prelude::*;
use url::Url;

const PIECES: [&str; 30] = [
    "<img src=a.png>",
    "<img src=\"b.png?x=1&amp;y=2\" srcset='c.png 2x'>",
    "<link rel=stylesheet href=s.css>",
    "<link rel=icon href=icon.png>",
    "<link rel=\"shortcut icon\" href='/later.ico' media=screen>",
    "<base href=/base/>",
    "<meta charset=windows-1252>",
    "<meta http-equiv=content-type content='text/html; charset=shift_jis'>",
    "<script src=//b.test/x.js></script>",
    "<script>document.write('<img src=no.png>'); a < b</script>",
    "<style>@import 'i.css'; body { background: url(bg.png) }</style>",
    "<style media=print>a { background: url(no.png) }</style>",
    "<style>p { background: url(caf\u{e9}.png) }",
    "</style>",
    "<noscript><img src=no.png></noscript>",
    "<template><img src=no.png>",
    "</template>",
    "<!-- <img src=no.png> -->",
    "<!--",
    "<picture><source srcset='p.webp' type=image/webp><img src=p.png></picture>",
    "<picture>",
    "</picture>",
    "<iframe src=frame.html></iframe>",
    "<iframe srcdoc=\"<img src=&quot;doc.png&quot;>\"></iframe>",
    "<div style=\"background: url('d.png')\">\u{4e2d}\u{6587} text & more</div>",
    "<img src='\u{4e2d}.png'>",
    "<textarea><img src=no.png></textarea>",
    "<svg><image href=\"s.svg\"/></svg>",
    "<img src=\"unfinished.png",
    "<",
];

fn streamed(html: &[u8], sizes: &[usize], url: &Url, charset: Option<&str>) -> Vec<Reference> {
    let mut discovery = Discovery::new(url, charset, Viewport::default());
    let mut found = Vec::new();
    let mut rest = html;
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(rest.len().min(*size));
        found.extend(discovery.write(piece));
        rest = after;
    }
    found.extend(discovery.finish());
    found
}

proptest! {
    #[test]
    fn references_are_equal_for_any_split(
        pieces in prop::collection::vec(prop::sample::select(PIECES.as_slice()), 0..20),
        sizes in prop::collection::vec(1..40_usize, 1..20),
        charset in prop::option::of(Just("utf-8")),
    ) {
        let url: Url = "http://a.test/dir/page".parse().unwrap();
        let html = pieces.concat();
        let at_once = discover_html(html.as_bytes(), &url, charset, Viewport::default());
        prop_assert_eq!(streamed(html.as_bytes(), &sizes, &url, charset), at_once);
    }

    #[test]
    fn references_in_arbitrary_bytes_are_equal_for_any_split(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'<'), Just(b'>'), Just(b'"'), Just(b's')], 0..200),
        sizes in prop::collection::vec(1..20_usize, 1..10),
    ) {
        let url: Url = "http://a.test/".parse().unwrap();
        prop_assert_eq!(streamed(&bytes, &sizes, &url, None), discover_html(&bytes, &url, None, Viewport::default()));
    }
}

#[test]
fn a_reference_is_known_when_its_tag_is_complete() {
    let url: Url = "http://a.test/".parse().unwrap();
    let mut discovery = Discovery::new(&url, None, Viewport::default());
    let mut paths = |html: &str| -> Vec<String> {
        let found = discovery.write(html.as_bytes()).into_iter();
        found.map(|found| found.url.path().to_owned()).collect()
    };
    assert!(paths("<link rel=icon href=i.ico><img src=a.png").is_empty());
    assert_eq!(paths(">text <img src=b.png><img"), ["/a.png", "/b.png"]);
    assert!(paths(" src=c.png><style>img { background: url(x.png) }".split_at(10).0).is_empty());
    assert_eq!(paths("><style>img { background: url(x.png) }</sty"), ["/c.png"]);
    assert_eq!(paths("le>"), ["/x.png"]);
    assert_eq!(discovery.finish()[0].url.path(), "/i.ico");
}
