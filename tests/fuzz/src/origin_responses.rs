//! Responses of origins over HTTP/1.1 (`docs/decisions/0099-responses-are-read-as-browsers-read-them.md`).
use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

use http::Request;
use longhaul_origin::{HeadLimits, OldHttp, ResponseReader};
use tokio::io::{AsyncRead, ReadBuf};

/// Larger inputs would be read in several pieces, and the sizes of chunks depend on pieces.
const MAX_INPUT: usize = 8192;

/// What the reader writes is well formed: a strict parser accepts it.
pub(crate) fn response(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(MAX_INPUT)];
    for method in ["GET", "HEAD"] {
        let Some(written) = read(bytes, method) else {
            continue;
        };
        if written.is_empty() {
            continue;
        }
        let mut fields = [httparse::EMPTY_HEADER; 600];
        let mut head = httparse::Response::new(&mut fields);
        let parsed = head.parse(&written).expect("the head is well formed");
        assert!(parsed.is_complete(), "the head is complete");
    }
}

/// All that the reader writes of a response, or `None` if it refuses the response.
fn read(mut bytes: &[u8], method: &str) -> Option<Vec<u8>> {
    let limits = HeadLimits {
        old_http: OldHttp::Accepted,
        end_may_be_missing: true,
        ..HeadLimits::default()
    };
    let mut reader = ResponseReader::new(&mut bytes, limits);
    let request = Request::builder()
        .method(method)
        .body(())
        .expect("a valid request");
    reader.expected().set(&request);
    let mut all = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let mut buf = ReadBuf::new(&mut piece);
        match Pin::new(&mut reader).poll_read(&mut Context::from_waker(Waker::noop()), &mut buf) {
            Poll::Ready(Ok(())) if buf.filled().is_empty() => return Some(all),
            Poll::Ready(Ok(())) => all.extend_from_slice(buf.filled()),
            Poll::Ready(Err(_)) => return None,
            Poll::Pending => unreachable!("all bytes are there"),
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP 404\nX : 1\n folded\nno colon\n\nbody",
        "\r\nHTTP/1.2 999  X\r\nTransfer-Encoding: chunked\r\n\r\n5 \nhello\n0;x=y\nA: 1\n\n",
        "HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.1 304 X\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.0 302 X\r\nLocation: /\u{1}\r\nSet-Cookie: a=\u{7f}\r\nX: a\rY: b",
        "ICY 200 OK\r\n\r\nmusic",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
