//! Input from users and files: invites, remembered networks, rules for sites, request targets, link traces.
use std::time::Duration;

use longhaul_agent::{networks::Networks, rules::RuleSet};
use longhaul_types::{Invite, SecretKey, UnixTime};

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

/// The file of remembered networks decodes or fails; what decodes is written and decoded as the same.
pub(crate) fn networks_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(networks) = Networks::decode(text) {
        let again = Networks::decode(&networks.encode());
        assert_eq!(again, Ok(networks), "the networks changed in a round trip");
    }
}

pub(crate) fn networks_seeds() -> Vec<Vec<u8>> {
    let lines = [
        "longhaul networks 1",
        "network 00112233445566778899aabbccddeeff 1760000000 4",
        "port 443",
        "session 8000000 9000000 - - 63000 120",
        "session 7000000 9500000 500000 600000 64000 0",
        "network ffeeddccbbaa99887766554433221100 1760000001 -",
    ];
    let whole = lines.join("\n");
    vec![whole.into_bytes(), b"longhaul networks 1\n".to_vec()]
}

/// The file of the user's rules decodes or fails; what decodes is written and decoded as the same, and applies to names.
pub(crate) fn rules_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(mut rules) = RuleSet::decode(text) else {
        return;
    };
    let again = RuleSet::decode(&rules.encode());
    assert_eq!(again.as_ref(), Ok(&rules), "the rules changed in a round trip");
    let now = UnixTime::new(Duration::from_secs(1_760_000_000));
    for host in ["www.site.test", "", "."] {
        let _paused = (rules.pause(host, now), rules.images(host, now), rules.https(host));
    }
    rules.expire(now);
    assert!(!rules.expire(now), "expired rules expired again");
}

pub(crate) fn rules_seeds() -> Vec<Vec<u8>> {
    let lines = [
        "longhaul rules 1",
        "pause-everything 1760000900",
        "https site.test tunnel",
        "images site.test original",
        "originals www.site.test 1760000100",
        "pause www.site.test 1860000000",
        "https ::1 accelerate",
    ];
    vec![lines.join("\n").into_bytes(), b"longhaul rules 1\n".to_vec()]
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
