//! Requests that were observed, and what other users' requests taught.
use super::*;

/// Requests for objects that other users reported never carry this user's cookies.
#[test]
fn objects_learned_from_others_are_fetched_without_cookies() {
    let load = Load::new("http://a.test:8931/", &chromium());
    let mut extra = reference("http://a.test:8931/x", Destination::Other);
    let chain = RequestChain::document(load.page.clone());
    assert!(
        load.predict_for(&extra, &chain)
            .fields
            .contains_key(header::COOKIE)
    );
    extra.credentials = CredentialsPermission::Never;
    let prediction = load.predict_for(&extra, &chain);
    assert!(prediction.is_withheld && !prediction.fields.contains_key(header::COOKIE));
}

#[test]
fn observed_requests_replace_the_engines_defaults() {
    let mut load = Load::new("http://a.test:8931/", &chromium());
    let seen = map(&[
        ("host", "a.test:8931"),
        ("accept", "image/new,*/*"),
        ("user-agent", CHROMIUM),
        ("priority", "i"),
        ("x-requested-with", "script"),
        ("authorization", "Basic eA=="),
        ("if-none-match", "\"a\""),
        ("referer", "http://a.test:8931/old"),
        ("cookie", "old=1"),
        ("accept-language", "en-US,en;q=0.9"),
    ]);
    let target = url("http://a.test:8931/one.png");
    load.templates.observe(&target, Destination::Image, &seen);
    let predicted = load.predict(&reference("http://b.test:8931/two.png", Destination::Image));
    assert_eq!(
        list(&predicted),
        [
            ("accept", "image/new,*/*"),
            ("user-agent", CHROMIUM),
            ("priority", "i"),
            ("referer", "http://a.test:8931/"),
            ("accept-language", "en-US,en;q=0.9"),
            ("accept-encoding", "gzip, deflate"),
        ]
    );
    // Other destinations and modes are not affected.
    let style = load.predict(&reference("http://a.test:8931/s.css", Destination::Style));
    assert_eq!(style[header::ACCEPT], "text/css,*/*;q=0.1");
    let mut cors = reference("http://b.test:8931/two.png", Destination::Image);
    cors.cross_origin = CrossOrigin::Anonymous;
    assert_eq!(load.predict(&cors)[header::ACCEPT], CHROMIUM_IMAGE);
}

#[test]
fn a_range_does_not_teach_its_coding() {
    let mut load = Load::new("http://a.test:8931/", &chromium());
    let target = url("http://a.test:8931/v.mp4");
    let seen = map(&[
        ("user-agent", CHROMIUM),
        ("accept", "*/*"),
        ("accept-encoding", "identity"),
        ("range", "bytes=0-"),
    ]);
    load.templates.observe(&target, Destination::Other, &seen);
    let predicted = load.predict(&reference("http://a.test:8931/w.mp4", Destination::Other));
    assert_eq!(predicted[header::ACCEPT_ENCODING], "gzip, deflate");
    assert!(!predicted.contains_key(header::RANGE));
    assert!(!load.templates.is_empty());
}
