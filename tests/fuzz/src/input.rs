//! Input from users and files: invites, request targets, link traces.
use longhaul_types::{Invite, SecretKey};

/// An invite parses or fails; a parsed invite is written as the same line.
pub(crate) fn invite(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(invite) = text.parse::<Invite>() {
        assert_eq!(invite.to_line(), text.trim(), "an invite changed in a round trip");
    }
}

pub(crate) fn invite_seeds() -> Vec<Vec<u8>> {
    let gateway = SecretKey::from_bytes([1; 32]).public();
    let invite = Invite::new(
        "gw.test:4433".to_owned(),
        gateway,
        SecretKey::from_bytes([2; 32]),
        [3; 32],
    );
    vec![invite.expect("a valid address").to_line().into_bytes()]
}

/// A request target of a proxy parses or fails; a parsed target contains a host and gives a URL that parses
/// again.
pub(crate) fn proxy_target(bytes: &[u8]) {
    let Ok(uri) = http::Uri::try_from(bytes) else {
        return;
    };
    let _refused = longhaul_http::target::authority(&uri);
    if let Ok(target) = longhaul_http::target::absolute(&uri) {
        let again = target.url().parse().expect("a target's URL is a URI");
        let again = longhaul_http::target::absolute(&again).expect("a target's URL is a target");
        assert_eq!(again.url(), target.url());
    }
}

pub(crate) fn target_seeds() -> Vec<Vec<u8>> {
    [
        "http://site.test/a?b#c",
        "http://[::1]:8080/",
        "site.test:443",
        "http://u:p@h/",
        "http://2852039166/",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// A trace parses or fails.
pub(crate) fn link_trace(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _malformed = longhaul_netem::DeliveryTrace::parse(text);
    }
}

pub(crate) fn trace_seeds() -> Vec<Vec<u8>> {
    vec![b"0\n1\n1\n5\n100\n".to_vec(), b"7\n".to_vec()]
}
