//! The header of UDP datagrams between a client and the agent (RFC 1928 section 7).
use std::net::{IpAddr, SocketAddr};

use bytes::{Buf as _, Bytes};
use longhaul_session::datagram::{DatagramHost, UdpDatagram};

use super::messages::{SocksError, encode_address, host_of_name};

/// Decodes a datagram of a client.
///
/// # Errors
/// It is malformed, a fragment (which need not be supported), or its destination is none. It is dropped.
pub fn decode_datagram(mut bytes: Bytes) -> Result<UdpDatagram, SocksError> {
    const RESERVED: u16 = 0;
    const NOT_FRAGMENTED: u8 = 0;
    let malformed = |_| SocksError::Malformed;
    let (reserved, fragment) = (
        bytes.try_get_u16().map_err(malformed)?,
        bytes.try_get_u8().map_err(malformed)?,
    );
    if reserved != RESERVED || fragment != NOT_FRAGMENTED {
        return Err(SocksError::Malformed);
    }
    // The kinds of addresses are those of the session, which took them from here.
    let datagram = UdpDatagram::decode(bytes).map_err(|_| SocksError::Malformed)?;
    let host = match datagram.host {
        DatagramHost::Address(ip) => DatagramHost::Address(ip),
        // Some programs send addresses as names.
        DatagramHost::Name(name) => {
            let host = host_of_name(name.as_bytes()).map_err(|_| SocksError::Malformed)?;
            host.parse::<IpAddr>()
                .map_or(DatagramHost::Name(host), DatagramHost::Address)
        }
    };
    Ok(UdpDatagram { host, ..datagram })
}

/// Returns a datagram for a client, with the address of the host that sent it.
pub fn encode_datagram(from: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(3 + 19 + payload.len());
    bytes.extend_from_slice(&[0, 0, 0]);
    encode_address(from, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &'static [u8]) -> Result<UdpDatagram, SocksError> {
        decode_datagram(Bytes::from_static(bytes))
    }

    #[test]
    fn datagrams_name_a_host_or_an_address() {
        let datagram = decoded(b"\0\0\0\x03\x0aDns.Test.a\x00\x35question").unwrap();
        assert_eq!(
            (datagram.host, datagram.port),
            (DatagramHost::Name("dns.test.a".to_owned()), 53)
        );
        assert_eq!(datagram.payload, "question");
        let address = DatagramHost::Address([192, 0, 2, 1].into());
        assert_eq!(
            decoded(b"\0\0\0\x01\xc0\x00\x02\x01\x00\x35").unwrap().host,
            address
        );
        assert_eq!(decoded(b"\0\0\0\x03\x09192.0.2.1\x00\x35").unwrap().host, address);
    }

    #[test]
    fn fragments_and_malformed_datagrams_are_refused() {
        for bytes in [
            &b""[..],
            b"\0\0",
            b"\0\0\x01\x01\xc0\x00\x02\x01\x00\x35first fragment",
            b"\0\0\x81\x01\xc0\x00\x02\x01\x00\x35last fragment",
            b"\0\x01\0\x01\xc0\x00\x02\x01\x00\x35",
            b"\0\0\0\x01\xc0\x00\x02\x01\x00\x00no port",
            b"\0\0\0\x01\xc0\x00\x02",
            b"\0\0\0\x02\xc0\x00\x02\x01\x00\x35",
            b"\0\0\0\x03\x00\x00\x35",
            b"\0\0\0\x03\x03a b\x00\x35",
        ] {
            assert_eq!(decoded(bytes), Err(SocksError::Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn an_encoded_datagram_is_what_a_client_decodes() {
        for from in ["192.0.2.1:53", "[2001:db8::1]:443"] {
            let from: SocketAddr = from.parse().unwrap();
            let datagram = decode_datagram(encode_datagram(from, b"answer").into()).unwrap();
            assert_eq!(
                (datagram.host, datagram.port, &datagram.payload[..]),
                (DatagramHost::Address(from.ip()), from.port(), &b"answer"[..])
            );
        }
    }
}
