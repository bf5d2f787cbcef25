//! Where heads and bodies end to the byte, and which responses end their connection.
use std::task::Waker;

use http::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufWriter, duplex};

use super::{
    head::StatusLine,
    tests::{LIMITS, Pieces, response},
    *,
};

const TLS: HeadLimits = HeadLimits {
    end_may_be_missing: false,
    ..LIMITS
};

/// A head of this length, with or without the empty line at its end.
fn head_of(length: usize, end: &str) -> Vec<u8> {
    let start = "HTTP/1.1 200 OK\r\nA: ";
    let value = "y".repeat(length - start.len() - end.len());
    format!("{start}{value}{end}").into_bytes()
}

#[test]
fn a_head_fits_up_to_the_limit_in_pieces_of_any_length() {
    let most = LIMITS.bytes;
    for junk in ["", "\r\n", "\n\n\n\n"] {
        for (limits, end) in [(TLS, "\r\n\r\n"), (LIMITS, "\r\n\r\n"), (LIMITS, "")] {
            for (length, expected) in [(most, None), (most + 1, Some(HeadError::TooLarge))] {
                let bytes = [junk.as_bytes(), &head_of(length, end)].concat();
                for piece in [1000, most, most + junk.len() - 1, bytes.len()] {
                    let (text, error) = response("GET", limits, &bytes, piece);
                    assert_eq!(error, expected, "{junk:?} {end:?} {length} {piece}");
                    assert_eq!(text.is_empty(), expected.is_some());
                }
            }
        }
    }
}

#[test]
fn a_head_without_end_is_not_read_beyond_the_limit() {
    for start in [&b"HTTP/1.1 200 OK\r\n"[..], b"HTTP/1.1 200 OK", b"no HTTP at all"] {
        let line = [&b"A: "[..], &[b'y'; 995], b"\r\n"].concat();
        let pieces = [vec![start.to_vec()], vec![line; 1000]].concat();
        let mut reader = ResponseReader::new(Pieces(pieces), TLS);
        reader.expected().set(&Request::new(()));
        let mut bytes = [0; 100];
        let mut buf = ReadBuf::new(&mut bytes);
        let polled = Pin::new(&mut reader).poll_read(&mut Context::from_waker(Waker::noop()), &mut buf);
        assert!(matches!(polled, Poll::Ready(Err(_))) && buf.filled().is_empty());
        let most = LIMITS.bytes / 1000 + 2;
        assert!(1001 - reader.connection.0.len() <= most, "at most {most} pieces");
    }
}

#[test]
fn a_head_has_at_most_the_permitted_number_of_fields() {
    for (fields, expected) in [
        (LIMITS.fields, None),
        (LIMITS.fields + 1, Some(HeadError::TooLarge)),
        (2 * LIMITS.fields, Some(HeadError::TooLarge)),
    ] {
        let bytes = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(fields));
        assert_eq!(
            response("GET", LIMITS, bytes.as_bytes(), 1000).1,
            expected,
            "{fields}"
        );
    }
}

#[test]
fn eight_bytes_tell_whether_there_is_a_status_line() {
    for (bytes, expected) in [
        ("", StatusLine::Unknown),
        ("htt", StatusLine::Unknown),
        ("http", StatusLine::At(0)),
        ("xxxxhtt", StatusLine::Unknown),
        ("xxxxhttp", StatusLine::At(4)),
        ("xxxxxhtt", StatusLine::Missing),
        ("xxxxxhttp", StatusLine::Missing),
        ("SSH-2.0-", StatusLine::Missing),
    ] {
        assert_eq!(StatusLine::find(bytes.as_bytes()), expected, "{bytes:?}");
    }
}

#[test]
fn only_a_strict_response_keeps_its_connection() {
    for (method, head, is_kept) in [
        ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", true),
        ("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", true),
        ("GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n", true),
        ("GET", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n", false),
        ("GET", "HTTP/1.1 304 X\r\nContent-Length: 2\r\n", true),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", true),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n", false),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n", false),
        (
            "GET",
            "HTTP/1.1 304 X\r\nContent-Length: 2\r\nContent-Length: 2\r\n",
            false,
        ),
        ("GET", "\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n", false),
        ("GET", "xHTTP/1.1 200 OK\r\nContent-Length: 2\r\n", false),
        ("GET", "HTTP/1.2 200 OK\r\nContent-Length: 2\r\n", false),
        ("GET", "HTTP/2 200 OK\r\nContent-Length: 2\r\n", false),
        ("GET", "http/1.1 200 OK\r\nContent-Length: 2\r\n", false),
        ("GET", "HTTP/1.1 0200 OK\r\nContent-Length: 2\r\n", false),
        ("GET", "HTTP/1.1 OK\r\nContent-Length: 2\r\n", false),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n: x\r\n folded\r\n",
            false,
        ),
    ] {
        let bytes = format!("{head}\r\nok");
        let (text, _) = response(method, LIMITS, bytes.as_bytes(), 1000);
        let (head_of_hyper, _) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            !head_of_hyper.contains("connection: close"),
            is_kept,
            "{method} {head:?}"
        );
        assert!(
            !text.contains("folded"),
            "a line without a name is skipped as a whole"
        );
    }
}

#[test]
fn a_length_without_a_body_is_passed_on_only_where_it_has_a_meaning() {
    for (method, status, is_written) in [
        ("HEAD", 200, true),
        ("HEAD", 404, true),
        ("GET", 304, true),
        ("GET", 204, false),
        ("GET", 205, false),
        ("GET", 103, false),
    ] {
        let bytes = format!("HTTP/1.1 {status} X\r\nContent-Length: 3\r\n\r\n");
        let (text, _) = response(method, LIMITS, bytes.as_bytes(), 1000);
        let start = format!("HTTP/1.1 {status} \r\n");
        let fields = text.strip_prefix(&start).unwrap();
        assert_eq!(
            fields.starts_with("content-length: 3\r\n"),
            is_written,
            "{method} {status}"
        );
    }
}

#[test]
fn a_body_ends_at_its_length_in_a_buffer_that_is_partly_full() {
    let pieces = vec![
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_vec(),
        b"12".to_vec(),
        b"345HTTP/1.1 200 OK\r\n\r\nevil".to_vec(),
    ];
    let mut reader = ResponseReader::new(Pieces(pieces), LIMITS);
    reader.expected().set(&Request::new(()));
    let mut bytes = [0; 100];
    let mut buf = ReadBuf::new(&mut bytes);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..5 {
        assert!(matches!(
            Pin::new(&mut reader).poll_read(&mut cx, &mut buf),
            Poll::Ready(Ok(()))
        ));
    }
    assert!(buf.filled().ends_with(b"\r\n\r\n12345"));
}

#[tokio::test]
async fn requests_reach_the_connection_with_its_flush_and_its_end() {
    let (near, mut far) = duplex(100);
    let mut writer = ResponseReader::new(BufWriter::new(near), LIMITS);
    writer.write_all(b"request").await.unwrap();
    writer.flush().await.unwrap();
    let mut received = [0; 7];
    far.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"request");
    writer.shutdown().await.unwrap();
    assert_eq!(far.read(&mut received).await.unwrap(), 0);
}
