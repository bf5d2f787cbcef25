//! The first message of TLS, which agent and gateway read before they pass it on.
use longhaul_http::client_hello::{ClientHello, MAX_CLIENT_HELLO};

/// However the bytes arrive, they mean the same: once they are a message, or none, more bytes change nothing.
pub(crate) fn client_hello(bytes: &[u8]) {
    let whole = ClientHello::parse(bytes);
    for end in 0..bytes.len().min(MAX_CLIENT_HELLO) {
        match ClientHello::parse(&bytes[..end]) {
            Ok(None) => {}
            decided => {
                assert_eq!(decided, whole);
                return;
            }
        }
    }
}

/// A message for `a.test` with ALPN, in one record and in two.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let extensions = [
        &[0, 0, 0, 11, 0, 9, 0, 0, 6][..],
        b"a.test",
        &[0, 16, 0, 5, 0, 3, 2],
        b"h2",
        &[0, 10, 0, 4, 0, 2, 0, 29],
        &[0, 13, 0, 4, 0, 2, 4, 3],
        &[0xfe, 0x0d, 0, 1, 0],
    ]
    .concat();
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap_or_default().to_be_bytes();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0, 0, 2, 0x13, 1, 1, 0],
        &length(&extensions),
        &extensions,
    ]
    .concat();
    let message = [&[1, 0][..], &length(&body), &body].concat();
    let record = |part: &[u8]| [&[22, 3, 1][..], &length(part), part].concat();
    let (first, rest) = message.split_at(20);
    vec![
        record(&message),
        [record(first), record(rest)].concat(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ]
}
