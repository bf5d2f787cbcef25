//! Requests of clients without an agent (`docs/decisions/0045-clients-without-an-agent.md`).
use bytes::BytesMut;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use longhaul_gateway::{ChunkEvent, ChunkedDecoder, HeadError, HeadReader, RequestTarget, check_http2};

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
