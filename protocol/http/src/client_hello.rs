//! The first message of a TLS client (RFC 8446 section 4.1.2), as far as it tells where the connection goes.
//!
//! The parser is for proxies that pass TLS on untouched or decide whether to accept it. It accepts what it does not know,
//! and rejects what TLS libraries could read differently.
#[cfg(test)]
mod tests;

use std::net::IpAddr;

/// Maximum size of the message and the records around it: with a post-quantum key share and a ticket it takes about
/// 2 KiB.
pub const MAX_CLIENT_HELLO: usize = 64 * 1024;
/// Type of a record that contains a handshake (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;
/// Maximum length of a record without protection.
const MAX_RECORD: usize = 16 * 1024;
const RECORD_HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;
/// Type of the message.
const CLIENT_HELLO: u8 = 1;
const RANDOM: usize = 32;
/// Maximum length of a DNS name in text form (RFC 1035 section 2.3.4).
const MAX_NAME: usize = 253;

/// Types of extensions.
mod extension {
    pub(super) const SERVER_NAME: u16 = 0;
    pub(super) const SUPPORTED_GROUPS: u16 = 10;
    pub(super) const SIGNATURE_ALGORITHMS: u16 = 13;
    pub(super) const ALPN: u16 = 16;
    pub(super) const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
}

/// What the message says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The host name in the extension `server_name`, in lower case.
    pub server_name: Option<String>,
    /// The protocols that ALPN offers.
    pub protocols: Vec<Vec<u8>>,
    /// True if there is an extension of Encrypted Client Hello: the name may not be the real one. Browsers also send the
    /// extension without a meaning (GREASE), which cannot be told apart.
    pub has_encrypted: bool,
    /// The numbers of the cipher suites.
    pub cipher_suites: Vec<u16>,
    /// The numbers of the key exchange groups.
    pub groups: Vec<u16>,
    /// The numbers of the signature schemes.
    pub signature_schemes: Vec<u16>,
}

/// The bytes are not a ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection does not begin with a ClientHello of TLS")]
pub struct NotClientHello;

impl ClientHello {
    /// Parses the first bytes of a connection; `None` if the message is incomplete.
    ///
    /// # Errors
    /// However the bytes continue, they are not a ClientHello.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, NotClientHello> {
        let Some(message) = message(bytes)? else {
            return if bytes.len() > MAX_CLIENT_HELLO {
                Err(NotClientHello)
            } else {
                Ok(None)
            };
        };
        body(&message).ok_or(NotClientHello).map(Some)
    }

    /// Returns true if ALPN offers HTTP/1.1 or HTTP/2.
    pub fn speaks_http(&self) -> bool {
        self.protocols
            .iter()
            .any(|name| [&b"h2"[..], b"http/1.1"].contains(&&name[..]))
    }
}

/// The body of the message, which several records may carry; `None` if it is incomplete.
fn message(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, NotClientHello> {
    let mut message = Vec::new();
    loop {
        let (kind, major) = (bytes.first(), bytes.get(1));
        if kind.is_some_and(|kind| *kind != HANDSHAKE) || major.is_some_and(|major| *major != 3) {
            return Err(NotClientHello);
        }
        let Some((header, rest)) = bytes.split_at_checked(RECORD_HEADER) else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if length == 0 || length > MAX_RECORD {
            return Err(NotClientHello);
        }
        let is_whole = rest.len() >= length;
        let (part, rest) = rest.split_at(length.min(rest.len()));
        message.extend_from_slice(part);
        if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err(NotClientHello);
        }
        if let [_, high, middle, low, body @ ..] = &message[..] {
            let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            if length > MAX_CLIENT_HELLO - MESSAGE_HEADER {
                return Err(NotClientHello);
            }
            if let Some(body) = body.get(..length) {
                return Ok(Some(body.to_vec()));
            }
        }
        if !is_whole {
            return Ok(None);
        }
        bytes = rest;
    }
}

/// Parses the body of the message.
fn body(bytes: &[u8]) -> Option<ClientHello> {
    let mut rest = Parts(bytes);
    let _version = rest.number()?;
    let _random = rest.take(RANDOM)?;
    let _session = rest.short()?;
    let mut hello = ClientHello {
        cipher_suites: numbers(rest.long()?)?,
        ..ClientHello::default()
    };
    let _compression = rest.short()?;
    if rest.0.is_empty() {
        // TLS 1.2 has no extensions without this list.
        return Some(hello);
    }
    let mut extensions = Parts(rest.long()?);
    if !rest.0.is_empty() {
        return None;
    }
    let mut known = Vec::new();
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let content = Parts(extensions.long()?);
        if known.contains(&kind) {
            return None;
        }
        known.push(kind);
        apply(&mut hello, kind, content)?;
    }
    Some(hello)
}

/// Applies one extension.
fn apply(hello: &mut ClientHello, kind: u16, mut content: Parts<'_>) -> Option<()> {
    match kind {
        extension::SERVER_NAME => hello.server_name = server_name(content)?,
        extension::SUPPORTED_GROUPS => hello.groups = numbers(content.last()?)?,
        extension::SIGNATURE_ALGORITHMS => hello.signature_schemes = numbers(content.last()?)?,
        extension::ALPN => {
            let mut list = Parts(content.last()?);
            while !list.0.is_empty() {
                hello.protocols.push(list.short()?.to_vec());
            }
        }
        extension::ENCRYPTED_CLIENT_HELLO => hello.has_encrypted = true,
        _ => {}
    }
    Some(())
}

/// The host name of the extension `server_name` (RFC 6066 section 3); no address is one.
fn server_name(mut content: Parts<'_>) -> Option<Option<String>> {
    const HOST_NAME: u8 = 0;
    let mut list = Parts(content.last()?);
    let kind = list.take(1)?;
    let name = list.last()?;
    if kind != [HOST_NAME] {
        return None;
    }
    let is_in_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    if name.is_empty() || name.len() > MAX_NAME || !name.iter().all(is_in_name) {
        return None;
    }
    let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
    Some(Some(name).filter(|name| name.parse::<IpAddr>().is_err()))
}

fn numbers(bytes: &[u8]) -> Option<Vec<u16>> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect())
}

/// Bytes whose parts are taken one after the other.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(part)
    }

    fn number(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A part behind its length of one byte.
    fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.take(1)?[0];
        self.take(usize::from(length))
    }

    /// A part behind its length of two bytes.
    fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::from(length))
    }

    /// The same, behind which nothing follows.
    fn last(&mut self) -> Option<&'a [u8]> {
        self.long().filter(|_| self.0.is_empty())
    }
}
