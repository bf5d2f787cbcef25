use http::Request;
use http_body_util::Full;

use super::*;

const ANNA: ConnectionOwner = ConnectionOwner::Device(PublicKey::from_bytes([1; 32]));
const BERT: ConnectionOwner = ConnectionOwner::Device(PublicKey::from_bytes([2; 32]));

fn properties(
    secret: &RandomState,
    owner: ConnectionOwner,
    method: &str,
    fields: &[(&str, &str)],
) -> RequestProperties {
    let mut request = Request::builder().method(method).uri("http://site.test/");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let target = Target::of(&parts.uri).unwrap();
    let body = if method == "POST" { "x" } else { "" };
    RequestProperties::of(owner, &target, &parts, &Upload::new(Full::from(body)), secret)
}

#[test]
fn plain_requests_leave_the_connection_unclaimed() {
    let secret = RandomState::new();
    let browser = [
        ("accept", "*/*"),
        ("user-agent", "Browser/1.0 (X11)"),
        ("referer", "http://site.test/page"),
        ("sec-fetch-mode", "no-cors"),
        ("sec-ch-ua-platform", "\"Linux\""),
    ];
    let plain = properties(&secret, ANNA, "GET", &browser);
    assert_eq!(plain.effect, ConnectionEffect::None);
    let over_http1 = Ownership::Unclaimed.after(&plain, Multiplexing::No);
    assert_eq!(over_http1, Ownership::Device(ANNA));
    let after = Ownership::Unclaimed.after(&plain, Multiplexing::Streams);
    assert_eq!(after, Ownership::Unclaimed);
    assert!(
        after
            .preference(&properties(&secret, BERT, "GET", &[("cookie", "a=1")]))
            .is_some()
    );
}

#[test]
fn credentials_and_unusual_fields_claim_a_connection() {
    let secret = RandomState::new();
    let long = "x".repeat(MAX_SHAREABLE_HEAD);
    for field in [
        ("cookie", "a=1"),
        ("authorization", "Basic eA=="),
        ("x-anything", "1"),
        ("x-http-method-override", "POST"),
        ("transfer-encoding", "chunked"),
        ("user-agent", "\u{e9}"),
        ("referer", &long),
    ] {
        let private = properties(&secret, ANNA, "GET", &[field]);
        for protocol in [Multiplexing::No, Multiplexing::Streams] {
            let after = Ownership::Unclaimed.after(&private, protocol);
            assert_eq!(after, Ownership::Device(ANNA), "{field:?}");
            assert!(after.preference(&properties(&secret, ANNA, "GET", &[])).is_some());
            assert_eq!(after.preference(&properties(&secret, BERT, "GET", &[])), None);
        }
    }
}

#[test]
fn the_clients_of_a_network_share_its_limits_and_no_private_connection() {
    let secret = RandomState::new();
    let network = PublicKey::from_bytes([9; 32]);
    let [anna, bert] = [1, 2].map(|byte| ConnectionOwner::OfNetwork {
        client: PublicKey::from_bytes([byte; 32]),
        network,
    });
    assert_eq!(anna.share(), bert.share());
    assert_eq!(ANNA.share(), ANNA);
    let private = properties(&secret, anna, "GET", &[("cookie", "a=1")]);
    let after = Ownership::Unclaimed.after(&private, Multiplexing::No);
    assert!(after.preference(&properties(&secret, anna, "GET", &[])).is_some());
    assert_eq!(after.preference(&properties(&secret, bert, "GET", &[])), None);
    assert_eq!(
        after.preference(&properties(&secret, anna.share(), "GET", &[])),
        None
    );
}

#[test]
fn after_a_request_body_a_connection_serves_one_site_and_user() {
    let secret = RandomState::new();
    let of = |site: &'static str, cookie: &'static str| [("referer", site), ("cookie", cookie)];
    let post = properties(&secret, ANNA, "POST", &of("http://site.test/x", "u=1"));
    let after = Ownership::Device(ANNA).after(&post, Multiplexing::No);
    let may_carry = |owner, site, cookie| {
        after
            .preference(&properties(&secret, owner, "GET", &of(site, cookie)))
            .is_some()
    };
    assert!(may_carry(ANNA, "http://site.test/y", "u=1"));
    assert!(!may_carry(ANNA, "http://b.test/x", "u=1"), "another site");
    assert!(!may_carry(ANNA, "http://site.test/x", "u=2"), "another user");
    assert!(!may_carry(BERT, "http://site.test/x", "u=1"), "another device");
    assert_eq!(
        Ownership::Unclaimed.after(&post, Multiplexing::Streams),
        Ownership::Device(ANNA)
    );
}

#[test]
fn after_a_cross_site_body_a_connection_is_not_reused() {
    let secret = RandomState::new();
    for fields in [
        &[("origin", "http://evil.test")][..],
        &[("referer", "http://evil.test/x"), ("cookie", "u=1")],
        &[],
    ] {
        let post = properties(&secret, ANNA, "POST", fields);
        let after = Ownership::Unclaimed.after(&post, Multiplexing::No);
        assert_eq!(after, Ownership::Nobody);
        assert_eq!(after.preference(&post), None);
    }
    for method in ["HEAD", "DELETE", "OPTIONS"] {
        let after = Ownership::Unclaimed.after(&properties(&secret, ANNA, method, &[]), Multiplexing::No);
        assert_eq!(after, Ownership::Device(ANNA), "{method}");
    }
}

#[test]
fn a_head_is_shareable_up_to_its_limit() {
    let secret = RandomState::new();
    let fields = |length: usize| {
        let (accept, referer) = (
            "x".repeat(9),
            "/".len() + "accept: \r\n".len() + "referer: \r\n".len(),
        );
        let length = length - accept.len() - referer;
        properties(
            &secret,
            ANNA,
            "GET",
            &[("accept", &accept), ("referer", &"y".repeat(length))],
        )
    };
    assert_eq!(fields(MAX_SHAREABLE_HEAD).effect, ConnectionEffect::None);
    assert_eq!(fields(MAX_SHAREABLE_HEAD + 1).effect, ConnectionEffect::Private);
}
