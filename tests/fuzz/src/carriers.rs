//! Messages and handshakes of carriers (docs/protocol/transport.md section 8.2).
use longhaul_carriers::{
    framing::{append, packets},
    upgrade::{RequestHead, parse_request, parse_response, request},
};
use longhaul_types::SecretKey;

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// The whole packets of a message survive a round trip.
pub(crate) fn carrier_message(bytes: &[u8]) {
    let whole: Vec<&[u8]> = packets(bytes).map_while(Result::ok).collect();
    let mut message = Vec::new();
    for packet in &whole {
        assert!(append(&mut message, packet), "a decoded packet can be encoded");
    }
    assert!(bytes.starts_with(&message));
    let again: Result<Vec<&[u8]>, _> = packets(&message).collect();
    assert_eq!(again, Ok(whole));
}

/// Requests and responses of strangers are parsed or rejected; a request that opens a link contains its first
/// packet unchanged.
pub(crate) fn carrier_upgrade(bytes: &[u8]) {
    let gateway = SecretKey::from_bytes([7; 32]).public();
    if let RequestHead::Link { length, first, .. } = parse_request(&gateway, bytes) {
        assert!(length <= bytes.len());
        let again = request(&gateway, "gw.example.org", KEY, first.as_deref());
        let RequestHead::Link { first: same, .. } = parse_request(&gateway, again.as_bytes()) else {
            panic!("a request of this program opens no link");
        };
        assert_eq!(same, first);
    }
    if let Ok(Some(length)) = parse_response(KEY, bytes) {
        assert!(length <= bytes.len());
    }
}

pub(crate) fn message_seeds() -> Vec<Vec<u8>> {
    let mut message = Vec::new();
    for length in [60, 1252, 3] {
        assert!(append(&mut message, &vec![0x80; length]));
    }
    vec![Vec::new(), message]
}

pub(crate) fn upgrade_seeds() -> Vec<Vec<u8>> {
    let gateway = SecretKey::from_bytes([7; 32]).public();
    let with = request(&gateway, "gw.example.org", KEY, Some(&[0x80; 60]));
    let without = request(&gateway, "192.0.2.1", KEY, None);
    let mut seeds = vec![with.into_bytes(), without.into_bytes()];
    if let RequestHead::Link { response, .. } = parse_request(&gateway, &seeds[1]) {
        seeds.push(response.into_bytes());
    }
    seeds
}
