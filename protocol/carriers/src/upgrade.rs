//! The HTTP/1.1 request that turns a TLS connection into a link, and its response
//! (docs/protocol/transport.md section 8.2; RFC 6455 section 4).
use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use longhaul_protocol::{
    crypto::Mac1Key,
    wire::{PacketKind, init::InitOutline},
};
use longhaul_types::PublicKey;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Maximum length of a request or response head: an INIT of 1,252 bytes takes 1,670 characters.
pub const MAX_HEAD: usize = 8 * 1024;
/// Maximum number of header fields; browsers and proxies send fewer than 40.
const MAX_FIELDS: usize = 64;
/// Field with the first packet.
const PACKET: &str = "longhaul-packet";
/// Response to all requests that open no link.
pub const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 87\r\n\
Connection: close\r\n\r\n<html><head><title>404 Not Found</title></head><body><h1>Not Found</h1></body></html>\r\n";

/// Returns the path of a gateway's carrier. Only those who know the gateway's public key can compute it, as
/// only they can send an INIT (mac1).
pub fn path(gateway: &PublicKey) -> String {
    let key = blake3::derive_key("longhaul 1 carrier path", gateway.as_bytes());
    let mut path = String::from("/");
    for byte in &key[..16] {
        // Writing to a string never fails.
        let _infallible = write!(path, "{byte:02x}");
    }
    path
}

/// Returns the request of an agent. `key` is the random key of RFC 6455 section 4.1; `first` is the first
/// packet, which saves a round trip.
pub fn request(gateway: &PublicKey, host: &str, key: &str, first: Option<&[u8]>) -> String {
    let mut request = format!(
        "GET {} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n",
        path(gateway)
    );
    if let Some(first) = first {
        let packet = URL_SAFE_NO_PAD.encode(first);
        let _infallible = write!(request, "Longhaul-Packet: {packet}\r\n");
    }
    request.push_str("\r\n");
    request
}

/// Result of parsing a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestHead {
    /// The head is incomplete.
    Partial,
    /// Any other request, to be answered by [`NOT_FOUND`].
    Other,
    /// A request that opens a link.
    Link {
        /// Length of the head; the bytes after it belong to the link.
        length: usize,
        /// Response head, to be sent as it is.
        response: String,
        /// First packet.
        first: Option<Vec<u8>>,
    },
}

/// Parses the head of a request to the gateway with this key. An INIT in it has a correct mac1.
pub fn parse_request(gateway: &PublicKey, bytes: &[u8]) -> RequestHead {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return RequestHead::Partial,
        Ok(httparse::Status::Partial) | Err(_) => return RequestHead::Other,
    };
    if request.method != Some("GET") || request.path != Some(path(gateway).as_str()) {
        return RequestHead::Other;
    }
    let fields = &*request.headers;
    let is_upgrade = names(fields, "upgrade", "websocket") && names(fields, "connection", "upgrade");
    let version = field(fields, "sec-websocket-version");
    let (Some(key), true, Some(b"13")) = (field(fields, "sec-websocket-key"), is_upgrade, version) else {
        return RequestHead::Other;
    };
    let first = match field(fields, PACKET).map(|packet| URL_SAFE_NO_PAD.decode(packet)) {
        None => None,
        Some(Ok(packet)) if is_plausible(gateway, &packet) => Some(packet),
        Some(_) => return RequestHead::Other,
    };
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        derive_accept_key(key)
    );
    RequestHead::Link {
        length,
        response,
        first,
    }
}

/// Returns true for a packet of a session and for an INIT with a correct mac1.
pub(crate) fn is_plausible(gateway: &PublicKey, packet: &[u8]) -> bool {
    match PacketKind::classify(packet) {
        Some(PacketKind::Short) => true,
        Some(PacketKind::Init) => InitOutline::parse(packet)
            .is_ok_and(|init| Mac1Key::new(gateway).verify(init.covered, &init.mac1)),
        Some(PacketKind::Resp | PacketKind::Versions | PacketKind::Reset) | None => false,
    }
}

/// Errors of the response. The gateway's address leads to another server, or to a proxy that does not pass
/// WebSockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// The response is no HTTP/1.1, or too long.
    #[error("the server does not answer as an HTTP server")]
    Malformed,
    /// The server refuses the upgrade.
    #[error("the server answers with status {0} instead of opening a link")]
    Status(u16),
    /// The server did not process the request: a cache or a proxy answered.
    #[error("the response does not belong to the request")]
    WrongKey,
}

/// Parses the head of the response to a request with `key`. Returns its length, or `None` if it is incomplete.
///
/// # Errors
/// See [`ResponseError`].
pub fn parse_response(key: &str, bytes: &[u8]) -> Result<Option<usize>, ResponseError> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Ok(None),
        Ok(httparse::Status::Partial) | Err(_) => return Err(ResponseError::Malformed),
    };
    match response.code {
        Some(101) => {}
        Some(code) => return Err(ResponseError::Status(code)),
        None => return Err(ResponseError::Malformed),
    }
    let accept = derive_accept_key(key.as_bytes());
    if field(response.headers, "sec-websocket-accept") == Some(accept.as_bytes()) {
        Ok(Some(length))
    } else {
        Err(ResponseError::WrongKey)
    }
}

fn field<'a>(fields: &[httparse::Header<'a>], name: &str) -> Option<&'a [u8]> {
    let field = fields
        .iter()
        .find(|field| field.name.eq_ignore_ascii_case(name))?;
    Some(field.value)
}

/// Returns true if the comma-separated list in field `name` contains `value`.
fn names(fields: &[httparse::Header<'_>], name: &str, value: &str) -> bool {
    field(fields, name).is_some_and(|list| {
        let mut values = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        values.any(|one| one.eq_ignore_ascii_case(value.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use longhaul_types::SecretKey;

    use super::*;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    fn gateway() -> PublicKey {
        SecretKey::from_bytes([7; 32]).public()
    }

    /// A short packet: its first bit is set, as the wire format says.
    fn packet() -> Vec<u8> {
        (0..=255)
            .find_map(|first| {
                let packet = vec![first; 60];
                (PacketKind::classify(&packet) == Some(PacketKind::Short)).then_some(packet)
            })
            .unwrap()
    }

    #[test]
    fn a_request_opens_a_link_and_carries_the_first_packet() {
        let text = request(&gateway(), "gw.example.org", KEY, Some(&packet()));
        let RequestHead::Link {
            length,
            response,
            first,
        } = parse_request(&gateway(), text.as_bytes())
        else {
            panic!("{text}");
        };
        assert_eq!((length, first), (text.len(), Some(packet())));
        assert_eq!(parse_response(KEY, response.as_bytes()), Ok(Some(response.len())));
        assert_eq!(parse_response(KEY, &response.as_bytes()[..20]), Ok(None));
        assert_eq!(
            parse_response("other", response.as_bytes()),
            Err(ResponseError::WrongKey)
        );
        assert_eq!(parse_response(KEY, NOT_FOUND), Err(ResponseError::Status(404)));
        assert_eq!(
            parse_response(KEY, b"SSH-2.0-x\r\n\r\n"),
            Err(ResponseError::Malformed)
        );
        for cut in 0..text.len() {
            assert_eq!(
                parse_request(&gateway(), &text.as_bytes()[..cut]),
                RequestHead::Partial
            );
        }
    }

    #[test]
    fn every_other_request_is_answered_as_by_any_server() {
        let good = request(&gateway(), "gw.example.org", KEY, Some(&packet()));
        let other = SecretKey::from_bytes([8; 32]).public();
        assert_eq!(parse_request(&other, good.as_bytes()), RequestHead::Other);
        for (from, to) in [
            ("GET", "POST"),
            ("Upgrade: websocket", "Upgrade: h2c"),
            ("Version: 13", "Version: 8"),
            ("Connection: Upgrade", "Connection: close"),
            ("Longhaul-Packet: ", "Longhaul-Packet: !"),
            ("HTTP/1.1", "RTSP/1.0"),
        ] {
            let bad = good.replace(from, to);
            assert_eq!(
                parse_request(&gateway(), bad.as_bytes()),
                RequestHead::Other,
                "{to}"
            );
        }
        let endless = vec![b'a'; MAX_HEAD];
        assert_eq!(parse_request(&gateway(), &endless), RequestHead::Other);
        // An INIT whose mac1 is wrong.
        let init = (0..=255).map(|first| vec![first; 200]);
        let init = init.filter(|init| PacketKind::classify(init) == Some(PacketKind::Init));
        for init in init {
            let bad = request(&gateway(), "gw.example.org", KEY, Some(&init));
            assert_eq!(parse_request(&gateway(), bad.as_bytes()), RequestHead::Other);
        }
    }

    #[test]
    fn the_length_of_the_404_is_right() {
        let text = std::str::from_utf8(NOT_FOUND).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            text.contains(&format!("Content-Length: {}\r\n", body.len())),
            "{}",
            body.len()
        );
    }
}
