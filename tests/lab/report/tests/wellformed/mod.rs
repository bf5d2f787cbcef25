//! Strict parser of the page: every element closed in order, every attribute quoted, no script, no external
//! address.
#![expect(
    clippy::expect_used,
    reason = "a page that violates an expectation fails the test"
)]

/// Elements without an end tag.
const VOID: [&str; 2] = ["br", "meta"];

/// Fails unless the page is well-formed, self-contained and without scripts.
pub(crate) fn check(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        assert!(
            !rest[..start].contains('>') || open.last() == Some(&"style"),
            "stray > before {}",
            near(&rest[start..])
        );
        rest = &rest[start + 1..];
        if let Some(after) = rest.strip_prefix("!DOCTYPE html>") {
            rest = after;
            continue;
        }
        if let Some(after) = rest.strip_prefix('/') {
            let end = after.find('>').expect("an end tag ends");
            assert_eq!(
                open.pop(),
                Some(&after[..end]),
                "wrong end tag near {}",
                near(after)
            );
            rest = &after[end + 1..];
            continue;
        }
        let (name, after, closed) = start_tag(rest);
        rest = after;
        assert!(
            ![
                "script", "iframe", "object", "embed", "link", "base", "form", "img"
            ]
            .contains(&name),
            "element {name}"
        );
        if !closed && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    lol_html_agrees(page);
    for word in [
        "NaN",
        "inf\"",
        "=\"-inf",
        "http-equiv=\"refresh",
        "url(http",
        "@import",
    ] {
        assert!(!page.contains(word), "the page contains {word}");
    }
}

/// Returns the name, the text after the tag, and whether the tag is self-closing.
fn start_tag(text: &str) -> (&str, &str, bool) {
    let end = text
        .find(|character: char| !character.is_ascii_alphanumeric())
        .expect("a tag ends");
    let (name, mut rest) = text.split_at(end);
    assert!(!name.is_empty(), "a stray < near {}", near(text));
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix("/>") {
            return (name, after, true);
        }
        if let Some(after) = rest.strip_prefix('>') {
            return (name, after, false);
        }
        let end = rest
            .find(|character: char| !(character.is_ascii_alphanumeric() || character == '-'))
            .expect("an attribute ends");
        let (attribute, after) = rest.split_at(end);
        assert!(
            !attribute.is_empty() && !attribute.starts_with("on"),
            "attribute near {}",
            near(rest)
        );
        rest = after;
        if let Some(after) = rest.strip_prefix("=\"") {
            let end = after.find('"').expect("a quoted value ends");
            let value = &after[..end];
            assert!(
                !value.contains('<'),
                "markup in an attribute near {}",
                near(after)
            );
            assert!(attribute != "href" || value.starts_with('#'), "a link to {value}");
            rest = &after[end + 1..];
        } else {
            assert_eq!(
                attribute,
                "open",
                "an attribute without value near {}",
                near(rest)
            );
        }
    }
}

fn near(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Tests that a browser-grade parser accepts the same document.
fn lol_html_agrees(page: &str) {
    let mut tables = 0;
    let mut captions = 0;
    let settings = lol_html::RewriteStrSettings::new()
        .append_element_content_handler(lol_html::element!("table", |_| {
            tables += 1;
            Ok(())
        }))
        .append_element_content_handler(lol_html::element!("table > caption", |_| {
            captions += 1;
            Ok(())
        }));
    lol_html::rewrite_str(page, settings).expect("HTML that parses");
    assert_eq!(tables, captions, "each table has a caption");
}
