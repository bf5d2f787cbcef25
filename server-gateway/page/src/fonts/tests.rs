use url::Url;

use crate::{Discovery, Reference, Viewport};

const TEXT: &str = "<p>Some words of the text that the page displays.</p>";

fn url(path: &str) -> Url {
    Url::parse("http://a.test/").unwrap().join(path).unwrap()
}

fn names(found: &[Reference]) -> Vec<&str> {
    found
        .iter()
        .map(|reference| reference.url.path().trim_start_matches('/'))
        .collect()
}

fn faces(faces: &[(&str, &str)]) -> String {
    let face =
        |(file, descriptors): &(&str, &str)| format!("@font-face {{ {descriptors}; src: url(/{file}) }}");
    faces.iter().map(face).collect()
}

/// Returns the fonts that a document with this markup uses of an external style sheet.
fn used(markup: &str, css: &str) -> Vec<String> {
    let mut discovery = Discovery::new(&url("/"), Some("utf-8"), Viewport::default());
    let handle = discovery.markup();
    discovery.write(markup.as_bytes());
    let (mut found, mut pending) = handle.sheet(css.as_bytes(), &url("/x.css"), None);
    discovery.finish();
    found.extend(handle.displayed(&mut pending));
    let mut names: Vec<String> = names(&found).into_iter().map(str::to_owned).collect();
    names.sort();
    names
}

fn used_in_text(css: &str) -> Vec<String> {
    used(&format!("{TEXT}<p class=a>"), css)
}

#[test]
fn a_family_is_used_if_a_matching_rule_names_it() {
    let fonts = faces(&[
        ("a", "font-family: 'First  Font'"),
        ("b", "font-family: Second"),
        ("c", "font-family: Third"),
    ]);
    let cases: [(&str, &[&str]); 11] = [
        ("", &[]),
        (".a { font-family: first font, serif }", &["a"]),
        (
            ".a { font: italic 12px/1.5 SECOND, 'Third' !important }",
            &["b", "c"],
        ),
        (
            ".a { font: 1em / 2 'Second' } .none { font-family: Third }",
            &["b"],
        ),
        (".a:hover { font-family: Second }", &[]),
        (
            ":root { --body: Third, serif } .a { font-family: var(--body) }",
            &["c"],
        ),
        (".a { font-family: var(--none, 'Second') }", &["b"]),
        (".a { font: 500 var(--size)/1.5 Second, serif }", &["b"]),
        (".a { font: 1em First\\ Font }", &["a"]),
        (
            "@media print { .a { font-family: Second } } .none, p { & .a { font-family: /**/ Third } }",
            &["c"],
        ),
        (
            ".a { font-family: 'First Font' } .b { *font-family: Second; font-size: Third }",
            &["a"],
        ),
    ];
    for (rules, expected) in cases {
        assert_eq!(used_in_text(&format!("{fonts}{rules}")), expected, "{rules}");
    }
    assert_eq!(
        used(&format!("{TEXT}<p style='font-family:Second'>"), &fonts),
        ["b"]
    );
}

#[test]
fn only_faces_of_declared_weights_and_styles_are_used() {
    let fonts = faces(&[
        ("light", "font-family: x; font-weight: 300"),
        (
            "regular",
            "font-family: 'x'; font-weight: normal; font-style: normal",
        ),
        ("italic", "font-family: x; font-style: italic"),
        ("semi", "font-family: x; font-weight: 600"),
        (
            "semi-italic",
            "font-family: x; font-weight: 600; font-style: italic",
        ),
    ]);
    let cases: [(&str, &str, &[&str]); 9] = [
        ("", ".a { font-family: x }", &["regular"]),
        ("<b>", ".a { font-family: x }", &["regular", "semi"]),
        ("<em>", ".a { font-family: x }", &["italic", "regular"]),
        ("", ".a { font: 300 1em x }", &["light"]),
        (
            "",
            ".a { font: bold 1em x } .none { font-weight: 300 }",
            &["semi"],
        ),
        (
            "",
            ".a { font-family: x; font-weight: 400 } p { font-weight: lighter }",
            &["light", "regular"],
        ),
        (
            "",
            ".a { font-family: x; font-weight: 600; font-style: oblique 10deg }",
            &["semi", "semi-italic"],
        ),
        (
            "",
            ":root { --w: 300; --n: 600 } .a { font-family: x; font-weight: var(--w) }",
            &["light", "regular"],
        ),
        ("", ".a { font-family: x } p { font: 600 1em y }", &["regular"]),
    ];
    for (markup, rules, expected) in cases {
        let markup = format!("{TEXT}<p class=a>{markup}");
        assert_eq!(
            used(&markup, &format!("{fonts}{rules}")),
            expected,
            "{markup} {rules}"
        );
    }
    let variable = faces(&[
        ("v", "font-family: x; font-weight: 100 900"),
        ("n", "font-family: x; font-stretch: 50%"),
    ]);
    assert_eq!(
        used_in_text(&format!("{variable} p {{ font: bold 1em x }}")),
        ["n", "v"]
    );
}

#[test]
fn a_face_is_used_for_characters_in_the_text() {
    let css = faces(&[
        ("cyrillic", "font-family: x; unicode-range: U+0400-04FF"),
        ("latin", "font-family: x; unicode-range: U+0-FF, U+131"),
        ("greek", "font-family: x; unicode-range: U+370-3FF"),
    ]) + "p { font-family: x }";
    let hidden =
        "<script>'\u{3b1}'</script><noscript>\u{3b1}</noscript><title>\u{3b1}</title><!-- \u{3b1} -->";
    assert_eq!(used(&format!("{TEXT}{hidden}"), &css), ["latin"]);
    assert_eq!(used(&format!("{TEXT}\u{416}"), &css), ["cyrillic", "latin"]);
    assert_eq!(used(&format!("{TEXT}&#x3b1;"), &css), ["greek", "latin"]);
    assert_eq!(
        used(&"\u{416} ".repeat(40), &css.replace("p {", "body {")),
        ["cyrillic"]
    );
}

#[test]
fn all_rules_match_a_document_whose_text_scripts_insert() {
    let css = faces(&[
        ("regular", "font-family: x; unicode-range: U+0-FF"),
        ("bold", "font-family: x; font-weight: 700"),
        ("greek", "font-family: x; unicode-range: U+370-3FF"),
        ("other", "font-family: y"),
    ]) + ".app { font-family: x }";
    assert_eq!(
        used("<div id=root></div><script src=app.js></script>", &css),
        ["regular"]
    );
    assert!(used(TEXT, &css).is_empty());
}

#[test]
fn fonts_wait_for_other_style_sheets_elements_and_text() {
    let mut discovery = Discovery::new(&url("/"), None, Viewport::default());
    let markup = discovery.markup();
    let inline = faces(&[
        ("inline", "font-family: x"),
        ("bold", "font-family: x; font-weight: 700"),
    ]);
    let found = discovery.write(format!("<style>{inline} .b {{ font-family: y }}</style>").as_bytes());
    assert!(found.is_empty());
    let external = faces(&[("external", "font-family: y; unicode-range: U+61")]) + ".p { font-family: x }";
    let (found, mut pending) = markup.sheet(external.as_bytes(), &url("/x.css"), None);
    assert!(found.is_empty() && markup.inline_fonts().is_empty());
    assert_eq!(names(&discovery.write(b"<p class=p>")), ["inline"]);
    assert!(markup.displayed(&mut pending).is_empty());
    discovery.write(b"<i class=b>");
    assert!(markup.displayed(&mut pending).is_empty() && !pending.is_empty());
    discovery.write(b"a</i>");
    assert_eq!(names(&markup.displayed(&mut pending)), ["external"]);
    assert!(pending.is_empty());
    let (found, _) = markup.sheet(b"p { font-weight: bold }", &url("/y.css"), None);
    assert!(found.is_empty());
    assert_eq!(names(&markup.inline_fonts()), ["bold"]);
    assert!(markup.inline_fonts().is_empty() && discovery.finish().is_empty());
}

#[test]
fn documents_without_searched_style_sheets_load_all_latin_fonts() {
    let css = faces(&[
        ("a", "font-family: x"),
        ("b", "font-family: y; unicode-range: U+400"),
    ]);
    let found = crate::discover_html(
        format!("<style>{css}</style>").as_bytes(),
        &url("/"),
        None,
        Viewport::default(),
    );
    assert_eq!(names(&found), ["a"]);
}

#[test]
fn the_regular_face_is_kept_for_elements_that_scripts_add() {
    let css = |rule: &str| {
        faces(&[
            ("light", "font-family: x; font-weight: 300"),
            ("medium", "font-family: x; font-weight: 500"),
            ("italic", "font-family: x; font-style: italic"),
            (
                "greek",
                "font-family: x; unicode-range: U+370-3FF; font-weight: 500",
            ),
            ("other", "font-family: y"),
        ]) + rule
    };
    for general in [
        "button { font: 300 1em x }",
        "* { --f: x }",
        ":host { font-family: x }",
        "dialog > p, .none { font-family: x }",
    ] {
        let used = used_in_text(&css(general));
        assert!(
            used.contains(&"medium".to_owned()) && used.len() <= 2,
            "{general}"
        );
    }
    for special in [
        ".none { font-family: x }",
        "#none p { font-family: x }",
        "button:hover { font-family: x }",
    ] {
        assert!(used_in_text(&css(special)).is_empty(), "{special}");
    }
    let element = format!("{TEXT}<x-menu></x-menu>");
    assert_eq!(used(&element, &css(".none { font: 300 1em x }")), ["medium"]);
    assert!(used(&element, &css(".none:hover { font: 300 1em x }")).is_empty());
}

#[test]
fn unknown_style_sheets_may_use_every_latin_font() {
    let fonts = faces(&[
        ("a", "font-family: x; font-weight: 900"),
        ("b", "font-family: y; unicode-range: U+0-7F"),
        ("c", "font-family: z; unicode-range: U+400"),
    ]);
    let mut discovery = Discovery::new(&url("/"), None, Viewport::default());
    let markup = discovery.markup();
    assert!(
        discovery
            .write(format!("<style>{fonts}</style>{TEXT}").as_bytes())
            .is_empty()
    );
    let external = faces(&[("d", "font-family: x")]);
    let (found, mut pending) = markup.sheet(external.as_bytes(), &url("/x.css"), None);
    assert!(found.is_empty() && markup.inline_fonts().is_empty());
    markup.lack_style_sheet();
    assert_eq!(names(&markup.inline_fonts()), ["a", "b"]);
    assert_eq!(names(&markup.displayed(&mut pending)), ["d"]);
    let deep = "a {".repeat(40);
    assert_eq!(used_in_text(&format!("{fonts}{deep}")), ["a", "b"]);
    let long = "/**/".repeat(1 << 20);
    let markup = format!("{TEXT}<style>{long}</style><style>a{{}}{long}</style>");
    assert_eq!(used(&markup, &fonts), ["a", "b"]);
}

#[test]
fn limits_are_kept_without_dropping_used_fonts() {
    let many = |count: usize, rule: &dyn Fn(usize) -> String| -> String { (0..count).map(rule).collect() };
    let last = "p { font-family: last } @font-face { font-family: last; src: url(/last) }";
    let rules = many(20_000, &|n| format!(".none{n} {{ font-family: f{n} }}"));
    assert_eq!(used_in_text(&(rules + last)), ["last"]);
    let families = many(20_000, &|n| format!("p {{ font-family: f{n} }}"));
    assert_eq!(used_in_text(&(families + last)), ["last"]);
    let faces = many(4000, &|n| {
        format!("@font-face {{ font-family: f{n}; src: url(/f{n}) }}")
    });
    assert!(used_in_text(&(faces + last)).contains(&"last".to_owned()));
    let weights = many(100, &|n| format!("p {{ font-weight: {} }}", n + 1));
    assert_eq!(used_in_text(&(weights + last)), ["last"]);
    let traits = many(100, &|n| {
        format!(
            "@font-face {{ font-family: last; font-weight: {}; src: url(/{n}) }}",
            n + 1
        )
    });
    assert_eq!(used_in_text(&(traits + last)).len(), 101);
    let long = ".none ".repeat(1000) + "{ font-family: last }";
    assert_eq!(used_in_text(&format!("{long}{last}")), ["last"]);
    for odd in [
        "p{font:",
        "p{font-family:}",
        "p{font:12px/",
        "p{font-weight:var(}",
        "p{font:/x}",
        "p{--:}",
        "p{font:é 1é x}",
        "p{font-family:var(--x",
        "p{font-weight:var(--x,)}",
        "@font-face{font-family:x;font-weight:;src:url(x)",
        "p{font:1px /}",
        "p{font:1px/\u{2003}x}",
        "p{font-family:f(g(h(}",
        "p{--x:var(\u{e9}(",
        "@font-face{font-family:;font-stretch:\u{e9};unicode-range:U+?,U+??????????;src:url(x)}",
        "@font-face{font-weight:9999 -1 x;unicode-range:U+ffffffff-,U+-;src:url(x)}p{font:}",
    ] {
        used_in_text(odd);
    }
}
