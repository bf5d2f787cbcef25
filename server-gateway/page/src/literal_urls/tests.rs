use proptest::prelude::*;

use super::*;

fn found(html: &str) -> Vec<String> {
    let mut literals = LiteralUrls::new(&Url::parse("https://site.test/dir/page").unwrap());
    let urls = literals.write(format!("{html}\n").as_bytes());
    urls.into_iter().map(String::from).collect()
}

#[test]
fn urls_of_scripts_data_and_attributes_are_found() {
    let script = r#"<script>f({"html":"<img src=\"http:\/\/cdn.test\/a_1.png?x=1\u0026y=2\">"})</script>"#;
    assert_eq!(found(script), ["http://cdn.test/a_1.png?x=1&y=2"]);
    let attribute = "<div data-x='{&quot;u&quot;:&quot;https://cdn.test/b.js?v=1&amp;w=2&quot;}' style=url(//c.test/d.gif)>";
    assert_eq!(
        found(attribute),
        ["https://cdn.test/b.js?v=1&w=2", "https://c.test/d.gif"]
    );
    assert_eq!(
        found(r#"load("/static/e.js"); import('\u002Fstatic\x2Ff.js')"#),
        ["https://site.test/static/e.js", "https://site.test/static/f.js"]
    );
    assert_eq!(
        found("see=https://a.test/g#top https://a.test/g"),
        ["https://a.test/g"]
    );
}

#[test]
fn texts_that_are_no_urls_are_not_found() {
    for text in [
        "a /path without quotes",
        "// a comment",
        "x = a / b; y = '/'",
        "\"ftp://a.test/x\"",
        "'relative/x.js'",
        "https://",
        "'https://exa mple'x",
    ] {
        let found = found(text);
        assert!(found.iter().all(|url| url == "https://exa/"), "{text}: {found:?}");
    }
    let long = format!("'https://a.test/{}'", "x".repeat(MAX_LITERAL));
    assert_eq!(found(&long), [""; 0]);
}

#[test]
fn the_number_of_urls_is_bounded() {
    let many: String = (0..MAX_LITERALS + 10)
        .map(|number| format!("'/{number}.js'"))
        .collect();
    assert_eq!(found(&many).len(), MAX_LITERALS);
}

proptest! {
    #[test]
    fn pieces_do_not_matter(
        texts in proptest::collection::vec(
            prop_oneof![
                Just("\"https:\\/\\/a.test\\/x\""), Just("'/y.js'"), Just("&quot;//b.test/z&amp;q&#x2F;"), Just("\\u002"),
                Just("\\u002Fw"), Just("&"), Just("\\"), Just(" "), Just("http://c.test/"), Just("é"),
            ],
            0..20,
        ),
        cuts in proptest::collection::vec(0_usize..400, 0..6),
    ) {
        let html = texts.concat() + "\n\n\n\n\n\n\n";
        let base = Url::parse("https://site.test/").unwrap();
        let whole = LiteralUrls::new(&base).write(html.as_bytes());
        let mut literals = LiteralUrls::new(&base);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(html.len())).collect();
        cuts.sort_unstable();
        cuts.push(html.len());
        let (mut pieces, mut at) = (Vec::new(), 0);
        for cut in cuts {
            pieces.extend(literals.write(&html.as_bytes()[at..cut]));
            at = cut;
        }
        prop_assert_eq!(pieces, whole);
    }

    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let base = Url::parse("https://site.test/").unwrap();
        for url in LiteralUrls::new(&base).write(&bytes) {
            prop_assert!(url.as_str().len() <= 4 * MAX_LITERAL);
        }
    }
}
