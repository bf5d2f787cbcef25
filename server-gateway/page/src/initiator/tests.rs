use http::{HeaderName, HeaderValue};

use super::*;

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let fields = fields
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    fields.collect()
}

fn page(at: &str) -> Initiator {
    Initiator::page(&url(at), &HeaderMap::new())
}

fn admits(initiator: &Initiator, target: &str, destination: Destination) -> Option<String> {
    let reference = initiator.admit(Reference::new(url(target), destination), 0)?;
    Some(reference.url.into())
}

#[test]
fn requests_of_cross_site_frames_are_not_planned() {
    let top = page("https://www.a.test/");
    let frame = |parent: &Initiator, at: &str| parent.frame(&url(at), &HeaderMap::new(), Sandbox::default());
    for other in ["https://evil.test/", "http://www.a.test/", "https://b.github.io/"] {
        assert!(frame(&top, other).is_none(), "{other}");
    }
    let inner = frame(&top, "https://b.a.test/f").unwrap();
    assert!(frame(&inner, "https://www.a.test/").is_some());
    assert!(frame(&inner, "https://evil.test/").is_none());
    assert!(frame(&page("https://a.github.io/"), "https://b.github.io/").is_none());
}

#[test]
fn frames_that_may_not_be_displayed() {
    let top = page("https://www.a.test/");
    let frame = |at: &str, fields: &[(&'static str, &'static str)]| {
        top.frame(&url(at), &map(fields), Sandbox::default()).is_some()
    };
    let own = "https://www.a.test/f";
    for (at, name, value, expected) in [
        (own, "x-frame-options", "SAMEORIGIN", true),
        ("https://b.a.test/f", "x-frame-options", "SAMEORIGIN", false),
        (own, "x-frame-options", "DENY", false),
        (own, "x-frame-options", "allow-from https://www.a.test", false),
        (own, "x-frame-options", "SAMEORIGIN, DENY", false),
        (own, "x-frame-options", "ALLOWALL", true),
        (own, "content-security-policy", "frame-ancestors 'self'", true),
        (own, "content-security-policy", "frame-ancestors 'none'", false),
        (own, "content-security-policy", "frame-ancestors b.test", false),
        (
            "https://b.a.test/f",
            "content-security-policy",
            "frame-ancestors *.a.test",
            true,
        ),
    ] {
        assert_eq!(frame(at, &[(name, value)]), expected, "{at} {value}");
    }
    // `frame-ancestors` takes precedence over `X-Frame-Options`.
    assert!(frame(
        own,
        &[
            ("x-frame-options", "DENY"),
            ("content-security-policy", "frame-ancestors 'self'")
        ]
    ));
}

#[test]
fn mixed_content_blocked_ports_and_other_schemes_are_not_admitted() {
    use Destination::{Document, Image, Script};
    let secure = page("https://a.test/");
    assert_eq!(admits(&secure, "http://a.test/x", Image), None, "mixed content");
    assert!(admits(&secure, "http://127.0.0.1:9000/x", Image).is_some());
    assert!(admits(&page("http://a.test/"), "http://b.test/x", Image).is_some());
    for bad in ["http://a.test:25/x", "http://a.test:6667/", "ftp://a.test/x"] {
        assert_eq!(admits(&page("http://a.test/"), bad, Image), None, "{bad}");
    }
    let upgrading = Initiator::page(
        &url("https://a.test/"),
        &map(&[(
            "content-security-policy",
            "upgrade-insecure-requests; img-src https:",
        )]),
    );
    assert_eq!(
        admits(&upgrading, "http://b.test/x", Image).as_deref(),
        Some("https://b.test/x")
    );
    assert_eq!(
        admits(&upgrading, "http://b.test:8080/x", Image).as_deref(),
        Some("https://b.test:8080/x")
    );
    let strict = Initiator::page(
        &url("https://a.test/"),
        &map(&[("content-security-policy", "default-src 'none'; sandbox")]),
    );
    assert_eq!(admits(&strict, "https://a.test/x", Image), None);
    assert_eq!(admits(&strict, "https://a.test/x", Script), None);
    assert!(
        admits(&strict, "http://b.test/x", Document).is_some(),
        "a navigation is none of the page's"
    );
    assert_eq!(admits(&strict, "http://b.test:25/x", Document), None);
}

#[test]
fn a_sandbox_removes_origin_and_scripts() {
    let sandbox = |text: &str| Sandbox::of_tokens(text.split_ascii_whitespace());
    assert_eq!(sandbox("allow-scripts ALLOW-SAME-ORIGIN"), Sandbox::default());
    assert!(sandbox("").opaque && sandbox("").scriptless);
    let top = page("https://a.test/");
    let own = url("https://a.test/f");
    let inside = top
        .frame(&own, &HeaderMap::new(), sandbox("allow-scripts"))
        .unwrap();
    assert_eq!(inside.relation(&own), Relation::CrossSite);
    assert!(!inside.is_same_site_with(&own));
    assert!(inside.referrer().is_none());
    // Frames inside a sandbox inherit it.
    let below = inside.frame(&own, &HeaderMap::new(), Sandbox::default()).unwrap();
    assert!(!below.is_same_site_with(&own));
    assert!(top.srcdoc(sandbox("allow-scripts")).is_none());
    assert!(top.srcdoc(sandbox("allow-same-origin")).is_some());
    let by_policy = Initiator::page(
        &own,
        &map(&[("content-security-policy", "sandbox allow-scripts")]),
    );
    assert!(!by_policy.is_same_site_with(&own));
}

mod properties {
    use std::time::Duration;

    use longhaul_types::UnixTime;
    use proptest::{prelude::*, sample::select};

    use super::*;
    use crate::{
        CrossOrigin,
        jar::{CookiePathObservations, Jar},
        predict::{Predictor, Templates},
    };

    const HOSTS: [&str; 7] = [
        "site.test",
        "www.site.test",
        "evil.test",
        "a.github.io",
        "b.github.io",
        "10.0.0.1",
        "site.test.",
    ];
    const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_760_000_000));

    fn any_url() -> impl Strategy<Value = Url> {
        let parts = (
            select(&["http", "https"][..]),
            select(&HOSTS[..]),
            select(&["", ":8080"][..]),
            select(&["/", "/~alice/", "/~alice", "/~mallory/x", "/a/b"][..]),
        );
        parts.prop_map(|(scheme, host, port, path)| url(&format!("{scheme}://{host}{port}{path}")))
    }

    fn any_sandbox() -> impl Strategy<Value = Sandbox> {
        (0..4_u8, any::<bool>()).prop_map(|(opaque, scriptless)| Sandbox {
            opaque: opaque == 0,
            scriptless,
        })
    }

    fn any_mode() -> impl Strategy<Value = CrossOrigin> {
        select(
            &[
                CrossOrigin::None,
                CrossOrigin::Anonymous,
                CrossOrigin::Credentials,
                CrossOrigin::Omitted,
            ][..],
        )
    }

    proptest! {
        /// A request with a cookie is never cross-site to its document or an ancestor, never comes from a
        /// sandbox, never follows a cross-site redirect, and never has a path that the cookie's path does not
        /// match.
        #[test]
        fn cookies_are_not_sent_across_sites(
            top in any_url(),
            frames in proptest::collection::vec((any_url(), any_sandbox()), 0..3),
            redirects in proptest::collection::vec(any_url(), 0..3),
            sheet in proptest::option::of(any_url()),
            target in any_url(),
            mode in any_mode(),
            set_at in any_url(),
            domain in select(&["", "; Domain=site.test", "; Domain=github.io", "; Domain=test"][..]),
        ) {
            let request = map(&[("cookie", "secret=1")]);
            let mut jar = Jar::new(&top, &request, &CookiePathObservations::new());
            let response: HeaderMap = [(
                header::SET_COOKIE,
                HeaderValue::from_str(&format!("set=1; Path=/{domain}")).unwrap(),
            )]
            .into_iter()
            .collect();
            let mut documents = vec![top.clone()];
            let mut opaque = false;
            let mut initiator = page(top.as_str());
            jar.store(&set_at, &response, Some(&RequestChain::document(initiator.clone())), NOW);
            for (at, sandbox) in frames {
                let Some(frame) = initiator.frame(&at, &HeaderMap::new(), sandbox) else { break };
                initiator = frame;
                documents.push(at);
                opaque |= sandbox.opaque;
            }
            let chain = RequestChain {
                sheet: sheet.map(|sheet| (sheet, None)),
                redirects: redirects.clone(),
                ..RequestChain::document(initiator)
            };
            let reference = Reference {
                cross_origin: mode,
                ..Reference::new(target.clone(), Destination::Image)
            };
            let prediction = Predictor::new(&request).predict(&reference, &chain, &Templates::new(), &jar, NOW);
            if let Some(cookie) = prediction.fields.get(header::COOKIE) {
                let cookie = cookie.to_str().unwrap();
                prop_assert!(!opaque);
                for other in documents.iter().chain(&redirects) {
                    prop_assert!(is_same_site(other, &target), "{other} {target} {cookie}");
                }
                if cookie.contains("secret") {
                    prop_assert_eq!(top.host(), target.host());
                    let own = top.path();
                    let path = target.path();
                    prop_assert!(path.strip_prefix(own).is_some_and(|rest| {
                        rest.is_empty() || own.ends_with('/') || rest.starts_with('/')
                    }), "{own} {path}");
                }
            }
        }
    }
}
