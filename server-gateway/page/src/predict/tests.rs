mod browsers;
mod observed;

use std::time::Duration;

use super::*;
use crate::{Initiator, ReferrerPolicy, Sandbox, jar::CookiePathObservations};

const CHROMIUM: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/156.0.0.0 Safari/537.36";
const CHROMIUM_PAGE: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/jxl,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7";
const CHROMIUM_IMAGE: &str = "image/jxl,image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8";
const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_760_000_000));

type Fields<'a> = Vec<(&'a str, &'a str)>;

fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let fields = fields
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    fields.collect()
}

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn list(fields: &HeaderMap) -> Fields<'_> {
    fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect()
}

/// A page load with its predictor.
struct Load {
    page: Initiator,
    predictor: Predictor,
    templates: Templates,
    jar: Jar,
}

impl Load {
    fn new(page: &str, request: &HeaderMap) -> Self {
        Self {
            page: Initiator::page(&url(page), &HeaderMap::new()),
            predictor: Predictor::new(request),
            templates: Templates::new(),
            jar: Jar::new(&url(page), request, &CookiePathObservations::new()),
        }
    }

    fn predict(&self, reference: &Reference) -> HeaderMap {
        self.predict_for(reference, &RequestChain::document(self.page.clone()))
            .fields
    }

    fn predict_for(&self, reference: &Reference, chain: &RequestChain) -> Prediction {
        self.predictor
            .predict(reference, chain, &self.templates, &self.jar, NOW)
    }
}

fn reference(target: &str, destination: Destination) -> Reference {
    Reference::new(url(target), destination)
}

fn chromium() -> HeaderMap {
    map(&[
        ("host", "a.test:8931"),
        ("upgrade-insecure-requests", "1"),
        ("user-agent", CHROMIUM),
        ("accept", CHROMIUM_PAGE),
        ("accept-encoding", "gzip, deflate"),
        ("accept-language", "en-US,en;q=0.9"),
        ("cookie", "first=1"),
    ])
}

#[test]
fn credentials_follow_the_mode() {
    let load = Load::new("http://a.test:8931/", &chromium());
    let cookies = |target: &str, mode| {
        let mut reference = reference(target, Destination::Image);
        reference.cross_origin = mode;
        load.predict(&reference).contains_key(header::COOKIE)
    };
    let own = "http://a.test:8931/x";
    assert!(cookies(own, CrossOrigin::None));
    assert!(cookies(own, CrossOrigin::Anonymous));
    assert!(cookies(own, CrossOrigin::Credentials));
    assert!(!cookies(own, CrossOrigin::Omitted));
    // Same host, other origin.
    assert!(cookies("http://a.test/x", CrossOrigin::None));
    assert!(!cookies("http://a.test/x", CrossOrigin::Anonymous));
    assert!(cookies("http://a.test/x", CrossOrigin::Credentials));
}

#[test]
fn policies_of_page_sheet_and_element() {
    let request = chromium();
    let sheet = url("http://a.test/css/s.css");
    let load = Load::new("http://a.test/dir/page", &request);
    let page = Initiator::page(
        &url("http://a.test/dir/page"),
        &map(&[("referrer-policy", "origin")]),
    );
    let mut image = reference("http://a.test/i.png", Destination::Image);
    let referer = |image: &Reference, sheet| {
        let chain = RequestChain {
            sheet,
            ..RequestChain::document(page.clone())
        };
        let fields = load.predict_for(image, &chain).fields;
        fields
            .get(header::REFERER)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    assert_eq!(referer(&image, None).unwrap(), "http://a.test/");
    assert_eq!(
        referer(&image, Some((sheet, Some(ReferrerPolicy::default())))).unwrap(),
        "http://a.test/css/s.css"
    );
    image.referrer_policy = Some(ReferrerPolicy::NoReferrer);
    assert_eq!(referer(&image, None), None);
}

/// The document that contains a reference makes the request, not the containing page.
#[test]
fn requests_are_predicted_for_their_document() {
    let mut request = chromium();
    request.insert("sec-fetch-dest", HeaderValue::from_static("document"));
    let load = Load::new("https://www.a.test/", &request);
    let nothing = HeaderMap::new();
    let frame = load
        .page
        .frame(&url("https://other.a.test/f"), &nothing, Sandbox::default())
        .unwrap();
    let opaque = Sandbox {
        opaque: true,
        scriptless: false,
    };
    let sandboxed = load
        .page
        .frame(&url("https://www.a.test/s"), &nothing, opaque)
        .unwrap();
    let own = reference("https://www.a.test/i.png", Destination::Image);
    let font = reference("https://www.a.test/f.woff2", Destination::Font);
    let of = |initiator: &Initiator, reference: &Reference| {
        let fields = load
            .predict_for(reference, &RequestChain::document(initiator.clone()))
            .fields;
        let field = |name: &str| {
            fields
                .get(name)
                .map_or("-", |value| value.to_str().unwrap())
                .to_owned()
        };
        ["sec-fetch-site", "cookie", "referer", "origin"].map(field)
    };
    assert_eq!(
        of(&load.page, &own),
        ["same-origin", "first=1", "https://www.a.test/", "-"]
    );
    assert_eq!(
        of(&frame, &own),
        ["same-site", "first=1", "https://other.a.test/", "-"]
    );
    assert_eq!(
        of(&frame, &font),
        ["same-site", "-", "https://other.a.test/", "https://other.a.test"]
    );
    assert_eq!(of(&sandboxed, &own), ["cross-site", "-", "-", "-"]);
    assert_eq!(of(&sandboxed, &font), ["cross-site", "-", "-", "null"]);
}

/// The target receives nothing that a URL in the redirect chain may not receive.
#[test]
fn the_strictest_relation_of_a_redirect_chain_applies() {
    let mut request = chromium();
    request.insert("sec-fetch-dest", HeaderValue::from_static("document"));
    let load = Load::new("https://www.a.test/dir/page", &request);
    let of = |reference: &Reference, redirects: &[&str], redirect_policy| {
        let chain = RequestChain {
            redirects: redirects.iter().map(|from| url(from)).collect(),
            redirect_policy,
            ..RequestChain::document(load.page.clone())
        };
        let fields = load.predict_for(reference, &chain).fields;
        let field = |name: &str| {
            fields
                .get(name)
                .map_or("-", |value| value.to_str().unwrap())
                .to_owned()
        };
        ["sec-fetch-site", "cookie", "referer", "origin"].map(field)
    };
    let own = reference("https://www.a.test/dir/page/x", Destination::Image);
    let whole = "https://www.a.test/dir/page";
    assert_eq!(
        of(&own, &["https://www.a.test/1"], None),
        ["same-origin", "first=1", whole, "-"]
    );
    assert_eq!(
        of(&own, &["https://cdn.a.test/1"], None),
        ["same-site", "first=1", "https://www.a.test/", "-"]
    );
    assert_eq!(
        of(&own, &["https://evil.test/1"], None),
        ["cross-site", "-", "https://www.a.test/", "-"]
    );
    let none = Some(ReferrerPolicy::NoReferrer);
    assert_eq!(
        of(&own, &["https://www.a.test/1"], none),
        ["same-origin", "first=1", "-", "-"]
    );
    let font = reference("https://www.a.test/dir/page/f", Destination::Font);
    assert_eq!(of(&font, &["https://evil.test/1"], None)[3], "null");
    assert_eq!(
        of(&font, &["https://www.a.test/1"], None)[3],
        "https://www.a.test"
    );
}

#[test]
fn a_reload_without_caches_extends_to_objects() {
    let style = reference("http://a.test:8931/s.css", Destination::Style);
    let mut request = chromium();
    request.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=0"));
    let plain = Load::new("http://a.test:8931/", &request).predict(&style);
    assert!(!plain.contains_key(header::CACHE_CONTROL));
    request.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    request.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    let hard = Load::new("http://a.test:8931/", &request).predict(&style);
    assert_eq!(hard[header::CACHE_CONTROL], "no-cache");
    assert_eq!(hard[header::PRAGMA], "no-cache");
}

#[test]
fn cross_site_requests_contain_storage_access() {
    let mut request = chromium();
    request.insert("sec-fetch-dest", HeaderValue::from_static("document"));
    let load = Load::new("https://shop.test/", &request);
    let said = |load: &Load, reference: &Reference| {
        let value = load.predict(reference).get("sec-fetch-storage-access").cloned();
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    let other = reference("https://ads.test/i.png", Destination::Image);
    assert_eq!(said(&load, &other).as_deref(), Some("none"));
    let mut without = other.clone();
    without.cross_origin = CrossOrigin::Anonymous;
    assert_eq!(said(&load, &without), None);
    for url in [
        "https://shop.test/i.png",
        "https://cdn.shop.test/i.png",
        "http://ads.test/i.png",
    ] {
        assert_eq!(said(&load, &reference(url, Destination::Image)), None, "{url}");
    }
    let old = CHROMIUM.replace("156", "132");
    request.insert("user-agent", HeaderValue::from_str(&old).unwrap());
    assert_eq!(said(&Load::new("https://shop.test/", &request), &other), None);
}
