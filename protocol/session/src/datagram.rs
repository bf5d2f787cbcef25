//! The contents of the transport's datagrams (docs/protocol/session.md section 14): UDP datagrams of associations, cut
//! into parts where they do not fit.
mod pace;
mod parts;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{Buf as _, BufMut as _, Bytes};

pub use self::{
    pace::Pace,
    parts::{MAX_PARTS, Part, Place, Reassembly, part_of, parts},
};

/// Longest host name (RFC 1035 section 2.3.4).
const MAX_NAME: usize = 255;
/// Kinds of addresses, as in RFC 1928 section 5.
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// A malformed datagram. It is dropped: datagrams may be lost anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a datagram of an association is malformed")]
pub struct MalformedDatagram;

/// The host at the other end of a UDP datagram.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DatagramHost {
    /// An address.
    Address(IpAddr),
    /// A name, only towards the gateway, which resolves it.
    Name(String),
}

/// A UDP datagram of an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpDatagram {
    /// Destination towards the gateway, source towards the agent.
    pub host: DatagramHost,
    /// UDP port of the host.
    pub port: u16,
    /// Contents.
    pub payload: Bytes,
}

impl UdpDatagram {
    /// Returns the datagram's bytes, which [`parts`] sends; `None` if the name is longer than a name can be.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(MAX_NAME + 4 + self.payload.len());
        match &self.host {
            DatagramHost::Address(IpAddr::V4(ip)) => {
                out.push(IPV4);
                out.extend_from_slice(&ip.octets());
            }
            DatagramHost::Address(IpAddr::V6(ip)) => {
                out.push(IPV6);
                out.extend_from_slice(&ip.octets());
            }
            DatagramHost::Name(name) => {
                out.push(NAME);
                out.push(u8::try_from(name.len()).ok()?);
                out.extend_from_slice(name.as_bytes());
            }
        }
        out.put_u16(self.port);
        out.extend_from_slice(&self.payload);
        Some(out)
    }

    /// Decodes the bytes of [`UdpDatagram::encode`].
    ///
    /// # Errors
    /// The bytes end inside the address, or the address is none.
    pub fn decode(mut bytes: Bytes) -> Result<Self, MalformedDatagram> {
        let host = match bytes.try_get_u8().map_err(|_| MalformedDatagram)? {
            IPV4 => {
                let ip = bytes.try_get_u32().map_err(|_| MalformedDatagram)?;
                DatagramHost::Address(Ipv4Addr::from(ip).into())
            }
            IPV6 => {
                let ip = bytes.try_get_u128().map_err(|_| MalformedDatagram)?;
                DatagramHost::Address(Ipv6Addr::from(ip).into())
            }
            NAME => {
                let length = usize::from(bytes.try_get_u8().map_err(|_| MalformedDatagram)?);
                if length == 0 || bytes.len() < length {
                    return Err(MalformedDatagram);
                }
                let name = str::from_utf8(&bytes[..length]).map_err(|_| MalformedDatagram)?;
                let name = name.to_owned();
                bytes.advance(length);
                DatagramHost::Name(name)
            }
            _ => return Err(MalformedDatagram),
        };
        let port = bytes.try_get_u16().map_err(|_| MalformedDatagram)?;
        if port == 0 {
            return Err(MalformedDatagram);
        }
        Ok(Self {
            host,
            port,
            payload: bytes,
        })
    }
}
