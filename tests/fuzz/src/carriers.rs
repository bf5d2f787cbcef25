//! Messages and handshakes of carriers (docs/protocol/transport.md section 8.2).
use longhaul_carriers::{
    framing::{append, packets},
    upgrade::{RequestHead, parse_request, parse_response, request},
};
use longhaul_proxy::{Answer, Exceptions, ProxyUrl, parse_answer};
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

/// Answers of a proxy are parsed or rejected, and texts of the environment are addresses of proxies or not.
pub(crate) fn http_proxy(bytes: &[u8]) {
    if let Ok(Answer::Open(length)) = parse_answer(bytes, false) {
        assert!(length <= bytes.len());
        assert_eq!(parse_answer(&bytes[..length], true), Ok(Answer::Open(length)));
    }
    let text = String::from_utf8_lossy(bytes);
    if let Ok(url) = text.parse::<ProxyUrl>() {
        let again: ProxyUrl = url.to_string().parse().expect("a displayed address is one");
        assert_eq!((again.host(), again.port()), (url.host(), url.port()));
        let _any = Exceptions::parse(&text).contain(url.host(), url.port());
    }
}

pub(crate) fn http_proxy_seeds() -> Vec<Vec<u8>> {
    [
        "HTTP/1.1 200 Connection established\r\nVia: 1.1 squid\r\n\r\nrest",
        "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\n",
        "http://anna:p%40ss@[2001:db8::1]:3128/",
        "10.0.0.0/8,.corp.test:443 *",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
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
