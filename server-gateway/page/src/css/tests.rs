use super::*;

fn found(css: &str) -> Vec<(String, Destination)> {
    let base = Url::parse("http://a.test/css/site.css").unwrap();
    let found = discover_css(css.as_bytes(), &base, None, Viewport::default()).into_iter();
    found
        .map(|reference| (reference.url.path().to_owned(), reference.destination))
        .collect()
}

fn paths(css: &str) -> Vec<String> {
    found(css).into_iter().map(|(path, _)| path).collect()
}

#[test]
fn urls_imports_and_comments() {
    let css = r#"@charset "utf-8"; @import "one.css"; @import url(two.css) screen; @import url('three.css') print;
        @layer base, site; @import "four.css" layer(base) supports(display: grid) (min-width: 10px);
        @import "no.css" supports(-ms-flow: a); @import/**/"five.css"/* x */; @namespace svg url(http://no.test/);
        /* url(comment.png) */ a:hover { background: #fff url( "../img/a.png" ) no-repeat; color: red }
        @import "late.css";
        .b > c[href="url(no.png)"] { background-image: url(b\.png), url(data:image/png;base64,AA) }
        i { content: "url(string.png)"; filter: url(#shadow); *background: url(hack.png) }
        i { background: url(hack.png) \9; background: url(hack.png) no-repeat 0 0\9 }
        u { _background: url(hack.png); behavior: url(hack.htc); background: URL(c.png) }"#;
    let style = Destination::Style;
    let image = Destination::Image;
    let expected = [
        ("/css/one.css", style),
        ("/css/two.css", style),
        ("/css/three.css", Destination::InactiveStyle),
        ("/css/four.css", style),
        ("/css/five.css", style),
        ("/img/a.png", image),
        ("/css/b.png", image),
        ("/css/c.png", image),
    ];
    assert_eq!(found(css), expected.map(|(path, kind)| (path.to_owned(), kind)));
}

#[test]
fn only_blocks_that_apply() {
    let css = "@media print { a { background: url(no.png) } }
        @media (min-width: 100px) /* wide */ { a { background: url(yes.png) } }
        @supports not (display: grid) { a { background: url(no.png) } } @page { background: url(no.png) }
        @layer x { @media screen { a { background: url(layer.png) } } } @layer { a { background: url(plain.png) } }
        @container (min-width: 1px) { a { background: url(container.png) } }
        .a { &:hover { background: url(nested.png) } @media print { background: url(no.png) } }";
    let expected = ["yes", "layer", "plain", "container", "nested"];
    assert_eq!(paths(css), expected.map(|name| format!("/css/{name}.png")));
}

#[test]
fn properties_that_load() {
    let css = "a { background-image: linear-gradient(red, blue), url(1.png); border-image: url(2.png) 30;
        list-style: square url(3.png); content: url(4.png) / 'x'; cursor: url(5.cur), auto; -webkit-mask: url(6.svg#x);
        --icon: url(7.svg); background: var(--b, url(8.png)); src: url(no.png); -ms-filter: url(no.png);
        background: cross-fade(url(9.png), url(10.png), 50%); color: url(no.png); unknown: image-set('no.png' 1x) }";
    let expected = [
        "1.png", "2.png", "3.png", "4.png", "5.cur", "6.svg", "7.svg", "8.png", "9.png", "10.png",
    ];
    assert_eq!(paths(css), expected.map(|name| format!("/css/{name}")));
}

#[test]
fn one_image_of_an_image_set_is_chosen() {
    let css = ".x { background: image-set('one.png' 1x, 'two.png' 2x) }
        .y { background: -webkit-image-set(url(big.png) 2x, url(small.png) 1x) }
        .z { background: image-set('no.jxl' type('image/jxl'), 'yes.webp' type('image/webp') 1x, 'no.png' 1x) }
        .w { background: image-set(linear-gradient(red, blue) 1x, url(only.png) 96dpi) }";
    assert_eq!(
        paths(css),
        ["/css/one.png", "/css/small.png", "/css/yes.webp", "/css/only.png"]
    );
    let base = Url::parse("http://a.test/").unwrap();
    let retina = Viewport {
        ratio_percent: 200,
        ..Viewport::default()
    };
    let found = discover_css(css.as_bytes(), &base, None, retina);
    assert_eq!(found[0].url.path(), "/two.png");
    assert_eq!(found[1].url.path(), "/big.png");
}

#[test]
fn one_file_per_font_is_chosen() {
    let css = "@font-face { font-family: x; src: url(x.eot); src: url(x.eot?#iefix) format('embedded-opentype'),
          local('x'), url(x.woff2) format('woff2'), url(x.ttf) format('truetype'); src: url(x.eot) \\9; }
        @font-face { src: url(cyrillic.woff2) format('woff2'); unicode-range: U+0400-045F, U+4?? }
        @font-face { src: url(latin.woff2) format('woff2'); unicode-range: U+0000-00FF, U+0131 }
        @font-face { src: url(v.woff2) format(woff2) tech(variations) } @media print { @font-face { src: url(no.ttf) } }";
    let font = Destination::Font;
    assert_eq!(
        found(css),
        ["x.woff2", "latin.woff2", "v.woff2"].map(|name| (format!("/css/{name}"), font))
    );
    let base = Url::parse("http://a.test/").unwrap();
    let found = discover_css(css.as_bytes(), &base, None, Viewport::default());
    assert_eq!(
        (found[0].importance, found[0].certainty, found[0].cross_origin),
        (
            crate::Importance::High,
            Certainty::Likely,
            crate::CrossOrigin::Anonymous
        )
    );
}

#[test]
fn sheets_in_other_encodings() {
    let base = Url::parse("http://a.test/").unwrap();
    let only = |css: &[u8], charset| {
        let found = discover_css(css, &base, charset, Viewport::default());
        assert_eq!(found.len(), 1);
        found[0].url.as_str().to_owned()
    };
    let latin = b"@charset \"iso-8859-1\";a{background:url(\xe4.png?\xe4)}";
    assert_eq!(only(latin, None), "http://a.test/%C3%A4.png?%E4");
    assert_eq!(
        only("a{background:url(ä.png)}".as_bytes(), None),
        "http://a.test/%C3%A4.png"
    );
    let utf16: Vec<u8> = "\u{feff}a{background:url(x.png)}"
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    assert_eq!(only(&utf16, Some("utf-8")), "http://a.test/x.png");
}

#[test]
fn malformed_style_sheets_end_without_error() {
    for css in [
        "@import",
        "@import;",
        "@import 1 url(x) {} a",
        "a { background: url(",
        "a { background: url('x",
        "}}}} a { background: url(x) }",
        "@font-face { src: url(",
        "@media {",
        "a { background: image-set(",
        "\0\u{fffd}<!-- -->",
    ] {
        let _ = found(css);
    }
    for open in ["(", "{", "a{b:c(", "@media screen{", "@supports (", "@layer{"] {
        assert!(found(&open.repeat(100_000)).is_empty(), "{open}");
    }
    let many = "a{background:url(x)}".repeat(20_000);
    assert_eq!(found(&many).len(), MAX_REFERENCES);
    // The rule after an import without a URL is not lost.
    assert_eq!(paths("@import; a { background: url(x.png) }"), ["/css/x.png"]);
}

#[test]
fn images_of_rules_that_match_nothing_are_unlikely() {
    let page = Url::parse("http://a.test/").unwrap();
    let mut discovery = crate::Discovery::new(&page, None, Viewport::default());
    discovery.write(b"<div class='box wide' id=top><template><i class=later></i></template><p class=open");
    let css = "@media print { .none { background: url(no.png) } } .box { background: url(1.png) }
        .none { background: url(2.png) } @keyframes x { from { background: url(3.png) } }
        #top { &:hover { background: url(4.png) } .later & { background: url(5.png) } } /* .none */
        @container (width > 1px) { .none { background: url(6.png) } .wide { background: url(7.png) } }
        @font-face { src: url(f.woff) } .none, .box:not(.none) { color: red; background: url(8.png) }
        .open { background: url(9.png) } @import 'late.css'; div { background: url(10.png) }";
    let vocabulary = discovery.vocabulary();
    let found = discover_css_for(css.as_bytes(), &page, None, Viewport::default(), &vocabulary);
    let unlikely: Vec<&str> = found
        .iter()
        .filter(|reference| reference.certainty == Certainty::Unlikely)
        .map(|reference| reference.url.path())
        .collect();
    assert_eq!(found.len(), 11);
    assert_eq!(unlikely, ["/2.png", "/4.png", "/6.png", "/9.png"]);
    // Without a vocabulary only states such as `:hover` exclude rules.
    let found = discover_css(css.as_bytes(), &page, None, Viewport::default());
    let unlikely = found
        .iter()
        .filter(|reference| reference.certainty == Certainty::Unlikely);
    assert_eq!(unlikely.count(), 1);
}

/// The images of a sheet that a browser may load.
fn loaded(css: &str) -> Vec<String> {
    let base = Url::parse("http://a.test/").unwrap();
    let found = discover_css(css.as_bytes(), &base, None, Viewport::default()).into_iter();
    let likely = found.filter(|reference| reference.certainty != Certainty::Unlikely);
    likely.map(|reference| reference.url.path().to_owned()).collect()
}

#[test]
fn images_that_a_later_declaration_overrides_are_unlikely() {
    for (css, expected) in [
        (
            ".a { background: url(1); background: url(2) no-repeat }",
            vec!["/2"],
        ),
        (
            ".a { background: url(1) } .b { color: red } .a { background-image: none }",
            vec![],
        ),
        (
            ".a { background: url(1) } @media (min-width: 1px) { .a { background: #fff url(2) 0 50%/10px } }",
            vec!["/2"],
        ),
        (
            ".a { background: url(1) !important; background: url(2) } .a { background: url(3)! important }",
            vec!["/3"],
        ),
        (
            ".a { background: url(1) } .a { background: URL('2'), var(--x) }",
            vec!["/2"],
        ),
        (
            ".a { background: url(1) !important } .a { background: url(2) }",
            vec!["/1", "/2"],
        ),
        // Another rule, property or order, or a value that not every browser accepts.
        (
            ".a { background: url(1) } .a, .b { background: url(2) }",
            vec!["/1", "/2"],
        ),
        (
            ".a { background: url(1); background-color: red; mask: url(2) }",
            vec!["/1", "/2"],
        ),
        (
            ".a { background: url(1) } @media print { .a { background: url(2) } }",
            vec!["/1"],
        ),
        (
            ".a { background: url(1) } @layer x { .a { background: url(2) } }",
            vec!["/1", "/2"],
        ),
        (
            ".a { background: url(1) } .a { & { background: url(2) } }",
            vec!["/1", "/2"],
        ),
        (
            ".a { background: url(1); background: linear-gradient(red, red), url(2) }",
            vec!["/1", "/2"],
        ),
        (
            ".a { background: url(1); background: -moz-element(#x), url(2) }",
            vec!["/1", "/2"],
        ),
        (".a { background: url(1); background: }", vec!["/1"]),
        (".a { background: url(1); background: url(2) 0 0\\9 }", vec!["/1"]),
        (".a { background: url(1); *background: url(2) }", vec!["/1"]),
    ] {
        assert_eq!(loaded(css), expected, "{css}");
    }
    // Selectors that are too long to be compared.
    let selectors = |first: char| format!("{first}{}", ",x".repeat(3000));
    let css = format!(
        "{}{{background:url(1)}}{}{{background:url(2)}}",
        selectors('a'),
        selectors('b')
    );
    assert_eq!(loaded(&css), ["/1", "/2"]);
}

#[test]
fn overridden_images_do_not_wait_for_elements() {
    let page = Url::parse("http://a.test/").unwrap();
    let mut discovery = crate::Discovery::new(&page, None, Viewport::default());
    let markup = discovery.markup();
    let css = b".late { background: url(1.png); background: url(2.png) } .late { background: url(3.png) }";
    let (found, mut pending) = markup.sheet(css, &page, None);
    assert!(found.is_empty());
    discovery.write(b"<p class=late>");
    let displayed = markup.displayed(&mut pending);
    assert_eq!((displayed.len(), displayed[0].url.path()), (1, "/3.png"));
}
