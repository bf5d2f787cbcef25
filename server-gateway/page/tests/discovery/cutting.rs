//! Discovery finds the same references in a document that arrives in pieces and in the complete document.
use longhaul_page::{Discovery, Reference, Viewport, discover_html};
use proptest::prelude::*;

use crate::page;

const PIECES: [&str; 44] = [
    "<img src=a.png>",
    "<img src=\"b.png?x=1&amp;y=2\" srcset='c.png 2x'>",
    "<img src=a.png fetchpriority=high>",
    "<img srcset='s.png 300w, l.png 2000w' sizes='(min-width: 1px) 50vw' loading=lazy>",
    "<link rel=stylesheet href=s.css>",
    "<link rel=stylesheet media=print href=s.css>",
    "<link rel=icon href=icon.png>",
    "<link rel=\"shortcut icon\" href='/later.ico' media=screen>",
    "<link rel=preload as=image imagesrcset='i.png 1x, j.png 2x'>",
    "<base href=/base/>",
    "<meta charset=windows-1252>",
    "<meta charset=utf-8>",
    "<meta name=referrer content=origin>",
    "<meta http-equiv=content-type content='text/html; charset=shift_jis'>",
    "<script src=//b.test/x.js></script>",
    "<script type=module src=//b.test/x.js></script>",
    "<script>document.write('<img src=no.png>'); a < b</script>",
    "<script><!-- <script> </script> --></script>",
    "<style>@import 'i.css'; body { background: url(bg.png) }</style>",
    "<style>.late, b { background: url(late.png) } #a:hover { background: url(hover.png) }</style>",
    "<p class='late'><i id=a>",
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
    "<img src='\u{4e2d}.png?\u{4e2d}'>",
    "<textarea><img src=no.png></textarea>",
    "<svg><image href=\"s.svg\"/></svg>",
    "<svg><style>a{fill:url(f.svg#x)}</style><![CDATA[<img src=no>]]></svg>",
    "<math><annotation-xml><img src=m.png>",
    "<select><option><img src=o.png></select>",
    "<table background=t.png><tr><td>",
    "<img src=\"unfinished.png",
    "<",
];

fn streamed(html: &[u8], sizes: &[usize], charset: Option<&str>) -> Vec<Reference> {
    let mut discovery = Discovery::new(&page(), charset, Viewport::default());
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
    fn splitting_the_input_changes_nothing(
        pieces in prop::collection::vec(prop::sample::select(PIECES.as_slice()), 0..20),
        sizes in prop::collection::vec(1..40_usize, 1..20),
        charset in prop::option::of(prop::sample::select(vec!["utf-8", "gbk", "utf-16le", "iso-2022-jp"])),
        marked in any::<bool>(),
    ) {
        let mark = if marked { "\u{feff}" } else { "" };
        let html = format!("{mark}{}", pieces.concat());
        let at_once = discover_html(html.as_bytes(), &page(), charset, Viewport::default());
        prop_assert_eq!(streamed(html.as_bytes(), &sizes, charset), at_once);
        let wide: Vec<u8> = html.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let at_once = discover_html(&wide, &page(), Some("utf-16"), Viewport::default());
        prop_assert_eq!(streamed(&wide, &sizes, Some("utf-16")), at_once);
    }

    #[test]
    fn arbitrary_bytes_give_the_same_references_however_split(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'<'), Just(b'>'), Just(b'"'), Just(b's')], 0..200),
        sizes in prop::collection::vec(1..20_usize, 1..10),
    ) {
        let at_once = discover_html(&bytes, &page(), None, Viewport::default());
        prop_assert_eq!(streamed(&bytes, &sizes, None), at_once);
    }
}

#[test]
fn a_reference_is_known_when_its_tag_is_complete() {
    let mut discovery = Discovery::new(&page(), None, Viewport::default());
    let mut paths = |html: &str| -> Vec<String> {
        let found = discovery.write(html.as_bytes()).into_iter();
        found.map(|found| found.url.path().to_owned()).collect()
    };
    assert!(paths("<link rel=icon href=i.ico><img src=a.png").is_empty());
    assert_eq!(paths(">text <img src=b.png><img"), ["/dir/a.png", "/dir/b.png"]);
    assert_eq!(
        paths(" src=c.png><style>img { background: url(x.png) }"),
        ["/dir/c.png"]
    );
    assert_eq!(paths("</style>"), ["/dir/x.png"]);
    assert_eq!(discovery.finish()[0].url.path(), "/dir/i.ico");
}
