//! Messages of SOCKS clients (RFC 1928, RFC 1929).
use longhaul_agent::socks::{Destination, Greeting, NameAndPassword, Request};

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
