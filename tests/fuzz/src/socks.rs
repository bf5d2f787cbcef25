//! Messages and datagrams of SOCKS clients (RFC 1928, RFC 1929), and datagrams of associations in the session.
use std::net::SocketAddr;

use bytes::Bytes;
use longhaul_agent::socks::{
    Destination, Greeting, NameAndPassword, Request, decode_datagram, encode_datagram,
};
use longhaul_session::{
    FetchId,
    datagram::{DatagramHost, MAX_PARTS, Reassembly, UdpDatagram, part_of, parts},
};

/// A message is decoded, refused, or not complete; a complete one does not depend on what follows it, and its
/// beginnings are not complete.
pub(crate) fn socks_messages(bytes: &[u8]) {
    whole(bytes, Greeting::decode);
    whole(bytes, NameAndPassword::decode);
    if let Ok(Some((request, _))) = Request::decode(bytes) {
        match request.destination {
            // Nobody knows where such a message ends.
            Destination::UnknownKind => return,
            Destination::Invalid(_) => {}
            Destination::Host(host, port) => {
                assert!(!host.is_empty() && port != 0);
                assert!(
                    !host
                        .bytes()
                        .any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control())
                );
            }
        }
    }
    whole(bytes, Request::decode);
}

type Decoded<M> = Result<Option<(M, usize)>, longhaul_agent::socks::SocksError>;

fn whole<M: PartialEq + std::fmt::Debug>(bytes: &[u8], decode: impl Fn(&[u8]) -> Decoded<M>) {
    if let Ok(Some((message, length))) = decode(bytes) {
        assert_eq!(decode(&bytes[..length]), Ok(Some((message, length))));
        for end in 0..length {
            assert_eq!(decode(&bytes[..end]), Ok(None), "{end} of {length} bytes");
        }
    }
}

pub(crate) fn socks_seeds() -> Vec<Vec<u8>> {
    let messages: [&[u8]; 5] = [
        b"\x05\x02\x00\x02",
        b"\x01\x02me\x0fa long password",
        b"\x05\x01\x00\x03\x08git.test\x00\x16SSH-2.0",
        b"\x05\x01\x00\x01\xc0\x00\x02\x01\x03\xe1",
        b"\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x16",
    ];
    messages.map(<[u8]>::to_vec).to_vec()
}

/// A datagram of a client is decoded or dropped; a decoded one crosses the hop unchanged.
pub(crate) fn socks_datagram(bytes: &[u8]) {
    let Ok(datagram) = decode_datagram(Bytes::copy_from_slice(bytes)) else {
        return;
    };
    let encoded = datagram.encode().expect("a name of a message fits");
    assert_eq!(UdpDatagram::decode(encoded.into()).as_ref(), Ok(&datagram));
    if let DatagramHost::Address(ip) = datagram.host {
        let from = SocketAddr::new(ip, datagram.port);
        let returned = encode_datagram(from, &datagram.payload);
        assert_eq!(decode_datagram(returned.into()), Ok(datagram));
    }
}

pub(crate) fn socks_datagram_seeds() -> Vec<Vec<u8>> {
    vec![
        b"\0\0\0\x01\xc0\x00\x02\x01\x00\x35question".to_vec(),
        b"\0\0\0\x03\x08dns.test\x00\x35question".to_vec(),
        b"\0\0\0\x03\x09192.0.2.1\x00\x35question".to_vec(),
        b"\0\0\x01\x01\xc0\x00\x02\x01\x00\x35fragment".to_vec(),
        encode_datagram(
            SocketAddr::new([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), 443),
            b"answer",
        ),
    ]
}

/// Datagrams of the session, each behind a byte with its length: parts are decoded or dropped, and whatever is put
/// together is bounded, decodes or is dropped, and returns from its own parts.
pub(crate) fn association_datagrams(mut bytes: &[u8]) {
    let mut reassembly = Reassembly::default();
    while let Some((&length, rest)) = bytes.split_first() {
        let (datagram, rest) = rest.split_at(rest.len().min(length.into()));
        bytes = rest;
        let Ok(part) = part_of(Bytes::copy_from_slice(datagram)) else {
            continue;
        };
        let Some(whole) = reassembly.take(part.place, part.bytes) else {
            continue;
        };
        assert!(whole.len() <= usize::from(MAX_PARTS) * 255);
        if let Ok(datagram) = UdpDatagram::decode(whole) {
            through_parts(&datagram, part.association);
        }
    }
}

fn through_parts(datagram: &UdpDatagram, association: FetchId) {
    let mut reassembly = Reassembly::default();
    let encoded = datagram.encode().expect("it was decoded");
    let mut returned = None;
    for bytes in parts(association, 1, &encoded, 400) {
        let part = part_of(bytes).expect("an own part");
        assert_eq!(part.association, association);
        returned = reassembly.take(part.place, part.bytes);
    }
    let returned = returned.map(UdpDatagram::decode);
    assert_eq!(returned, Some(Ok(datagram.clone())));
}

pub(crate) fn association_seeds() -> Vec<Vec<u8>> {
    let datagram = UdpDatagram {
        host: DatagramHost::Name("dns.test".to_owned()),
        port: 53,
        payload: Bytes::from_static(b"a question"),
    };
    let encoded = datagram.encode().expect("a short name");
    let with_lengths = |max: usize| -> Vec<u8> {
        let parts = parts(FetchId::FIRST, 7, &encoded, max);
        let with_length = |part: &Bytes| [&[u8::try_from(part.len()).unwrap_or(0)][..], part].concat();
        parts.iter().flat_map(with_length).collect()
    };
    vec![with_lengths(100), with_lengths(14), with_lengths(9)]
}
