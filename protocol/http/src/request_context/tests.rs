use http::{HeaderMap, HeaderName, HeaderValue, Method};
use longhaul_types::ClientId;

use super::*;

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    fields
        .iter()
        .map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            )
        })
        .collect()
}

fn of(url: &str, fields: &[(&'static str, &str)]) -> RequestContext {
    let secret = CredentialsSecret::derived_from(b"key");
    RequestContext::of(ClientId::OWNER, &secret, &Method::GET, url, &headers(fields))
}

fn partition_of(url: &str, fields: &[(&'static str, &str)]) -> Option<String> {
    of(url, fields).partition().map(ToString::to_string)
}

const NAVIGATE: (&str, &str) = ("sec-fetch-mode", "navigate");
const NO_CORS: (&str, &str) = ("sec-fetch-mode", "no-cors");

#[test]
fn top_level_documents_are_in_the_partition_of_their_site() {
    let fields = [
        NAVIGATE,
        ("sec-fetch-dest", "document"),
        ("sec-fetch-site", "cross-site"),
        ("referer", "https://evil.test/"),
    ];
    let context = of("https://www.victim.test/", &fields);
    assert_eq!(context.partition().unwrap().to_string(), "https://victim.test");
    assert_eq!(context.navigation(), Navigation::TopLevel);
    assert_eq!(context.relation(), SiteRelation::CrossSite);
    assert_eq!(context.requester().origin(), Some("https://evil.test"));
}

#[test]
fn frame_documents_are_in_the_partition_of_both_sites() {
    let frame = |referrer| {
        let fields = [NAVIGATE, ("sec-fetch-dest", "iframe"), ("referer", referrer)];
        partition_of("https://frame.test/", &fields)
    };
    assert_eq!(
        frame("https://a.test/").as_deref(),
        Some("https://a.test https://frame.test")
    );
    assert_eq!(
        frame("https://www.frame.test/").as_deref(),
        Some("https://frame.test")
    );
    assert_eq!(frame("about:srcdoc"), None);
}

#[test]
fn subresources_are_in_the_partition_of_the_requesting_site() {
    let url = "https://cdn.test/lib.js";
    let from = |fields: &[(&'static str, &str)]| partition_of(url, fields);
    let (cross, same) = (
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-origin"),
    );
    assert_eq!(
        from(&[NO_CORS, cross, ("referer", "https://www.a.test/x")]).as_deref(),
        Some("https://a.test")
    );
    assert_eq!(
        from(&[
            cross,
            ("origin", "https://b.test"),
            ("referer", "https://a.test/")
        ])
        .as_deref(),
        Some("https://b.test")
    );
    assert_eq!(from(&[NO_CORS, same]).as_deref(), Some("https://cdn.test"));
    assert_eq!(from(&[NO_CORS, cross]), None);
    assert_eq!(from(&[NO_CORS, ("sec-fetch-site", "same-site")]), None);
    assert_eq!(from(&[cross, ("origin", "null")]), None);
    assert_eq!(from(&[]), None);
}

#[test]
fn a_request_from_another_sites_style_sheet_has_no_partition() {
    let cross = ("sec-fetch-site", "cross-site");
    let of_sheet = [NO_CORS, cross, ("referer", "https://cdn.test/style.css")];
    let context = of("https://cdn.test/picture.png", &of_sheet);
    assert_eq!(context.partition(), None);
    assert_eq!(context.requester(), &Requester::Unknown);
    assert_eq!(context.relation(), SiteRelation::CrossSite);
}

#[test]
fn without_fetch_metadata_the_context_follows_from_other_fields() {
    let url = "http://a.test/page";
    let upgrade = ("upgrade-insecure-requests", "1");
    let accept = ("accept", "text/html,application/xhtml+xml");
    assert_eq!(of(url, &[accept, upgrade]).navigation(), Navigation::TopLevel);
    // A script can set `Accept` and, in mode `cors`, `Upgrade-Insecure-Requests`.
    assert_eq!(of(url, &[accept]).navigation(), Navigation::None);
    let by_script = [accept, upgrade, ("origin", "http://evil.test")];
    assert_eq!(of(url, &by_script).navigation(), Navigation::None);
    assert_eq!(of(url, &by_script).mode, RequestMode::Cors);
    let relation = |referrer| of(url, &[("referer", referrer)]).relation();
    assert_eq!(relation("http://a.test/"), SiteRelation::SameOrigin);
    assert_eq!(relation("http://a.test:81/"), SiteRelation::SameSite);
    assert_eq!(relation("https://a.test/"), SiteRelation::CrossSite);
    assert_eq!(relation("http://b.test/"), SiteRelation::CrossSite);
    assert_eq!(of(url, &[]).relation(), SiteRelation::Unknown);
    assert_eq!(
        partition_of(url, &[("referer", "http://b.test/")]).as_deref(),
        Some("http://b.test")
    );
}

#[test]
fn repeated_fields_are_ignored() {
    let url = "https://victim.test/x";
    let mut fields = headers(&[("sec-fetch-mode", "no-cors"), ("sec-fetch-site", "same-origin")]);
    fields.append("sec-fetch-site", HeaderValue::from_static("cross-site"));
    let secret = CredentialsSecret::derived_from(b"key");
    let context = RequestContext::of(ClientId::OWNER, &secret, &Method::GET, url, &fields);
    assert_eq!(context.relation(), SiteRelation::CrossSite);
    assert_eq!(context.partition(), None);
    let mut fields = headers(&[("referer", "https://victim.test/")]);
    fields.append("referer", HeaderValue::from_static("https://evil.test/"));
    let context = RequestContext::of(ClientId::OWNER, &secret, &Method::GET, url, &fields);
    assert_eq!(context.partition(), None);
}

#[test]
fn stored_documents_require_equal_credentials() {
    let url = "https://bank.test/account";
    let document = |fields: &[(&'static str, &str)]| of(url, &[&[NAVIGATE], fields].concat());
    let (ada, bob) = (("cookie", "sid=ada"), ("cookie", "sid=bob"));
    let stored = document(&[ada]).credentials();
    let fresh = headers(&[("cache-control", "public, max-age=600")]);
    assert!(document(&[ada]).may_reuse(stored, &fresh));
    assert!(!document(&[bob]).may_reuse(stored, &fresh));
    assert!(!document(&[]).may_reuse(stored, &fresh));
    assert!(!document(&[ada]).may_reuse(None, &fresh));
}

#[test]
fn objects_fetched_without_credentials_may_serve_others() {
    let url = "https://bank.test/app.js";
    let object = |fields: &[(&'static str, &str)]| of(url, fields);
    let (ada, bob) = (("cookie", "sid=ada"), ("cookie", "sid=bob"));
    let (ours, private) = (
        object(&[ada]).credentials(),
        headers(&[("cache-control", "max-age=600")]),
    );
    assert!(!object(&[bob]).may_reuse(ours, &private));
    assert!(!object(&[]).may_reuse(ours, &private));
    assert!(object(&[bob]).may_reuse(None, &private));
    for directives in ["public, max-age=9", "max-age=9, immutable"] {
        assert!(object(&[bob]).may_reuse(ours, &headers(&[("cache-control", directives)])));
    }
    let both = headers(&[("cache-control", "public, private")]);
    assert!(!object(&[bob]).may_reuse(ours, &both));
}

#[test]
fn credentials_are_cookies_and_authorization() {
    let key = |fields: &[(&'static str, &str)]| of("https://a.test/", fields).credentials();
    assert_eq!(key(&[]), None);
    assert_eq!(key(&[("cookie", "_ga=GA1.2.3; _ga_X1=GS1.1")]), None);
    assert!(key(&[("cookie", "_gallery=user")]).is_some());
    let session = key(&[("cookie", "sid=1; theme=dark")]);
    assert_eq!(session, key(&[("cookie", "theme=dark; _ga=x; sid=1")]));
    assert_ne!(session, key(&[("cookie", "sid=2; theme=dark")]));
    assert_ne!(
        session,
        key(&[("cookie", "sid=1;theme=dark"), ("authorization", "Basic x")])
    );
    // Different sets of pairs have different keys.
    assert_ne!(key(&[("cookie", "a=b=c")]), key(&[("cookie", "a=b; c=")]));
    let other = CredentialsSecret::derived_from(b"another");
    assert_ne!(other.key(&headers(&[("cookie", "sid=1; theme=dark")])), session);
}

#[test]
fn fields_of_scripts_are_credentials() {
    let key = |fields: &[(&'static str, &str)]| of("https://a.test/", fields).credentials();
    let ann = key(&[("private-token", "ann")]);
    assert!(ann.is_some());
    assert_ne!(ann, key(&[("private-token", "bob")]));
    assert_ne!(ann, key(&[("api-key", "ann")]));
    assert_ne!(ann, key(&[("private-token", "ann"), ("x-auth-token", "ann")]));
    assert_eq!(
        key(&[("x-a", "1"), ("x-b", "2")]),
        key(&[("x-b", "2"), ("x-a", "1")])
    );
    // Numbers of requests, and what browsers send by themselves.
    let of_browsers = [
        ("traceparent", "00-1-2-01"),
        ("x-requested-with", "XMLHttpRequest"),
        ("sec-fetch-site", "same-origin"),
        ("if-none-match", "\"1\""),
        ("range", "bytes=0-"),
        ("service-worker-navigation-preload", "true"),
        ("accept-language", "de"),
    ];
    assert_eq!(key(&of_browsers), None);
}

#[test]
fn cross_site_requests_with_credentials_are_recognised() {
    let by = |fields: &[(&'static str, &str)]| {
        let fields = [&[NAVIGATE], fields].concat();
        of("https://a.test/", &fields).is_credentialed_by_stranger(&headers(&fields))
    };
    let cookie = ("cookie", "sid=1");
    assert!(by(&[cookie, ("sec-fetch-site", "cross-site")]));
    assert!(by(&[cookie]));
    assert!(!by(&[cookie, ("sec-fetch-site", "none")]));
    assert!(!by(&[cookie, ("sec-fetch-site", "same-origin")]));
    assert!(!by(&[("sec-fetch-site", "cross-site")]));
}

#[test]
fn different_requests_have_different_shapes() {
    let url = "https://a.test/x";
    let shape = |fields: &[(&'static str, &str)]| of(url, fields).shape();
    let (script, image) = (("sec-fetch-dest", "script"), ("sec-fetch-dest", "image"));
    let same = ("sec-fetch-site", "same-origin");
    let whole = shape(&[NO_CORS, script, same]);
    assert_eq!(RequestShape::of_code(whole.code()), whole);
    for other in [
        shape(&[NO_CORS, image, same]),
        shape(&[("sec-fetch-mode", "cors"), script, same]),
        shape(&[NO_CORS, script, ("sec-fetch-site", "cross-site")]),
        shape(&[]),
    ] {
        assert_ne!(whole, other);
    }
}

proptest::proptest! {
    #[test]
    fn no_fields_panic(url in ".*", origin in "[ -~]*", referrer in "[ -~]*", site in "[a-z-]*") {
        let fields = [("origin", &*origin), ("referer", &*referrer), ("sec-fetch-site", &*site)];
        let _context = of(&url, &fields);
        let _context = of(&format!("http://{url}"), &fields[1..]);
    }

    #[test]
    fn the_partition_is_that_of_the_requesting_site(host in "[a-c]", from in "[a-c]") {
        let url = format!("http://{host}.test/x");
        let context = of(&url, &[("referer", &format!("http://{from}.test/"))]);
        proptest::prop_assert_eq!(context.partition().unwrap().to_string(), format!("http://{from}.test"));
    }
}

#[test]
fn the_page_is_the_requester_or_the_document_itself() {
    let url = "https://img.test/a.png";
    let referrer = ("referer", "https://page.test/");
    let host = |fields: &[(&'static str, &str)]| of(url, fields).page_host(url).map(str::to_owned);
    assert_eq!(host(&[NO_CORS, referrer]).as_deref(), Some("page.test"));
    assert_eq!(host(&[NO_CORS]).as_deref(), Some("img.test"));
    let opened = [NAVIGATE, ("sec-fetch-dest", "document"), referrer];
    assert_eq!(host(&opened).as_deref(), Some("img.test"));
}

#[test]
fn a_context_without_partition_uses_nothing_private() {
    let context = of("https://a.test/", &[NAVIGATE, ("sec-fetch-dest", "document")]);
    assert!(context.partition().is_some());
    assert_eq!(context.without_partition().partition(), None);
}

#[test]
fn destinations_are_those_of_fetch() {
    use RequestDestination as To;
    for (names, expected) in [
        (&["document"][..], To::Document),
        (&["iframe", "frame", "embed", "object", "fencedframe"], To::Frame),
        (&["script", "worker", "sharedworker", "serviceworker"], To::Script),
        (&["audioworklet", "paintworklet"], To::Script),
        (&["style"], To::Style),
        (&["image"], To::Image),
        (&["font"], To::Font),
        (&["audio", "video", "track"], To::Media),
        (&["empty"], To::Data),
        (&["manifest", "xslt", "report", "json", ""], To::Other),
    ] {
        for name in names {
            let context = of("https://a.test/", &[("sec-fetch-dest", name)]);
            assert_eq!(context.destination(), expected, "{name}");
        }
    }
}

#[test]
fn upgrade_insecure_requests_alone_makes_a_navigation() {
    let upgrade = ("upgrade-insecure-requests", "1");
    let of_fields = |fields: &[_]| of("http://a.test/", fields).navigation();
    assert_eq!(of_fields(&[upgrade]), Navigation::TopLevel);
    for other in [
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-dest", "image"),
        ("origin", "null"),
        ("sec-fetch-mode", "x"),
    ] {
        let expected = if other.1 == "x" {
            Navigation::TopLevel
        } else {
            Navigation::None
        };
        assert_eq!(of_fields(&[upgrade, other]), expected, "{other:?}");
    }
    assert_eq!(of_fields(&[("upgrade-insecure-requests", "0")]), Navigation::None);
    let secret = CredentialsSecret::derived_from(b"key");
    let post = RequestContext::of(
        ClientId::OWNER,
        &secret,
        &Method::POST,
        "http://a.test/",
        &headers(&[upgrade]),
    );
    assert_eq!(post.navigation(), Navigation::None);
}

#[test]
fn a_partition_concerns_the_site_and_the_document_in_the_frame() {
    let fields = [
        NAVIGATE,
        ("sec-fetch-dest", "iframe"),
        ("referer", "https://a.test/"),
    ];
    let context = of("https://frame.test/", &fields);
    let partition = context.partition().unwrap();
    assert!(partition.concerns("a.test") && partition.concerns("frame.test"));
    assert!(!partition.concerns("b.test"));
}

#[test]
fn an_origin_has_a_host() {
    assert_eq!(origin_of("https://a.test:8443?x"), Some("https://a.test:8443"));
    assert_eq!(origin_of("https:///x"), None);
    assert_eq!(origin_of("about:blank"), None);
}
