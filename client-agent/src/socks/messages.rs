//! The messages of SOCKS 5 (RFC 1928) and of its name and password (RFC 1929).
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use longhaul_http::target::{self, TargetError};

/// First byte of a SOCKS 5 connection (RFC 1928 section 3). No HTTP request and no TLS connection begins with it, so
/// that no web page can make a browser send it to this port.
pub const VERSION: u8 = 5;
/// Version of the name and password (RFC 1929 section 2).
const PASSWORD_VERSION: u8 = 1;

/// Errors of messages; the client's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SocksError {
    /// The first byte of a message is not its version.
    #[error("the client does not speak SOCKS 5")]
    Version,
    /// The message has a reserved or empty field that RFC 1928 or 1929 does not permit.
    #[error("the client's SOCKS message is malformed")]
    Malformed,
}

/// Ways in which a client shows who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Not at all.
    Nothing,
    /// Name and password (RFC 1929).
    Password,
}

/// The client's first message: the methods that it offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Greeting {
    /// Offers [`Method::Nothing`].
    pub nothing: bool,
    /// Offers [`Method::Password`].
    pub password: bool,
}

/// A name and a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameAndPassword {
    /// The name, at most 255 bytes.
    pub name: Vec<u8>,
    /// The password, at most 255 bytes.
    pub password: Vec<u8>,
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// A TCP connection to the destination.
    Connect,
    /// The relay of UDP datagrams. The destination is the address from which the client will send them, if it knows it.
    Associate,
    /// Another command: incoming connections, or an unknown one.
    Other(u8),
}

/// Destination of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Host in lower case, addresses without brackets, and port.
    Host(String, u16),
    /// A host or port that cannot be one.
    Invalid(TargetError),
    /// An address of an unknown kind. The length of the message is unknown, too.
    UnknownKind,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked for.
    pub command: Command,
    /// Where.
    pub destination: Destination,
}

/// Result of a request (RFC 1928 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The tunnel is open.
    Succeeded,
    /// Any failure that has no code.
    Failed,
    /// A rule of the gateway's operator, or of the agent.
    NotAllowed,
    /// The network cannot be reached.
    NetworkUnreachable,
    /// The host cannot be reached, or its name does not exist.
    HostUnreachable,
    /// The host refused the connection.
    ConnectionRefused,
    /// The command is not supported.
    CommandNotSupported,
    /// The kind of address is not supported.
    AddressNotSupported,
}

/// Message of the gateway's or agent's choice of a method (RFC 1928 section 3); `None`: no offered one is acceptable.
pub const fn method_message(method: Option<Method>) -> [u8; 2] {
    [
        VERSION,
        match method {
            Some(Method::Nothing) => 0,
            Some(Method::Password) => 2,
            None => 0xff,
        },
    ]
}

/// The answer to a name and password (RFC 1929 section 2).
pub const fn password_message(is_right: bool) -> [u8; 2] {
    [PASSWORD_VERSION, !is_right as u8]
}

impl Reply {
    const fn code(self) -> u8 {
        match self {
            Self::Succeeded => 0,
            Self::Failed => 1,
            Self::NotAllowed => 2,
            Self::NetworkUnreachable => 3,
            Self::HostUnreachable => 4,
            Self::ConnectionRefused => 5,
            Self::CommandNotSupported => 7,
            Self::AddressNotSupported => 8,
        }
    }

    /// The message. It has no address: the gateway's own does not help the client, and tells about the gateway.
    pub const fn message(self) -> [u8; 10] {
        [VERSION, self.code(), 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

impl Greeting {
    /// Decodes the message at the beginning of `bytes`, and returns its length, too; `None` if it is not complete.
    ///
    /// # Errors
    /// These bytes do not begin a SOCKS 5 connection.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, SocksError> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let Some(methods) = reader.counted() else {
            return Ok(None);
        };
        let greeting = Self {
            nothing: methods.contains(&0),
            password: methods.contains(&2),
        };
        Ok(Some((greeting, reader.position)))
    }
}

impl NameAndPassword {
    /// Decodes the message at the beginning of `bytes`, and returns its length, too; `None` if it is not complete.
    ///
    /// # Errors
    /// The name is empty, or these bytes begin another message.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, SocksError> {
        let mut reader = Reader::new(bytes, PASSWORD_VERSION)?;
        let Some(name) = reader.counted() else {
            return Ok(None);
        };
        if name.is_empty() {
            return Err(SocksError::Malformed);
        }
        let Some(password) = reader.counted() else {
            return Ok(None);
        };
        let pair = Self {
            name: name.to_vec(),
            password: password.to_vec(),
        };
        Ok(Some((pair, reader.position)))
    }
}

impl Request {
    /// Decodes the message at the beginning of `bytes`, and returns its length, too; `None` if it is not complete.
    ///
    /// # Errors
    /// These bytes begin another message.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, SocksError> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let Some(&[command, reserved, kind]) = reader.array() else {
            return Ok(None);
        };
        if reserved != 0 {
            return Err(SocksError::Malformed);
        }
        let host = match kind {
            1 => reader.array::<4>().map(|ip| Ok(Ipv4Addr::from(*ip).to_string())),
            3 => reader.counted().map(host_of_name),
            4 => reader.array::<16>().map(|ip| Ok(Ipv6Addr::from(*ip).to_string())),
            _ => {
                let request = Self::new(command, Destination::UnknownKind);
                return Ok(Some((request, bytes.len())));
            }
        };
        let (Some(host), Some(port)) = (host, reader.array()) else {
            return Ok(None);
        };
        let destination = match (host, u16::from_be_bytes(*port)) {
            (Err(error), _) => Destination::Invalid(error),
            (Ok(_), 0) => Destination::Invalid(TargetError::BadPort),
            (Ok(host), port) => Destination::Host(host, port),
        };
        Ok(Some((Self::new(command, destination), reader.position)))
    }

    const fn new(command: u8, destination: Destination) -> Self {
        let command = match command {
            1 => Command::Connect,
            3 => Command::Associate,
            other => Command::Other(other),
        };
        Self { command, destination }
    }
}

/// The host of a name. Some programs send addresses as names.
pub(super) fn host_of_name(name: &[u8]) -> Result<String, TargetError> {
    let name = str::from_utf8(name).map_err(|_| TargetError::BadHost)?;
    if let Ok(ip) = name.parse::<IpAddr>() {
        return Ok(ip.to_string());
    }
    let authority = name.parse().map_err(|_| TargetError::BadHost)?;
    match target::host_and_port(&authority)? {
        (host, None) => Ok(host),
        (_, Some(_)) => Err(TargetError::BadHost),
    }
}

/// The message that tells a client the address to which it sends its datagrams.
pub fn associated_message(relay: SocketAddr) -> Vec<u8> {
    let mut message = vec![VERSION, Reply::Succeeded.code(), 0];
    encode_address(relay, &mut message);
    message
}

/// Appends an address with its kind, and a port.
pub(super) fn encode_address(address: SocketAddr, out: &mut Vec<u8>) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(1);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_be_bytes());
}

/// Reads the fields of a message.
struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Begins behind the version, if it has arrived.
    fn new(bytes: &'a [u8], version: u8) -> Result<Self, SocksError> {
        match bytes.first() {
            Some(first) if *first != version => Err(SocksError::Version),
            _ => Ok(Self { bytes, position: 1 }),
        }
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.position.checked_add(length)?;
        let field = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(field)
    }

    fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// A field behind one byte with its length.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let [length] = self.array()?;
        self.take((*length).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(bytes: &[u8]) -> Destination {
        let (request, length) = Request::decode(bytes).unwrap().unwrap();
        assert_eq!((request.command, length), (Command::Connect, bytes.len()));
        request.destination
    }

    fn named(name: &str, port: u16) -> Vec<u8> {
        let length = u8::try_from(name.len()).unwrap();
        let head = [VERSION, 1, 0, 3, length];
        [&head[..], name.as_bytes(), &port.to_be_bytes()].concat()
    }

    #[test]
    fn requests_name_a_host_or_an_address() {
        let to = |host: &str, port| Destination::Host(host.to_owned(), port);
        assert_eq!(host(&named("Git.Example.org", 22)), to("git.example.org", 22));
        assert_eq!(host(&named("192.0.2.1", 22)), to("192.0.2.1", 22));
        assert_eq!(host(&named("2001:DB8::1", 22)), to("2001:db8::1", 22));
        assert_eq!(host(&[5, 1, 0, 1, 192, 0, 2, 7, 3, 225]), to("192.0.2.7", 993));
        let mut v6 = vec![5, 1, 0, 4];
        v6.extend("2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
        v6.extend([0, 22]);
        assert_eq!(host(&v6), to("2001:db8::7", 22));
    }

    #[test]
    fn what_is_no_host_is_not_asked_for() {
        for name in [
            "",
            "a b",
            "me@a.test",
            "a.test:80",
            "[::1]:80",
            "a/b",
            "\u{e4}.test",
            "a\r\nb",
        ] {
            assert!(
                matches!(host(&named(name, 22)), Destination::Invalid(_)),
                "{name:?}"
            );
        }
        assert_eq!(
            host(&named("a.test", 0)),
            Destination::Invalid(TargetError::BadPort)
        );
        assert_eq!(host(&[5, 1, 0, 9, 1, 2]), Destination::UnknownKind);
    }

    #[test]
    fn messages_are_decoded_once_they_are_complete_and_not_read_beyond() {
        type Decoded = fn(&[u8]) -> Option<usize>;
        let messages: [(&[u8], Decoded); 3] = [
            (&[5, 3, 0, 1, 2], |bytes| {
                Greeting::decode(bytes).unwrap().map(|(_, length)| length)
            }),
            (&[1, 2, b'm', b'e', 1, b'x'], |bytes| {
                NameAndPassword::decode(bytes).unwrap().map(|(_, length)| length)
            }),
            (&[5, 1, 0, 3, 1, b'a', 0, 22], |bytes| {
                Request::decode(bytes).unwrap().map(|(_, length)| length)
            }),
        ];
        for (message, decode) in messages {
            for end in 0..message.len() {
                assert_eq!(decode(&message[..end]), None, "{end} bytes of {message:?}");
            }
            let longer = [message, b"SSH-2.0"].concat();
            assert_eq!(decode(&longer), Some(message.len()));
        }
    }

    #[test]
    fn other_versions_are_refused_at_the_first_byte() {
        assert_eq!(Greeting::decode(&[4]), Err(SocksError::Version));
        assert_eq!(Request::decode(b"GET / HTTP/1.1"), Err(SocksError::Version));
        assert_eq!(NameAndPassword::decode(&[5]), Err(SocksError::Version));
        assert_eq!(NameAndPassword::decode(&[1, 0]), Err(SocksError::Malformed));
        assert_eq!(Request::decode(&[5, 1, 7, 1]), Err(SocksError::Malformed));
    }
}
