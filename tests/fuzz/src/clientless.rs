//! Requests of clients without an agent (`docs/decisions/0045-clients-without-an-agent.md`).
use bytes::BytesMut;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use longhaul_clientless::{
    ChunkEvent, ChunkedDecoder, DnsQuestion, HeadError, HeadReader, Reply, RequestTarget, check_http2,
};

/// What a reader made of the first head.
type First = Option<Result<(String, RequestTarget), HeadError>>;

/// Heads and chunked bodies are read alike whether they arrive at once or byte by byte.
pub(crate) fn request_reader(bytes: &[u8]) {
    assert_eq!(first_head(bytes, bytes.len().max(1)), first_head(bytes, 1));
    assert_eq!(body(bytes, bytes.len().max(1)), body(bytes, 1));
}

fn first_head(bytes: &[u8], step: usize) -> First {
    let (mut reader, mut buffer) = (HeadReader::default(), BytesMut::new());
    for piece in bytes.chunks(step) {
        buffer.extend_from_slice(piece);
        match reader.next(&mut buffer) {
            Ok(None) => {}
            Ok(Some(head)) => return Some(Ok((head.method.to_string(), head.target))),
            Err(error) => return Some(Err(error)),
        }
    }
    None
}

/// The bytes of a chunked body, and whether it ended; `None` if it is malformed.
fn body(bytes: &[u8], step: usize) -> Option<(Vec<u8>, bool)> {
    let (mut decoder, mut buffer, mut body) = (ChunkedDecoder::default(), BytesMut::new(), Vec::new());
    for piece in bytes.chunks(step) {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.next(&mut buffer).ok()? {
                ChunkEvent::Data(data) => body.extend_from_slice(&data),
                ChunkEvent::NeedInput => break,
                ChunkEvent::End => return Some((body, true)),
            }
        }
    }
    Some((body, false))
}

pub(crate) fn reader_seeds() -> Vec<Vec<u8>> {
    [
        "GET http://a.test:8080/x?y=z HTTP/1.1\r\nHost: a.test:8080\r\nAccept: */*\r\n\r\n",
        "\r\nPOST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\nProxy-Authorization: Basic YTpi\r\n\r\n",
        "PUT http://a.test/ HTTP/1.0\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
        "5;name=\"value\"\r\nhello\r\n00a\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// A request of HTTP/2 that is accepted means the same when it is written out: method and URL in the first line, then fields.
pub(crate) fn http2_request(bytes: &[u8]) {
    let Some((method, uri, fields)) = parts(bytes) else {
        return;
    };
    let request = |uri: &Uri| {
        let mut request = Request::new(());
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri.clone();
        for (name, value) in &fields {
            request.headers_mut().append(name.clone(), value.clone());
        }
        request
    };
    let Ok(head) = check_http2(request(&uri), true) else {
        return;
    };
    let written = match &head.target {
        RequestTarget::Origin(target) => target.url(),
        RequestTarget::Tunnel(host, port) if host.contains(':') => format!("[{host}]:{port}"),
        RequestTarget::Tunnel(host, port) => format!("{host}:{port}"),
        RequestTarget::Proxy(_) => return,
    };
    let written = written.parse().expect("the URL of a target");
    let again = check_http2(request(&written), true).expect("the same request");
    assert_eq!(again.target, head.target);
}

type Parts = (Method, Uri, Vec<(HeaderName, HeaderValue)>);

fn parts(bytes: &[u8]) -> Option<Parts> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let first = std::str::from_utf8(lines.next()?).ok()?;
    let (method, uri) = first.split_once(' ')?;
    let fields = lines.map(|line| {
        let at = line.iter().position(|byte| *byte == b'=')?;
        let name = HeaderName::from_bytes(&line[..at]).ok()?;
        Some((name, HeaderValue::from_bytes(&line[at + 1..]).ok()?))
    });
    // More fields than a map can hold are the library's concern.
    let fields: Option<Vec<_>> = fields.take(300).collect();
    Some((method.parse().ok()?, uri.parse().ok()?, fields?))
}

pub(crate) fn http2_seeds() -> Vec<Vec<u8>> {
    [
        "GET http://a.test:8080/x?y=z\nhost=a.test:8080\ncookie=a\ncookie=b",
        "POST http://A.test/\ncontent-length=3\nte=trailers\nproxy-authorization=Basic YTpi",
        "CONNECT [2001:db8::1]:443\nhost=[2001:db8::1]:443",
        "CONNECT a.test:443\nuser-agent=x",
        "GET https://gw.test:3129/proxy.pac\nhost=gw.test:3129",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// An answer over UDP is at most twice as long as its question, with the same number, and no question itself.
pub(crate) fn dns_question(bytes: &[u8]) {
    let Some(question) = DnsQuestion::parse(bytes) else {
        return;
    };
    if let Some(answer) = question.over_udp(Reply::failed()) {
        assert!(answer.len() <= 2 * bytes.len());
        assert_eq!(answer.get(..2), bytes.get(..2));
        assert!(DnsQuestion::parse(&answer).is_none());
    }
    let _encoded = question.over_tcp(Reply::failed());
}

pub(crate) fn dns_seeds() -> Vec<Vec<u8>> {
    let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01".to_vec();
    let mut with_options = question.clone();
    // One additional record: EDNS with a payload of 1,232 bytes and a cookie.
    with_options[11] = 1;
    with_options.extend(b"\0\0\x29\x04\xd0\0\0\0\0\0\x0c\0\x0a\0\x0801234567");
    vec![question, with_options, vec![0; 12]]
}
