use http::HeaderValue;

use super::*;
use crate::CrossOrigin;

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn policies(page: &str, fields: &[&'static str]) -> Policies {
    let fields = fields
        .iter()
        .map(|value| (FIELD, HeaderValue::from_static(value)));
    Policies::of_response(&url(page), &fields.collect())
}

fn allows(fields: &[&'static str], destination: Destination, target: &str) -> bool {
    let page = "https://a.test/dir/page";
    policies(page, fields).allow(&Reference::new(url(target), destination), &url(page), 0)
}

#[test]
fn each_destination_has_its_directive() {
    use Destination::{Document, Font, Frame, Icon, Image, InactiveStyle, Manifest, Other, Script, Style};
    let own = "https://a.test/x";
    let all = [
        Frame,
        Style,
        InactiveStyle,
        Script,
        Image,
        Font,
        Other,
        Icon,
        Manifest,
    ];
    for (policy, allowed) in [
        ("default-src 'none'", &[][..]),
        ("default-src 'self'", &all),
        ("default-src 'none'; img-src 'self'", &[Image, Icon]),
        ("default-src 'none'; script-src 'self'", &[Script]),
        ("default-src 'none'; script-src-elem 'self'", &[Script]),
        ("default-src 'none'; style-src 'self'", &[Style, InactiveStyle]),
        ("default-src 'none'; style-src 'self'; style-src-elem b.test", &[]),
        ("default-src 'none'; font-src 'self'", &[Font]),
        ("default-src 'none'; frame-src 'self'", &[Frame]),
        ("default-src 'none'; child-src 'self'", &[Frame]),
        ("default-src 'none'; child-src 'self'; frame-src b.test", &[]),
        ("default-src 'none'; connect-src 'self'", &[Other]),
        ("default-src 'none'; manifest-src 'self'", &[Manifest]),
        ("DEFAULT-SRC 'NONE'; img-src *; IMG-SRC 'none'", &[Image, Icon]),
        ("img-src 'none' 'self'", &all),
        ("upgrade-insecure-requests; report-uri /r", &all),
        ("", &all),
    ] {
        for destination in all {
            assert_eq!(
                allows(&[policy], destination, own),
                allowed.contains(&destination),
                "{policy} {destination:?}"
            );
        }
        assert!(allows(&[policy], Document, own), "{policy}");
    }
}

#[test]
fn source_expressions_match_as_specified() {
    for (source, target, expected) in [
        ("'self'", "https://a.test/x", true),
        ("'self'", "https://a.test:444/x", false),
        ("'self'", "http://a.test/x", false),
        ("'self'", "https://sub.a.test/x", false),
        ("*", "https://evil.test:8080/x", true),
        ("https:", "https://evil.test/x", true),
        ("https:", "http://evil.test/x", false),
        ("http:", "https://evil.test/x", true),
        ("data:", "https://evil.test/x", false),
        ("b.test", "https://b.test/x", true),
        ("B.Test", "https://b.test/x", true),
        ("b.test", "http://b.test/x", false),
        ("b.test", "https://sub.b.test/x", false),
        ("b.test", "https://b.test:444/x", false),
        ("b.test:444", "https://b.test:444/x", true),
        ("b.test:*", "https://b.test:444/x", true),
        ("b.test:443", "https://b.test/x", true),
        ("http://b.test:80", "https://b.test/x", true),
        ("*.b.test", "https://sub.b.test/x", true),
        ("*.b.test", "https://x.sub.b.test/x", true),
        ("*.b.test", "https://b.test/x", false),
        ("*.b.test", "https://eb.test/x", false),
        ("https://b.test", "https://b.test/x", true),
        ("http://b.test", "https://b.test/x", true),
        ("https://b.test/dir/", "https://b.test/dir/x", true),
        ("https://b.test/dir/", "https://b.test/dir", false),
        ("https://b.test/dir", "https://b.test/dir", true),
        ("https://b.test/dir", "https://b.test/dir/x", false),
        ("https://b.test/", "https://b.test/dir/x", true),
        ("127.0.0.1:*", "https://127.0.0.1:9/x", true),
        ("'none'", "https://a.test/x", false),
        ("none", "https://a.test/x", false),
        ("'nonce-abc'", "https://a.test/x", false),
        ("b.test:x", "https://b.test/x", false),
        ("b.*", "https://b.test/x", false),
        ("9b://b.test", "https://b.test/x", false),
    ] {
        let policy: &'static str = format!("img-src {source}").leak();
        assert_eq!(
            allows(&[policy], Destination::Image, target),
            expected,
            "{source} {target}"
        );
    }
}

#[test]
fn csp_paths_are_ignored_after_redirects() {
    let page = "https://a.test/";
    let policies = policies(page, &["img-src https://b.test/dir/"]);
    let image = Reference::new(url("https://b.test/other"), Destination::Image);
    assert!(!policies.allow(&image, &url(page), 0));
    assert!(policies.allow(&image, &url(page), 1));
}

#[test]
fn all_policies_must_admit_a_request() {
    let image = |fields: &[&'static str]| allows(fields, Destination::Image, "https://b.test/x");
    assert!(image(&["img-src b.test"]));
    assert!(!image(&["img-src b.test", "img-src 'self'"]));
    assert!(!image(&["img-src b.test, default-src 'self'"]));
    assert!(image(&["img-src b.test, script-src 'self'"]));
}

#[test]
fn scripts_by_nonce_hash_and_trust() {
    let page = "https://a.test/";
    let script = |policy: &'static str, nonce: Option<&str>, integrity: Option<&str>, inserter| {
        let reference = Reference {
            nonce: nonce.map(Into::into),
            integrity: integrity.map(Into::into),
            inserter,
            cross_origin: CrossOrigin::None,
            ..Reference::new(url("https://b.test/x.js"), Destination::Script)
        };
        policies(page, &[policy]).allow(&reference, &url(page), 0)
    };
    let parser = Inserter::Parser;
    let nonce = "script-src 'nonce-AbC'";
    assert!(script(nonce, Some("AbC"), None, parser));
    for wrong in [None, Some("abc"), Some(""), Some("AbC ")] {
        assert!(!script(nonce, wrong, None, parser), "{wrong:?}");
    }
    let hash = "script-src 'sha256-a_b=' 'sha384-c'";
    assert!(script(hash, None, Some("sha256-a/b="), parser));
    assert!(script(hash, None, Some("sha256-a/b=?x SHA384-c"), parser));
    assert!(!script(hash, None, Some("sha256-a/b= sha512-d"), parser));
    assert!(!script(hash, None, Some(""), parser));
    let strict = "script-src 'strict-dynamic' 'nonce-n' https: b.test";
    assert!(!script(strict, None, None, parser));
    assert!(script(strict, Some("n"), None, parser));
    assert!(script(strict, None, None, Inserter::Script));
}

#[test]
fn inline_styles_follow_the_policy() {
    for (policy, element, with_nonce, attribute) in [
        ("style-src 'self'", false, false, false),
        ("style-src 'unsafe-inline'", true, true, true),
        ("style-src 'unsafe-inline' 'nonce-n'", false, true, false),
        ("style-src 'sha256-x' 'unsafe-inline'", false, false, false),
        (
            "default-src 'unsafe-inline'; style-src-attr 'none'",
            true,
            true,
            false,
        ),
        (
            "default-src 'unsafe-inline'; style-src-elem 'none'",
            false,
            false,
            true,
        ),
        ("img-src 'none'", true, true, true),
    ] {
        let policies = policies("https://a.test/", &[policy]);
        assert_eq!(policies.allow_inline(Inline::Element(None)), element, "{policy}");
        assert_eq!(
            policies.allow_inline(Inline::Element(Some("n"))),
            with_nonce,
            "{policy}"
        );
        assert_eq!(policies.allow_inline(Inline::Attribute), attribute, "{policy}");
    }
}

#[test]
fn media_have_a_directive_of_their_own() {
    let policy = "connect-src 'self'; media-src 'none'";
    assert!(allows(&[policy], Destination::Other, "https://a.test/api"));
    assert!(!allows(&[policy], Destination::Other, "https://a.test/v.MP4"));
}

/// Under a policy that is not understood, no cross-origin object is planned.
#[test]
fn policies_that_cannot_be_parsed_admit_only_the_own_origin() {
    let image = |fields: &[&'static str], target| allows(fields, Destination::Image, target);
    let long: &'static str = format!("img-src *{}", " x.test".repeat(20_000)).leak();
    let many: Vec<&'static str> = vec!["img-src *"; 50];
    for fields in [
        &["new-src x"][..],
        &["img-src *; require-sri-for script"],
        &[long],
        &many,
    ] {
        assert!(image(fields, "https://a.test/x"));
        assert!(!image(fields, "https://b.test/x"));
    }
    let mut headers = HeaderMap::new();
    headers.insert(FIELD, HeaderValue::from_bytes(b"img-src *\xff").unwrap());
    let page = url("https://a.test/");
    let reference = Reference::new(url("https://b.test/x"), Destination::Image);
    assert!(!Policies::of_response(&page, &headers).allow(&reference, &page, 0));
    headers.clear();
    headers.insert(
        "content-security-policy-report-only",
        HeaderValue::from_static("default-src 'none'"),
    );
    assert!(Policies::of_response(&page, &headers).allow(&reference, &page, 0));
}

#[test]
fn sandbox_and_frame_ancestors_are_ignored_in_markup() {
    let page = url("https://a.test/");
    let mut policies = Policies::default();
    policies.add(
        &page,
        "sandbox; frame-ancestors 'none'; img-src 'self'",
        PolicySource::Markup,
    );
    assert_eq!(policies.sandbox(), Sandbox::default());
    assert_eq!(policies.allow_ancestors([&page].into_iter()), None);
    policies.add(
        &page,
        "sandbox allow-scripts; frame-ancestors 'self'",
        PolicySource::Header,
    );
    assert!(policies.sandbox().opaque && !policies.sandbox().scriptless);
    assert_eq!(policies.allow_ancestors([&page].into_iter()), Some(true));
    let other = url("https://b.test/");
    assert_eq!(policies.allow_ancestors([&page, &other].into_iter()), Some(false));
}

proptest::proptest! {
    #[test]
    fn parsing_any_policy_does_not_panic(text in "[ -~]{0,200}") {
        let page = url("https://a.test/");
        let mut policies = Policies::default();
        policies.add(&page, &text, PolicySource::Header);
        let _ = policies.allow(&Reference::new(url("https://b.test/x"), Destination::Script), &page, 0);
    }
}

/// Each reference is compared with each expression.
#[test]
fn all_policies_of_a_document_have_a_bounded_number_of_expressions() {
    let many: &'static str = format!("img-src{}", " x.test".repeat(MAX_SOURCES / 2)).leak();
    let few = "img-src b.test";
    let image = |fields: &[&'static str]| allows(fields, Destination::Image, "https://x.test/a.png");
    assert!(image(&[many]) && image(&[many, many]));
    assert!(!image(&[many, many, "img-src x.test"]), "may forbid anything");
    assert!(!image(&[few]));
    for port in ["+443", " 443", "00443x"] {
        let policy: &'static str = format!("img-src https://x.test:{port}").leak();
        assert!(!image(&[policy]), "{port}");
    }
}
