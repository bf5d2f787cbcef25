//! Request targets of programs, which the agent encodes before it parses them.
use longhaul_http::target_encoder::TargetEncoder;

/// Pieces make no difference, and what is encoded stays as it is.
pub(crate) fn request_targets(bytes: &[u8]) {
    let encoded = encode(bytes, bytes.len());
    assert_eq!(encode(bytes, 1), encoded);
    assert_eq!(encode(bytes, 7), encoded);
    assert_eq!(encode(&encoded, encoded.len()), encoded);
}

fn encode(bytes: &[u8], piece: usize) -> Vec<u8> {
    let mut encoder = TargetEncoder::default();
    let mut encoded = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        encoded.extend_from_slice(&encoder.read(piece));
    }
    encoded.extend(encoder.end());
    encoded
}

pub(crate) fn target_seeds() -> Vec<Vec<u8>> {
    let requests: [&[u8]; 4] = [
        b"GET http://a.test/<a> b?\"c d\"  HTTP/1.1\r\nA: b\r\n\r\nGET /\xe9 HTTP/1.1\r\n\r\n",
        b"POST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\n<b> GET /a HTT HTTP/1.1\n\n",
        b"CONNECT a.test:443 HTTP/1.1\r\n\r\n\x16\x03\x01 <",
        b"PUT /a?b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /< HTTP/1.1\r\n\r\n",
    ];
    requests.map(<[u8]>::to_vec).to_vec()
}
